// The row kernels of row_level.h with AVX-512: tiles of heads and keys, and index scores as integer products.
#include "avx512/index_lanes.h"
#include "avx512/vectors.h"
#include "row_arithmetic.h"

namespace whitedwarf {
namespace {

constexpr int kTile = 4;  // heads and keys (or vectors of channels) that meet in registers: 16 accumulators
constexpr int kNearKeys = 12;  // keys of 2 KB each that share the nearest cache with four queries
constexpr int kKeyLanes = 16;
constexpr int kAlignedHeads = 8;
constexpr int kAlignedOffset = 96;
constexpr int kMaxKeyWords = kMaxRowDims / 8;

__m512 e4m3_to_floats(const uint8_t* codes, __m512 scale) {
    const __m256i wide = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes)));
    const __m256i magnitude = _mm256_and_si256(_mm256_slli_epi16(wide, 7), _mm256_set1_epi16(0x3f80));
    const __m256i sign = _mm256_and_si256(_mm256_slli_epi16(wide, 8), _mm256_set1_epi16(short(0x8000)));
    // As a half the code is 2^8 too small; both products are exact.
    const __m512 half = _mm512_cvtph_ps(_mm256_or_si256(magnitude, sign));
    return _mm512_mul_ps(_mm512_mul_ps(half, _mm512_set1_ps(256.0f)), scale);
}

void decode_halves(const uint8_t* row, int count, float* out) {
    int i = 0;
    for (; i + 16 <= count; i += 16)
        _mm512_storeu_ps(out + i, _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(row + 2 * i))));
    for (; i < count; ++i) out[i] = float_of_half(load_u16(row + 2 * i));
}

void decode_kv(const RowFormat& format, const uint8_t* row, float* out) {
    const int plain = format.plain();
    const uint8_t* scales = row + plain;
    for (int start = 0; start < plain; start += kKvBlock) {
        const __m512 scale = _mm512_set1_ps(power_of_two(scales[start / kKvBlock] - kE8m0Bias));
        const int end = start + kKvBlock < plain ? start + kKvBlock : plain;
        for (int i = start; i < end; i += 16) _mm512_storeu_ps(out + i, e4m3_to_floats(row + i, scale));
    }
    if (format.kind == RowKind::packed_kv)
        std::memcpy(out + plain, row + format.tail_offset(), size_t(4) * format.rope_dims);
    else
        decode_halves(row + format.tail_offset(), format.rope_dims, out + plain);
}

void decode_key(const RowFormat& format, const uint8_t* row, float* out) {
    const __m512 values = _mm512_loadu_ps(kE2m1Values);
    const uint8_t* scales = row + format.dims / 2;
    for (int i = 0; i < format.dims; i += 16) {
        const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(row + i / 2));
        const __m128i low = _mm_and_si128(bytes, _mm_set1_epi8(15));
        const __m128i high = _mm_and_si128(_mm_srli_epi16(bytes, 4), _mm_set1_epi8(15));
        const __m512i codes = _mm512_cvtepu8_epi32(_mm_unpacklo_epi8(low, high));
        const __m512 scale = _mm512_set1_ps(power_of_two(scales[i / kKeyBlock] - kE8m0Bias));
        _mm512_storeu_ps(out + i, _mm512_mul_ps(_mm512_permutexvar_ps(codes, values), scale));
    }
}

void decode_row_wide(const RowFormat& format, const uint8_t* row, float* out) {
    switch (format.kind) {
        case RowKind::f32: std::memcpy(out, row, format.row_bytes()); return;
        case RowKind::f16: decode_halves(row, format.dims, out); return;
        case RowKind::packed_key: decode_key(format, row, out); return;
        case RowKind::packed_kv:
        case RowKind::packed_kv_f16:
            if (format.plain() % 16)
                decode_row(format, row, out);
            else
                decode_kv(format, row, out);
    }
}

// Four vectors -> one, whose quarter i holds the sums of the i-th vector's lanes k, k + 8, then + 4.
__m512 fold_to_quarters(const __m512* v) {
    const __m512 first = _mm512_add_ps(_mm512_shuffle_f32x4(v[0], v[1], 0x44), _mm512_shuffle_f32x4(v[0], v[1], 0xee));
    const __m512 second = _mm512_add_ps(_mm512_shuffle_f32x4(v[2], v[3], 0x44), _mm512_shuffle_f32x4(v[2], v[3], 0xee));
    return _mm512_add_ps(_mm512_shuffle_f32x4(first, second, 0x88), _mm512_shuffle_f32x4(first, second, 0xdd));
}

