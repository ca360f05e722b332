// Row kernels written once and compiled by every level with its own flags: same source, same bits (-ffp-contract=off).
// Internal linkage: see blocks.h.
#pragma once

#include <cmath>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "arithmetic.h"
#include "pick.h"
#include "row_level.h"
#include "row_rounding.h"

namespace whitedwarf {

constexpr int kSumLanes = 8;
constexpr int kMaxSpread = 8;  // streams
constexpr int kChannels = 64;  // channels that pooling keeps in registers and L1 at once

static inline double sum_squares(const float* x, int64_t count) {
    double acc[kSumLanes] = {};
    const int64_t whole = count / kSumLanes * kSumLanes;
    for (int64_t i = 0; i < whole; i += kSumLanes)
        for (int lane = 0; lane < kSumLanes; ++lane) acc[lane] += double(x[i + lane]) * double(x[i + lane]);
    for (int64_t i = whole; i < count; ++i) acc[i - whole] += double(x[i]) * double(x[i]);
    for (int half = kSumLanes / 2; half > 0; half /= 2)
        for (int i = 0; i < half; ++i) acc[i] += acc[i + half];
    return acc[0];
}

static inline void norm_turn(const float* x, const float* weight, const float* turns, int64_t dims, int half,
                             double epsilon, float* out) {
    const double factor = 1.0 / std::sqrt(sum_squares(x, dims) / double(dims) + epsilon);
    const int64_t plain = dims - 2 * half;
    if (weight)
        for (int64_t i = 0; i < plain; ++i) out[i] = float(double(x[i]) * factor * double(weight[i]));
    else
        for (int64_t i = 0; i < plain; ++i) out[i] = float(double(x[i]) * factor);
    for (int i = 0; i < half; ++i) {
        const int64_t k = plain + 2 * i;
        const double first = double(x[k]) * factor * (weight ? double(weight[k]) : 1.0);
        const double second = double(x[k + 1]) * factor * (weight ? double(weight[k + 1]) : 1.0);
        const double cosine = turns[2 * i], sine = turns[2 * i + 1];
        out[k] = float(first * cosine - second * sine);
        out[k + 1] = float(first * sine + second * cosine);
    }
}

static inline void mix_streams(const float* streams, const float* pre, int num_streams, int64_t dims, float* out) {
    for (int64_t i = 0; i < dims; ++i) out[i] = pre[0] * streams[i];
    for (int s = 1; s < num_streams; ++s) {
        const float* stream = streams + s * dims;
        for (int64_t i = 0; i < dims; ++i) out[i] += pre[s] * stream[i];
    }
}

// Some channels of spread_streams at a time, all streams in registers before any is written. kStreams 0 = num_streams.
template <int kStreams, int kWidth>
static inline void spread_channels(const float* streams, const float* output, const float* post,
                                   const float* combination, int num_streams, int64_t dims, float* out) {
    const int count = kStreams ? kStreams : num_streams;
    float in[kStreams ? kStreams : kMaxSpread][kWidth];
    for (int j = 0; j < count; ++j)
        for (int i = 0; i < kWidth; ++i) in[j][i] = streams[j * dims + i];
    for (int k = 0; k < count; ++k) {
        float target[kWidth];
        for (int i = 0; i < kWidth; ++i) target[i] = post[k] * output[i];
        for (int j = 0; j < count; ++j)
            for (int i = 0; i < kWidth; ++i) target[i] += combination[j * count + k] * in[j][i];
        for (int i = 0; i < kWidth; ++i) out[k * dims + i] = target[i];
    }
}

template <int kStreams>
static inline void spread_all(const float* streams, const float* output, const float* post, const float* combination,
                              int num_streams, int64_t dims, float* out) {
    int64_t i = 0;
    for (; i + 16 <= dims; i += 16)
        spread_channels<kStreams, 16>(streams + i, output + i, post, combination, num_streams, dims, out + i);
    for (; i < dims; ++i)
        spread_channels<kStreams, 1>(streams + i, output + i, post, combination, num_streams, dims, out + i);
}

static inline void spread_streams(const float* streams, const float* output, const float* post,
                                  const float* combination, int num_streams, int64_t dims, float* out) {
    const auto spread = num_streams == 4 ? spread_all<4> : spread_all<0>;
    spread(streams, output, post, combination, num_streams, dims, out);
}

// Butterflies with strides below 8 of eight neighbours, and with strides 8, 16, ...: the sums of rows.cpp's hadamard.
static inline void small_butterflies(float* x) {
#if defined(__AVX2__)
    // low + high below, low - high above: the swapped vector plus the vector with the upper signs changed
    const auto signs = [](int a, int b, int c) {
        const int s = int(0x80000000);
        return _mm256_castsi256_ps(_mm256_setr_epi32(0, a * s, b * s, (a ^ b) * s, c * s, (a ^ c) * s, (b ^ c) * s,
                                                     (a ^ b ^ c) * s));
    };
    __m256 v = _mm256_loadu_ps(x);
    v = _mm256_add_ps(_mm256_permute_ps(v, 0xb1), _mm256_xor_ps(v, signs(1, 0, 0)));
    v = _mm256_add_ps(_mm256_permute_ps(v, 0x4e), _mm256_xor_ps(v, signs(0, 1, 0)));
    v = _mm256_add_ps(_mm256_permute2f128_ps(v, v, 1), _mm256_xor_ps(v, signs(0, 0, 1)));
    _mm256_storeu_ps(x, v);
#else
    for (int stride = 1; stride < 8; stride *= 2)
        for (int i = 0; i < 8; ++i)
            if (!(i & stride)) {
                const float low = x[i], high = x[i + stride];
                x[i] = low + high;
                x[i + stride] = low - high;
            }
#endif
}

static inline void large_butterflies(float* x, int dims, int stride) {
    for (int start = 0; start < dims; start += 2 * stride) {
        float* __restrict low = x + start;
        float* __restrict high = x + start + stride;
        for (int i = 0; i < stride; i += 8)
            for (int lane = 0; lane < 8; ++lane) {
                const float a = low[i + lane], b = high[i + lane];
                low[i + lane] = a + b;
                high[i + lane] = a - b;
            }
    }
}

// What an index query becomes beside packed keys: rotated and rounded, in place.
static inline void round_like_keys(float* x, int dims) {
    for (int i = 0; i < dims; i += 8) small_butterflies(x + i);
    for (int stride = 8; stride < dims; stride *= 2) large_butterflies(x, dims, stride);
    const float factor = float(1.0 / std::sqrt(double(dims)));
    for (int i = 0; i < dims; ++i) x[i] *= factor;
    for (int start = 0; start < dims; start += kKeyBlock) {
        uint32_t codes[kKeyBlock];
        const float scale = power_of_two(round_key_block(x + start, codes));
        for (int i = 0; i < kKeyBlock; ++i) x[start + i] = from_e2m1(codes[i]) * scale;
    }
}

// Channels start .. start + width - 1 of pool; width <= kChannels.
static inline void pool_channels(const PoolWindow* windows, int num_windows, int64_t start, int width, float* out) {
    float top[kChannels], sum[kChannels], total[kChannels];
    for (int i = 0; i < width; ++i) top[i] = -std::numeric_limits<float>::infinity(), sum[i] = total[i] = 0.0f;
    for (int w = 0; w < num_windows; ++w)
        for (int t = 0; t < windows[w].count; ++t) {
            const float* gate = windows[w].gates + t * windows[w].stride + start;
            const float* ape = windows[w].ape + t * windows[w].stride + start;
            for (int i = 0; i < width; ++i) top[i] = gate[i] + ape[i] > top[i] ? gate[i] + ape[i] : top[i];
        }
    for (int w = 0; w < num_windows; ++w)
        for (int t = 0; t < windows[w].count; ++t) {
            const float* value = windows[w].values + t * windows[w].stride + start;
            const float* gate = windows[w].gates + t * windows[w].stride + start;
            const float* ape = windows[w].ape + t * windows[w].stride + start;
            for (int i = 0; i < width; ++i) {
                const float share = exponential(gate[i] + ape[i] - top[i]);
                sum[i] += share;
                total[i] += share * value[i];
            }
        }
    for (int i = 0; i < width; ++i) out[start + i] = total[i] / sum[i];
}

static inline void pool_rows(const PoolWindow* windows, int num_windows, int64_t dims, float* out) {
    for (int64_t start = 0; start < dims; start += kChannels) {
        const int64_t rest = dims - start;
        pool_channels(windows, num_windows, start, int(rest < kChannels ? rest : kChannels), out);
    }
}

// Scores of one block of keys -> shares of it, and the factor by which what came before shrinks.
static inline float soften(float* scores, int num_keys, float* top, float* sum) {
    for (int k = num_keys; k % kFloatLanes; ++k) scores[k] = -std::numeric_limits<float>::infinity();
    float most[kFloatLanes];
    for (int lane = 0; lane < kFloatLanes; ++lane) most[lane] = *top;
    for (int k = 0; k < num_keys; k += kFloatLanes)
        for (int lane = 0; lane < kFloatLanes; ++lane)
            most[lane] = scores[k + lane] > most[lane] ? scores[k + lane] : most[lane];
    float highest = *top;
    for (int lane = 0; lane < kFloatLanes; ++lane) highest = most[lane] > highest ? most[lane] : highest;
    float acc[kFloatLanes] = {};
    for (int k = 0; k < num_keys; k += kFloatLanes)
        for (int lane = 0; lane < kFloatLanes; ++lane) {
            scores[k + lane] = exponential(scores[k + lane] - highest);
            acc[lane] += scores[k + lane];
        }
    const float shrink = exponential(*top - highest);
    *sum = *sum * shrink + sum_lanes(acc, kFloatLanes);
    *top = highest;
    return shrink;
}

struct KeyRows {
    const float* data;
    int count;
    int64_t pitch;  // floats from one to the next

