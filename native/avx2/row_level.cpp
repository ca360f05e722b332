// The row kernels of row_level.h with AVX2: sixteen lanes are two vectors; index scores as 16-bit products.
#include "avx2/vectors.h"
#include "row_arithmetic.h"

namespace whitedwarf {
namespace {

constexpr int kDotHeads = 2, kDotKeys = 3;        // times two vectors: 12 accumulators
constexpr int kBlendHeads = 4, kBlendVectors = 3;  // likewise
constexpr int kNearKeys = 9;  // keys of 2 KB each that share the nearest cache with two queries
constexpr int kKeyLanes = 8;
constexpr int kMaxKeyWords = kMaxRowDims / 8;

__m256 e4m3_to_floats(const uint8_t* codes, __m256 scale) {
    const __m128i wide = _mm_cvtepu8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes)));
    const __m128i magnitude = _mm_and_si128(_mm_slli_epi16(wide, 7), _mm_set1_epi16(0x3f80));
    const __m128i sign = _mm_and_si128(_mm_slli_epi16(wide, 8), _mm_set1_epi16(short(0x8000)));
    // As a half the code is 2^8 too small; both products are exact.
    const __m256 half = _mm256_cvtph_ps(_mm_or_si128(magnitude, sign));
    return _mm256_mul_ps(_mm256_mul_ps(half, _mm256_set1_ps(256.0f)), scale);
}

void decode_halves(const uint8_t* row, int count, float* out) {
    int i = 0;
    for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(row + 2 * i))));
    for (; i < count; ++i) out[i] = float_of_half(load_u16(row + 2 * i));
}

void decode_kv(const RowFormat& format, const uint8_t* row, float* out) {
    const int plain = format.plain();
    const uint8_t* scales = row + plain;
    for (int i = 0; i < plain; i += 8) {
        const __m256 scale = _mm256_set1_ps(power_of_two(scales[i / kKvBlock] - kE8m0Bias));
        _mm256_storeu_ps(out + i, e4m3_to_floats(row + i, scale));
    }
    if (format.kind == RowKind::packed_kv)
        std::memcpy(out + plain, row + format.tail_offset(), size_t(4) * format.rope_dims);
    else
        decode_halves(row + format.tail_offset(), format.rope_dims, out + plain);
}

void decode_key(const RowFormat& format, const uint8_t* row, float* out) {
    const uint8_t* scales = row + format.dims / 2;
    for (int start = 0; start < format.dims; start += kKeyBlock) {
        const float scale = power_of_two(scales[start / kKeyBlock] - kE8m0Bias);
        float values[16];
        for (int code = 0; code < 16; ++code) values[code] = kE2m1Values[code] * scale;
        for (int i = start; i < start + kKeyBlock; i += 2) {
            out[i] = values[row[i / 2] & 15];
            out[i + 1] = values[row[i / 2] >> 4];
        }
    }
}

void decode_row_wide(const RowFormat& format, const uint8_t* row, float* out) {
    switch (format.kind) {
        case RowKind::f32: std::memcpy(out, row, format.row_bytes()); return;
        case RowKind::f16: decode_halves(row, format.dims, out); return;
        case RowKind::packed_key: decode_key(format, row, out); return;
        case RowKind::packed_kv:
        case RowKind::packed_kv_f16:
            if (format.plain() % 8)
                decode_row(format, row, out);
            else
                decode_kv(format, row, out);
    }
}

template <int kHeads, int kKeys>
void dots_tile(const float* queries, const float* keys, int64_t pitch, int64_t dims, float* scores, int stride) {
    __m256 acc[kHeads][kKeys][2];
    for (int h = 0; h < kHeads; ++h)
        for (int k = 0; k < kKeys; ++k) acc[h][k][0] = acc[h][k][1] = _mm256_setzero_ps();
    for (int64_t i = 0; i < dims; i += 16)
        for (int part = 0; part < 2; ++part) {
            __m256 query[kHeads];
            for (int h = 0; h < kHeads; ++h) query[h] = _mm256_loadu_ps(queries + h * dims + i + 8 * part);
            for (int k = 0; k < kKeys; ++k) {
                const __m256 key = _mm256_loadu_ps(keys + k * pitch + i + 8 * part);
                for (int h = 0; h < kHeads; ++h) acc[h][k][part] = _mm256_fmadd_ps(query[h], key, acc[h][k][part]);
            }
        }
    for (int h = 0; h < kHeads; ++h)
        for (int k = 0; k < kKeys; ++k)
            scores[h * stride + k] = avx2::sum_lanes8(_mm256_add_ps(acc[h][k][0], acc[h][k][1]));
}