// acc[key][head] -> the tree sums of all sixteen, head by head.
__m512 fold_tile(const __m512 (*acc)[kTile]) {
    __m512 quarters[kTile];
    for (int k = 0; k < kTile; ++k) quarters[k] = fold_to_quarters(acc[k]);
    const auto fold_pair = [](__m512 a, __m512 b) {
        return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xee));
    };
    const __m512 first = fold_pair(quarters[0], quarters[1]), second = fold_pair(quarters[2], quarters[3]);
    return _mm512_add_ps(_mm512_shuffle_ps(first, second, 0x88), _mm512_shuffle_ps(first, second, 0xdd));
}

template <int kHeads, int kKeys>
void dots_tile(const float* queries, const float* keys, int64_t pitch, int64_t dims, float* scores, int stride) {
    __m512 acc[kKeys][kHeads];
    for (int k = 0; k < kKeys; ++k)
        for (int h = 0; h < kHeads; ++h) acc[k][h] = _mm512_setzero_ps();
    for (int64_t i = 0; i < dims; i += 16) {
        __m512 query[kHeads];
        for (int h = 0; h < kHeads; ++h) query[h] = _mm512_loadu_ps(queries + h * dims + i);
        for (int k = 0; k < kKeys; ++k) {
            const __m512 key = _mm512_loadu_ps(keys + k * pitch + i);
            for (int h = 0; h < kHeads; ++h) acc[k][h] = _mm512_fmadd_ps(query[h], key, acc[k][h]);
        }
    }
    if constexpr (kHeads == kTile && kKeys == kTile) {
        const __m512 sums = fold_tile(acc);
        _mm_storeu_ps(scores, _mm512_extractf32x4_ps(sums, 0));
        _mm_storeu_ps(scores + stride, _mm512_extractf32x4_ps(sums, 1));
        _mm_storeu_ps(scores + 2 * stride, _mm512_extractf32x4_ps(sums, 2));
        _mm_storeu_ps(scores + 3 * stride, _mm512_extractf32x4_ps(sums, 3));
    } else {
        for (int h = 0; h < kHeads; ++h)
            for (int k = 0; k < kKeys; ++k) scores[h * stride + k] = avx512::sum_lanes16(acc[k][h]);
    }
}

template <int kHeads>
void dots_heads(const float* queries, const KeyRows& keys, int begin, int end, int64_t dims, float* scores,
                int stride) {
    int k = begin;
    for (; k + kTile <= end; k += kTile)
        dots_tile<kHeads, kTile>(queries, keys.row(k), keys.pitch, dims, scores + k, stride);
    for (; k < end; ++k) dots_tile<kHeads, 1>(queries, keys.row(k), keys.pitch, dims, scores + k, stride);
}

// A few keys stay in the nearest cache while all heads go by.
void dots(const float* queries, int heads, const KeyRows& keys, int64_t dims, float* scores, int stride) {
    for (int begin = 0; begin < keys.count; begin += kNearKeys) {
        const int end = keys.count - begin < kNearKeys ? keys.count : begin + kNearKeys;
        int h = 0;
        for (; h + kTile <= heads; h += kTile)
            dots_heads<kTile>(queries + h * dims, keys, begin, end, dims, scores + h * stride, stride);
        for (; h < heads; ++h)
            dots_heads<1>(queries + h * dims, keys, begin, end, dims, scores + h * stride, stride);
    }
}

template <int kHeads, int kVectors>
void blend_tile(const float* shares, int stride, const KeyRows& keys, int64_t i, int64_t dims, float* out) {
    __m512 acc[kHeads][kVectors];
    for (int h = 0; h < kHeads; ++h)
        for (int v = 0; v < kVectors; ++v) acc[h][v] = _mm512_loadu_ps(out + h * dims + i + 16 * v);
    const float* row = keys.data + i;
    for (int k = 0; k < keys.count; ++k, row += keys.pitch) {
        __m512 key[kVectors];
        for (int v = 0; v < kVectors; ++v) key[v] = _mm512_loadu_ps(row + 16 * v);
        for (int h = 0; h < kHeads; ++h) {
            const __m512 share = _mm512_set1_ps(shares[h * stride + k]);
            for (int v = 0; v < kVectors; ++v) acc[h][v] = _mm512_fmadd_ps(share, key[v], acc[h][v]);
        }
    }
    for (int h = 0; h < kHeads; ++h)
        for (int v = 0; v < kVectors; ++v) _mm512_storeu_ps(out + h * dims + i + 16 * v, acc[h][v]);
}

