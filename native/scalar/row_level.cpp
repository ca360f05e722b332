// The specification of the row kernels, in plain code.
#include "row_arithmetic.h"

namespace whitedwarf {

namespace {

float dot(const float* a, const float* b, int64_t dims) {
    float acc[kFloatLanes] = {};
    for (int64_t i = 0; i < dims; i += kFloatLanes)
        for (int lane = 0; lane < kFloatLanes; ++lane) acc[lane] = std::fma(a[i + lane], b[i + lane], acc[lane]);
    return sum_lanes(acc, kFloatLanes);
}

void dots(const float* queries, int heads, const KeyRows& keys, int64_t dims, float* scores, int stride) {
    for (int h = 0; h < heads; ++h)
        for (int k = 0; k < keys.count; ++k) scores[h * stride + k] = dot(queries + h * dims, keys.row(k), dims);
}

void blend(const float* shares, int stride, int heads, const KeyRows& keys, int64_t dims, float* out) {
    for (int h = 0; h < heads; ++h)
        for (int k = 0; k < keys.count; ++k) {
            const float share = shares[h * stride + k];
            for (int64_t i = 0; i < dims; ++i)
                out[h * dims + i] = std::fma(share, keys.row(k)[i], out[h * dims + i]);
        }
}

// One block of 32 of a key, with codes in the order of IndexQuery, times one of a query.
int32_t block_product(const int8_t* codes, const uint8_t* nibbles) {
    int32_t total = 0;
    for (int i = 0; i < kKeyBlock; i += 8)
        for (int pair = 0; pair < 4; ++pair) {
            const uint8_t byte = nibbles[i / 2 + pair];
            total += codes[i + pair] * kMxfp4Codes[byte & 15] + codes[i + 4 + pair] * kMxfp4Codes[byte >> 4];
        }
    return total;
}

float score_one(const IndexQuery& query, const uint8_t* key) {
    const int num_blocks = query.dims / kKeyBlock;
    const uint8_t* scales = key + query.dims / 2;
    float score = 0.0f;
    for (int h = 0; h < query.heads; ++h) {
        float product = 0.0f;
        for (int b = 0; b < num_blocks; ++b) {
            const int32_t whole =
                block_product(query.codes + h * query.dims + b * kKeyBlock, key + b * kKeyBlock / 2);
            const float scaled = float(whole) * float_of_bits(uint32_t(scales[b]) << 23);
            product = product + scaled * query.scales[h * num_blocks + b];
        }
        score += query.weights[h] * (product > 0.0f ? product : 0.0f);
    }
    return score;
}

void score_packed(const IndexQuery& query, const uint8_t* keys, int64_t stride, int64_t num_keys, float* scores) {
    for (int64_t k = 0; k < num_keys; ++k) scores[k] = score_one(query, keys + k * stride);
}

}  // namespace

const RowLevel kScalarRows = {
    .name = "scalar",
    .decode_row = decode_row,
    .round_like_keys = round_like_keys,
    .sum_squares = sum_squares,
    .norm_turn = norm_turn,
    .mix_streams = mix_streams,
    .spread_streams = spread_streams,
    .pool_rows = pool_rows,
    .attend_kernels = float_attention<decode_row, dots, blend>,
    .score_floats = score_with<dots>,
    .score_packed = score_packed,
    .score_block = score_each<score_packed>,
    .pick_best = pick_best,
};

}  // namespace whitedwarf