    [[gnu::always_inline]] const float* row(int k) const { return data + k * pitch; }
};

// Keys as floats, one cache line further apart than they are long: rows 2048 bytes apart would share few sets of the
// nearest cache.
static inline int64_t key_pitch(int64_t dims) { return dims + 16; }
static inline int64_t float_block_bytes(const RowFormat& format) {
    return kFloatKeys * key_pitch(format.dims) * int64_t(sizeof(float));
}

static inline int64_t no_query_bytes(int, const RowFormat&) { return 0; }

static inline void start_heads(const Heads& heads, const RowFormat& format) {
    for (int64_t i = 0; i < heads.count * int64_t(format.dims); ++i) heads.out[i] = 0.0f;
}

static inline void finish_heads(const Heads& heads, const RowFormat& format) {
    for (int h = 0; h < heads.count; ++h) {
        const float share = 1.0f / heads.sum[h];
        float* out = heads.out + int64_t(h) * format.dims;
        for (int i = 0; i < format.dims; ++i) out[i] *= share;
    }
}

template <auto DecodeRow>
static inline void decode_keys(const StoredRow* rows, int num_keys, const RowFormat& format, uint8_t* block) {
    float* out = reinterpret_cast<float*>(block);
    for (int k = 0; k < num_keys; ++k) DecodeRow(*rows[k].format, rows[k].bytes, out + k * key_pitch(format.dims));
}

// The whole of `attend` around a level's two products:
//   Dots(queries, heads, keys, dims, scores, score_stride): every head with every key
//   Blend(shares, share_stride, heads, keys, dims, out): out += shares . keys
template <auto Dots, auto Blend>
static inline void attend_with(const Heads& heads, const uint8_t* block, int num_keys, const RowFormat& format,
                               float scale, float* scores) {
    const int64_t dims = format.dims;
    const KeyRows keys{reinterpret_cast<const float*>(block), num_keys, key_pitch(dims)};
    Dots(heads.queries, heads.count, keys, dims, scores, kFloatKeys);
    for (int h = 0; h < heads.count; ++h) {
        float* row = scores + h * kFloatKeys;
        for (int k = 0; k < num_keys; ++k) row[k] *= scale;
        const float shrink = soften(row, num_keys, heads.top + h, heads.sum + h);
        float* out = heads.out + h * dims;
        if (shrink != 1.0f)
            for (int64_t i = 0; i < dims; ++i) out[i] *= shrink;
    }
    Blend(scores, kFloatKeys, heads.count, keys, dims, heads.out);
}

// All of it as floats, for rows of any format.
template <auto DecodeRow, auto Dots, auto Blend>
constexpr AttendKernels kFloatAttention = {
    .head_unit = 4,
    .block_keys = kFloatKeys,
    .query_bytes = no_query_bytes,
    .start = start_heads,
    .block_bytes = float_block_bytes,
    .take_keys = decode_keys<DecodeRow>,
    .attend = attend_with<Dots, Blend>,
    .finish = finish_heads,
};

template <auto DecodeRow, auto Dots, auto Blend>
static inline const AttendKernels& float_attention(const RowFormat&, const RowFormat&) {
    return kFloatAttention<DecodeRow, Dots, Blend>;
}

// score_floats around a level's Dots.
template <auto Dots>
static inline void score_with(const IndexQuery& query, const float* keys, int64_t num_keys, float* scores) {
    for (int64_t start = 0; start < num_keys; start += kFloatKeys) {
        const int count = int(num_keys - start < kFloatKeys ? num_keys - start : kFloatKeys);
        float* total = scores + start;
        for (int k = 0; k < count; ++k) total[k] = 0.0f;
        for (int h = 0; h < query.heads; ++h) {
            float dots[kFloatKeys];
            Dots(query.values + int64_t(h) * query.dims, 1, KeyRows{keys + start * query.dims, count, query.dims},
                 query.dims, dots, kFloatKeys);
            for (int k = 0; k < count; ++k) total[k] += query.weights[h] * (dots[k] > 0.0f ? dots[k] : 0.0f);
        }
    }
}

// score_block one query after the other.
template <auto ScorePacked>
static inline void score_each(const IndexQuery* queries, int num_queries, const uint8_t* keys, int64_t stride,
                              int64_t num_keys, float* scores, int64_t pitch) {
    for (int q = 0; q < num_queries; ++q) ScorePacked(queries[q], keys, stride, num_keys, scores + q * pitch);
}

}  // namespace whitedwarf