// A strip of channels of all keys stays in the nearest cache while all heads go by.
template <int kVectors>
void blend_strip(const float* shares, int stride, int heads, const KeyRows& keys, int64_t i, int64_t dims, float* out) {
    int h = 0;
    for (; h + kTile <= heads; h += kTile)
        blend_tile<kTile, kVectors>(shares + h * stride, stride, keys, i, dims, out + h * dims);
    for (; h < heads; ++h) blend_tile<1, kVectors>(shares + h * stride, stride, keys, i, dims, out + h * dims);
}

void blend(const float* shares, int stride, int heads, const KeyRows& keys, int64_t dims, float* out) {
    int64_t i = 0;
    for (; i + 16 * kTile <= dims; i += 16 * kTile) blend_strip<kTile>(shares, stride, heads, keys, i, dims, out);
    for (; i < dims; i += 16) blend_strip<1>(shares, stride, heads, keys, i, dims, out);
}

// Sixteen packed keys, one per lane: word j of a lane holds four codes + 12 of the key's dims 8 (j / 2) ..., the even
// ones for even j, the odd ones for odd j (the order of IndexQuery); and per block of 32 its scale.
struct KeyLanes {
    __m512i words[2 * kMaxKeyWords];
    __m512 scales[kMaxRowDims / kKeyBlock];
};

void load_keys(const uint8_t* keys, int64_t stride, int count, int dims, KeyLanes& lanes) {
    const __m512i offset_codes = _mm512_broadcast_i32x4(
        _mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    const __m512i number = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i last = _mm512_set1_epi32(count - 1);  // lanes beyond repeat the last key
    const __m512i offsets = _mm512_mullo_epi32(_mm512_min_epi32(number, last), _mm512_set1_epi32(int(stride)));
    const __m512i nibble = _mm512_set1_epi8(15);
    for (int word = 0; word < dims / 8; ++word) {
        const __m512i codes = _mm512_i32gather_epi32(offsets, keys + 4 * word, 1);
        lanes.words[2 * word] = _mm512_shuffle_epi8(offset_codes, _mm512_and_si512(codes, nibble));
        lanes.words[2 * word + 1] =
            _mm512_shuffle_epi8(offset_codes, _mm512_and_si512(_mm512_srli_epi16(codes, 4), nibble));
    }
    for (int block = 0; block < dims / kKeyBlock; ++block) {
        alignas(64) uint32_t bits[kKeyLanes];
        for (int k = 0; k < kKeyLanes; ++k)
            bits[k] = uint32_t(keys[(k < count ? k : count - 1) * stride + dims / 2 + block]) << 23;
        lanes.scales[block] = _mm512_castsi512_ps(_mm512_load_si512(bits));
    }
}

template <int kHeads>
__m512 score_heads(const IndexQuery& query, int head, const KeyLanes& lanes, __m512 score) {
    const int num_blocks = query.dims / kKeyBlock;
    __m512 product[kHeads];
    for (int h = 0; h < kHeads; ++h) product[h] = _mm512_setzero_ps();
    for (int block = 0; block < num_blocks; ++block) {
        __m512i acc[kHeads];
        for (int h = 0; h < kHeads; ++h)
            acc[h] = _mm512_set1_epi32(-12 * query.sums[(head + h) * num_blocks + block]);
        for (int word = 0; word < kKeyBlock / 4; ++word) {
            const __m512i key = lanes.words[block * (kKeyBlock / 4) + word];
            for (int h = 0; h < kHeads; ++h) {
                const int8_t* codes = query.codes + (head + h) * query.dims + block * kKeyBlock + 4 * word;
                acc[h] = _mm512_dpbusd_epi32(
                    acc[h], key, _mm512_set1_epi32(int(load_u32(reinterpret_cast<const uint8_t*>(codes)))));
            }
        }
        for (int h = 0; h < kHeads; ++h) {
            const __m512 scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(acc[h]), lanes.scales[block]);
            const __m512 scale = _mm512_set1_ps(query.scales[(head + h) * num_blocks + block]);
            product[h] = _mm512_add_ps(product[h], _mm512_mul_ps(scaled, scale));
        }
    }
    for (int h = 0; h < kHeads; ++h) {
        const __m512 positive = _mm512_max_ps(product[h], _mm512_setzero_ps());
        score = _mm512_add_ps(score, _mm512_mul_ps(_mm512_set1_ps(query.weights[head + h]), positive));
    }
    return score;
}