template <int kHeads>
void dots_heads(const float* queries, const KeyRows& keys, int begin, int end, int64_t dims, float* scores,
                int stride) {
    int k = begin;
    for (; k + kDotKeys <= end; k += kDotKeys)
        dots_tile<kHeads, kDotKeys>(queries, keys.row(k), keys.pitch, dims, scores + k, stride);
    for (; k < end; ++k) dots_tile<kHeads, 1>(queries, keys.row(k), keys.pitch, dims, scores + k, stride);
}

// A few keys stay in the nearest cache while all heads go by.
void dots(const float* queries, int heads, const KeyRows& keys, int64_t dims, float* scores, int stride) {
    for (int begin = 0; begin < keys.count; begin += kNearKeys) {
        const int end = keys.count - begin < kNearKeys ? keys.count : begin + kNearKeys;
        int h = 0;
        for (; h + kDotHeads <= heads; h += kDotHeads)
            dots_heads<kDotHeads>(queries + h * dims, keys, begin, end, dims, scores + h * stride, stride);
        for (; h < heads; ++h)
            dots_heads<1>(queries + h * dims, keys, begin, end, dims, scores + h * stride, stride);
    }
}

template <int kHeads, int kVectors>
void blend_tile(const float* shares, int stride, const KeyRows& keys, int64_t i, int64_t dims, float* out) {
    __m256 acc[kHeads][kVectors];
    for (int h = 0; h < kHeads; ++h)
        for (int v = 0; v < kVectors; ++v) acc[h][v] = _mm256_loadu_ps(out + h * dims + i + 8 * v);
    const float* row = keys.data + i;
    for (int k = 0; k < keys.count; ++k, row += keys.pitch) {
        __m256 key[kVectors];
        for (int v = 0; v < kVectors; ++v) key[v] = _mm256_loadu_ps(row + 8 * v);
        for (int h = 0; h < kHeads; ++h) {
            const __m256 share = _mm256_set1_ps(shares[h * stride + k]);
            for (int v = 0; v < kVectors; ++v) acc[h][v] = _mm256_fmadd_ps(share, key[v], acc[h][v]);
        }
    }
    for (int h = 0; h < kHeads; ++h)
        for (int v = 0; v < kVectors; ++v) _mm256_storeu_ps(out + h * dims + i + 8 * v, acc[h][v]);
}

// A strip of channels of all keys stays in the nearest cache while all heads go by.
template <int kVectors>
void blend_strip(const float* shares, int stride, int heads, const KeyRows& keys, int64_t i, int64_t dims, float* out) {
    int h = 0;
    for (; h + kBlendHeads <= heads; h += kBlendHeads)
        blend_tile<kBlendHeads, kVectors>(shares + h * stride, stride, keys, i, dims, out + h * dims);
    for (; h < heads; ++h) blend_tile<1, kVectors>(shares + h * stride, stride, keys, i, dims, out + h * dims);
}

void blend(const float* shares, int stride, int heads, const KeyRows& keys, int64_t dims, float* out) {
    int64_t i = 0;
    for (; i + 8 * kBlendVectors <= dims; i += 8 * kBlendVectors)
        blend_strip<kBlendVectors>(shares, stride, heads, keys, i, dims, out);
    for (; i < dims; i += 8) blend_strip<1>(shares, stride, heads, keys, i, dims, out);
}

// Eight packed keys, one per lane: word j of a lane holds four codes + 12 of the key's dims 8 (j / 2) ..., the even
// ones for even j, the odd ones for odd j (the order of IndexQuery); and per block of 32 its scale.
struct KeyLanes {
    __m256i words[2 * kMaxKeyWords];
    __m256 scales[kMaxRowDims / kKeyBlock];
};

