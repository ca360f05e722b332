// The row kernels of row_level.h with NEON: sixteen lanes are four vectors; index scores as dot products of bytes.
#include "neon/vectors.h"
#include "row_arithmetic.h"

namespace whitedwarf {
namespace {

constexpr int kDotHeads = 2, kDotKeys = 3;          // times four vectors: 24 accumulators
constexpr int kBlendHeads = 4, kBlendVectors = 4;  // 16 accumulators
constexpr int kNearKeys = 9;  // keys of 2 KB each that share the nearest cache with two queries
constexpr int kKeyLanes = 4;
constexpr int kMaxKeyWords = kMaxRowDims / 8;

float32x4_t halves_to_floats(uint16x4_t halves) { return vcvt_f32_f16(vreinterpret_f16_u16(halves)); }

void decode_halves(const uint8_t* row, int count, float* out) {
    int i = 0;
    for (; i + 4 <= count; i += 4) {
        uint16x4_t halves;
        std::memcpy(&halves, row + 2 * i, 8);
        vst1q_f32(out + i, halves_to_floats(halves));
    }
    for (; i < count; ++i) out[i] = float_of_half(load_u16(row + 2 * i));
}

void decode_kv(const RowFormat& format, const uint8_t* row, float* out) {
    const int plain = format.plain();
    const uint8_t* scales = row + plain;
    for (int i = 0; i < plain; i += 8) {
        const float scale = power_of_two(scales[i / kKvBlock] - kE8m0Bias);
        const uint16x8_t wide = vmovl_u8(vld1_u8(row + i));
        const uint16x8_t magnitude = vandq_u16(vshlq_n_u16(wide, 7), vdupq_n_u16(0x3f80));
        const uint16x8_t halves = vorrq_u16(magnitude, vandq_u16(vshlq_n_u16(wide, 8), vdupq_n_u16(0x8000)));
        // As a half the code is 2^8 too small; both products are exact.
        vst1q_f32(out + i, vmulq_n_f32(vmulq_n_f32(halves_to_floats(vget_low_u16(halves)), 256.0f), scale));
        vst1q_f32(out + i + 4, vmulq_n_f32(vmulq_n_f32(halves_to_floats(vget_high_u16(halves)), 256.0f), scale));
    }
    if (format.kind == RowKind::packed_kv)
        std::memcpy(out + plain, row + format.tail_offset(), size_t(4) * format.rope_dims);
    else
        decode_halves(row + format.tail_offset(), format.rope_dims, out + plain);
}

void decode_row_wide(const RowFormat& format, const uint8_t* row, float* out) {
    switch (format.kind) {
        case RowKind::f32: std::memcpy(out, row, format.row_bytes()); return;
        case RowKind::f16: decode_halves(row, format.dims, out); return;
        case RowKind::packed_key: decode_row(format, row, out); return;
        case RowKind::packed_kv:
        case RowKind::packed_kv_f16:
            if (format.plain() % 8)
                decode_row(format, row, out);
            else
                decode_kv(format, row, out);
    }
}

// The tree of level.h.
float sum_lanes16(const float32x4_t* acc) {
    const float32x4_t four = vaddq_f32(vaddq_f32(acc[0], acc[2]), vaddq_f32(acc[1], acc[3]));
    const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}

template <int kHeads, int kKeys>
void dots_tile(const float* queries, const float* keys, int64_t pitch, int64_t dims, float* scores, int stride) {
    float32x4_t acc[kHeads][kKeys][4];
    for (int h = 0; h < kHeads; ++h)
        for (int k = 0; k < kKeys; ++k)
            for (int part = 0; part < 4; ++part) acc[h][k][part] = vdupq_n_f32(0.0f);
    for (int64_t i = 0; i < dims; i += 16)
        for (int part = 0; part < 4; ++part) {
            float32x4_t query[kHeads];
            for (int h = 0; h < kHeads; ++h) query[h] = vld1q_f32(queries + h * dims + i + 4 * part);
            for (int k = 0; k < kKeys; ++k) {
                const float32x4_t key = vld1q_f32(keys + k * pitch + i + 4 * part);
                for (int h = 0; h < kHeads; ++h) acc[h][k][part] = vfmaq_f32(acc[h][k][part], query[h], key);
            }
        }
    for (int h = 0; h < kHeads; ++h)
        for (int k = 0; k < kKeys; ++k) scores[h * stride + k] = sum_lanes16(acc[h][k]);
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

template <int kHeads>
void blend_tile(const float* shares, int stride, const KeyRows& keys, int64_t i, int64_t dims, float* out) {
    float32x4_t acc[kHeads][kBlendVectors];
    for (int h = 0; h < kHeads; ++h)
        for (int v = 0; v < kBlendVectors; ++v) acc[h][v] = vld1q_f32(out + h * dims + i + 4 * v);
    const float* row = keys.data + i;
    for (int k = 0; k < keys.count; ++k, row += keys.pitch) {
        float32x4_t key[kBlendVectors];
        for (int v = 0; v < kBlendVectors; ++v) key[v] = vld1q_f32(row + 4 * v);
        for (int h = 0; h < kHeads; ++h)
            for (int v = 0; v < kBlendVectors; ++v) acc[h][v] = vfmaq_n_f32(acc[h][v], key[v], shares[h * stride + k]);
    }
    for (int h = 0; h < kHeads; ++h)
        for (int v = 0; v < kBlendVectors; ++v) vst1q_f32(out + h * dims + i + 4 * v, acc[h][v]);
}

// A strip of channels of all keys stays in the nearest cache while all heads go by.
void blend(const float* shares, int stride, int heads, const KeyRows& keys, int64_t dims, float* out) {
    for (int64_t i = 0; i < dims; i += 4 * kBlendVectors) {
        int h = 0;
        for (; h + kBlendHeads <= heads; h += kBlendHeads)
            blend_tile<kBlendHeads>(shares + h * stride, stride, keys, i, dims, out + h * dims);
        for (; h < heads; ++h) blend_tile<1>(shares + h * stride, stride, keys, i, dims, out + h * dims);
    }
}

// Four packed keys, one per lane: word j of a lane holds four doubled codes of the key's dims 8 (j / 2) ..., the even
// ones for even j, the odd ones for odd j (the order of IndexQuery); and per block of 32 its scale.
struct KeyLanes {
    int8x16_t words[2 * kMaxKeyWords];
    float32x4_t scales[kMaxRowDims / kKeyBlock];
};

void load_keys(const uint8_t* keys, int64_t stride, int count, int dims, KeyLanes& lanes) {
    const int8x16_t values = vld1q_s8(kMxfp4Codes);
    const uint8_t* row[kKeyLanes];
    for (int k = 0; k < kKeyLanes; ++k) row[k] = keys + (k < count ? k : count - 1) * stride;
    for (int word = 0; word < dims / 8; ++word) {
        uint32_t four[kKeyLanes];
        for (int k = 0; k < kKeyLanes; ++k) four[k] = load_u32(row[k] + 4 * word);
        const uint8x16_t codes = vreinterpretq_u8_u32(vld1q_u32(four));
        lanes.words[2 * word] = vqtbl1q_s8(values, vandq_u8(codes, vdupq_n_u8(15)));
        lanes.words[2 * word + 1] = vqtbl1q_s8(values, vshrq_n_u8(codes, 4));
    }
    for (int block = 0; block < dims / kKeyBlock; ++block) {
        uint32_t bits[kKeyLanes];
        for (int k = 0; k < kKeyLanes; ++k) bits[k] = uint32_t(row[k][dims / 2 + block]) << 23;
        lanes.scales[block] = vreinterpretq_f32_u32(vld1q_u32(bits));
    }
}

float32x4_t score_head(const IndexQuery& query, int head, const KeyLanes& lanes, float32x4_t score) {
    const int num_blocks = query.dims / kKeyBlock;
    float32x4_t product = vdupq_n_f32(0.0f);
    for (int block = 0; block < num_blocks; ++block) {
        const int8_t* codes = query.codes + head * query.dims + block * kKeyBlock;
        int32x4_t whole = vdupq_n_s32(0);
        for (int word = 0; word < kKeyBlock / 4; ++word) {
            const uint32_t four = load_u32(reinterpret_cast<const uint8_t*>(codes + 4 * word));
            whole = vdotq_s32(whole, lanes.words[block * (kKeyBlock / 4) + word],
                              vreinterpretq_s8_u32(vdupq_n_u32(four)));
        }
        const float32x4_t scaled = vmulq_f32(vcvtq_f32_s32(whole), lanes.scales[block]);
        product = vaddq_f32(product, vmulq_n_f32(scaled, query.scales[head * num_blocks + block]));
    }
    const float32x4_t positive = vmaxnmq_f32(product, vdupq_n_f32(0.0f));
    return vaddq_f32(score, vmulq_n_f32(positive, query.weights[head]));
}

void score_packed(const IndexQuery& query, const uint8_t* keys, int64_t stride, int64_t num_keys, float* scores) {
    KeyLanes lanes;
    for (int64_t k = 0; k < num_keys; k += kKeyLanes) {
        const int count = int(num_keys - k < kKeyLanes ? num_keys - k : kKeyLanes);
        load_keys(keys + k * stride, stride, count, query.dims, lanes);
        float32x4_t score = vdupq_n_f32(0.0f);
        for (int head = 0; head < query.heads; ++head) score = score_head(query, head, lanes, score);
        float values[kKeyLanes];
        vst1q_f32(values, score);
        std::memcpy(scores + k, values, size_t(count) * sizeof(float));
    }
}

}  // namespace

const RowLevel kNeonRows = {
    .name = "neon",
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