void score_packed(const IndexQuery& query, const uint8_t* keys, int64_t stride, int64_t num_keys, float* scores) {
    KeyLanes lanes;
    for (int64_t k = 0; k < num_keys; k += kKeyLanes) {
        const int count = int(num_keys - k < kKeyLanes ? num_keys - k : kKeyLanes);
        load_keys(keys + k * stride, stride, count, query.dims, lanes);
        __m512 score = _mm512_setzero_ps();
        int head = 0;
        for (; head + kTile <= query.heads; head += kTile) score = score_heads<kTile>(query, head, lanes, score);
        for (; head < query.heads; ++head) score = score_heads<1>(query, head, lanes, score);
        _mm512_mask_storeu_ps(scores + k, __mmask16((1u << count) - 1), score);
    }
}

// sum over the heads of factor * max(0, product), head after head; codes are 96 too large.
template <int kHeads>
__m512 score_aligned_heads(const IndexQuery& query, int head, const avx512::AlignedKeys& keys, __m512 score) {
    __m512i acc[kHeads];
    for (int h = 0; h < kHeads; ++h) acc[h] = _mm512_set1_epi32(-kAlignedOffset * query.aligned_sums[head + h]);
    const int8_t* codes = query.aligned + head * kAlignedDims;
    for (int word = 0; word < avx512::kLaneWords; ++word)
        for (int h = 0; h < kHeads; ++h) {
            const uint32_t four = load_u32(reinterpret_cast<const uint8_t*>(codes + h * kAlignedDims + 4 * word));
            acc[h] = _mm512_dpbusd_epi32(acc[h], keys.words[word], _mm512_set1_epi32(int(four)));
        }
    for (int h = 0; h < kHeads; ++h) {
        const __m512 positive = _mm512_cvtepi32_ps(_mm512_max_epi32(acc[h], _mm512_setzero_si512()));
        score = _mm512_add_ps(score, _mm512_mul_ps(_mm512_set1_ps(query.factors[head + h]), positive));
    }
    return score;
}

__m512 score_aligned(const IndexQuery& query, const avx512::AlignedKeys& keys) {
    __m512 score = _mm512_setzero_ps();
    int head = 0;
    for (; head + kAlignedHeads <= query.heads; head += kAlignedHeads)
        score = score_aligned_heads<kAlignedHeads>(query, head, keys, score);
    for (; head < query.heads; ++head) score = score_aligned_heads<1>(query, head, keys, score);
    return _mm512_mul_ps(score, keys.scales);
}

void score_block(const IndexQuery* queries, int num_queries, const uint8_t* keys, int64_t stride, int64_t num_keys,
                 float* scores, int64_t pitch) {
    avx512::AlignedKeys lanes;
    for (int64_t k = 0; k < num_keys; k += kKeyLanes) {
        const int count = int(num_keys - k < kKeyLanes ? num_keys - k : kKeyLanes);
        lanes.is_aligned = false;
        if (queries[0].dims == kAlignedDims)
            avx512::load_aligned<kAlignedOffset>(keys + k * stride, stride, count, lanes);
        for (int q = 0; q < num_queries; ++q) {
            float* out = scores + q * pitch + k;
            if (lanes.is_aligned && queries[q].aligned)
                _mm512_mask_storeu_ps(out, __mmask16((1u << count) - 1), score_aligned(queries[q], lanes));
            else
                score_packed(queries[q], keys + k * stride, stride, count, out);
        }
    }
}

}  // namespace

const RowLevel kAvx512Rows = {
    .name = "avx512",
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
    .score_block = score_block,
    .pick_best = avx512::pick_best_wide,
};

}  // namespace whitedwarf