void load_keys(const uint8_t* keys, int64_t stride, int count, int dims, KeyLanes& lanes) {
    const __m256i offset_codes = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    const __m256i number = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i last = _mm256_set1_epi32(count - 1);  // lanes beyond repeat the last key
    const __m256i offsets = _mm256_mullo_epi32(_mm256_min_epi32(number, last), _mm256_set1_epi32(int(stride)));
    const __m256i nibble = _mm256_set1_epi8(15);
    for (int word = 0; word < dims / 8; ++word) {
        const __m256i codes = _mm256_i32gather_epi32(reinterpret_cast<const int*>(keys + 4 * word), offsets, 1);
        lanes.words[2 * word] = _mm256_shuffle_epi8(offset_codes, _mm256_and_si256(codes, nibble));
        lanes.words[2 * word + 1] =
            _mm256_shuffle_epi8(offset_codes, _mm256_and_si256(_mm256_srli_epi16(codes, 4), nibble));
    }
    for (int block = 0; block < dims / kKeyBlock; ++block) {
        alignas(32) uint32_t bits[kKeyLanes];
        for (int k = 0; k < kKeyLanes; ++k)
            bits[k] = uint32_t(keys[(k < count ? k : count - 1) * stride + dims / 2 + block]) << 23;
        lanes.scales[block] = _mm256_castsi256_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(bits)));
    }
}

// Pairs stay below 2 * 24 * 12, eight of them far below 2^15.
__m256i block_products(const int8_t* codes, const __m256i* words) {
    __m256i pairs = _mm256_setzero_si256();
    for (int word = 0; word < kKeyBlock / 4; ++word) {
        const uint32_t four = load_u32(reinterpret_cast<const uint8_t*>(codes + 4 * word));
        pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(words[word], _mm256_set1_epi32(int(four))));
    }
    return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

__m256 score_head(const IndexQuery& query, int head, const KeyLanes& lanes, __m256 score) {
    const int num_blocks = query.dims / kKeyBlock;
    __m256 product = _mm256_setzero_ps();
    for (int block = 0; block < num_blocks; ++block) {
        const __m256i offset = _mm256_set1_epi32(12 * query.sums[head * num_blocks + block]);
        const __m256i whole = _mm256_sub_epi32(
            block_products(query.codes + head * query.dims + block * kKeyBlock, lanes.words + block * (kKeyBlock / 4)),
            offset);
        const __m256 scaled = _mm256_mul_ps(_mm256_cvtepi32_ps(whole), lanes.scales[block]);
        const __m256 scale = _mm256_set1_ps(query.scales[head * num_blocks + block]);
        product = _mm256_add_ps(product, _mm256_mul_ps(scaled, scale));
    }
    const __m256 positive = _mm256_max_ps(product, _mm256_setzero_ps());
    return _mm256_add_ps(score, _mm256_mul_ps(_mm256_set1_ps(query.weights[head]), positive));
}

void score_packed(const IndexQuery& query, const uint8_t* keys, int64_t stride, int64_t num_keys, float* scores) {
    KeyLanes lanes;
    for (int64_t k = 0; k < num_keys; k += kKeyLanes) {
        const int count = int(num_keys - k < kKeyLanes ? num_keys - k : kKeyLanes);
        load_keys(keys + k * stride, stride, count, query.dims, lanes);
        __m256 score = _mm256_setzero_ps();
        for (int head = 0; head < query.heads; ++head) score = score_head(query, head, lanes, score);
        alignas(32) float values[kKeyLanes];
        _mm256_store_ps(values, score);
        std::memcpy(scores + k, values, size_t(count) * sizeof(float));
    }
}

}  // namespace

const RowLevel kAvx2Rows = {
    .name = "avx2",
    .decode_row = decode_row_wide,
    .round_like_keys = round_like_keys,
    .sum_squares = sum_squares,
    .norm_turn = norm_turn,
    .mix_streams = mix_streams,
    .spread_streams = spread_streams,
    .pool_rows = pool_rows,
    .attend_kernels = float_attention<decode_row_wide, dots, blend>,
    .score_floats = score_with<dots>,
    .score_packed = score_packed,
    .score_block = score_each<score_packed>,
    .pick_best = pick_best,
};

}  // namespace whitedwarf
