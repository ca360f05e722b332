// Arithmetic written once and compiled by every level with its own flags: same source, same bits (-ffp-contract=off).
// Internal linkage: see blocks.h.
#pragma once

#include <cmath>

#include "level.h"

namespace whitedwarf {

// The tree of level.h: lanes is a power of two.
static inline float sum_lanes(float* acc, int lanes) {
    for (int half = lanes / 2; half > 0; half /= 2)
        for (int i = 0; i < half; ++i) acc[i] += acc[i + half];
    return acc[0];
}

// Returns the scale.
static inline float quantise_block(const float* x, int8_t* q) {
    uint32_t amax_bits = 0;  // magnitudes compare like their bits, and NaN above inf
    for (int i = 0; i < kActivationBlock; ++i) {
        const uint32_t bits = bits_of_float(x[i]) & 0x7fffffff;
        amax_bits = bits > amax_bits ? bits : amax_bits;
    }
    const bool is_finite = amax_bits < 0x7f800000;
    const float d = is_finite ? float_of_bits(amax_bits) / 127.0f : float_of_bits(0x7fc00000);
    const bool is_normal = is_finite && d >= 0x1p-126f;
    // Adding and taking away 1.5 * 2^23 rounds half to even.
    int32_t rounded[kActivationBlock] = {};
    if (is_normal)
        for (int i = 0; i < kActivationBlock; ++i) rounded[i] = int32_t((x[i] / d + 12582912.0f) - 12582912.0f);
    for (int i = 0; i < kActivationBlock; ++i) q[i] = int8_t(rounded[i]);
    return is_finite && !is_normal ? 0.0f : d;
}

// Columns in their own order, one scale and one sum per granule.
static inline void quantise_in_order(const float* x, int64_t first, int64_t count, const IntegerRows& out,
                                     int64_t row) {
    for (int64_t k = first; k < first + count; k += kActivationBlock, x += kActivationBlock) {
        int8_t* q = out.q + row * out.pitch() + k;
        const float d = quantise_block(x, q);
        for (int at = 0; at < kActivationBlock; at += out.granule) {
            int32_t total = 0;
            for (int i = 0; i < out.granule; ++i) total += q[at + i];
            const int64_t s = row * out.stride() + (k + at) / out.granule;
            out.scales[s] = d;
            out.sums[s] = d * float(total);
        }
    }
}

// NaN stays NaN.
static inline float at_most(float x, float limit) { return x > limit ? limit : x; }
static inline float at_least(float x, float limit) { return x < limit ? limit : x; }

// exp to about 1 ulp without a library call, so that it vectorises and is the same everywhere. |x| is clamped to 87.
static inline float exponential(float x) {
    x = at_most(at_least(x, -87.0f), 87.0f);
    const float shifted = x * 1.44269504f + 12582912.0f;  // the integer part, in the low bits of the mantissa
    const float n = shifted - 12582912.0f;
    const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = (p * r) * r + r + 1.0f;
    return p * float_of_bits((bits_of_float(shifted) - bits_of_float(12582912.0f) + 127) << 23);
}

static inline void swiglu_row(const float* g, const float* u, int64_t count, float limit, float weight, float* h) {
    // Separate loops over a few values, so that every compiler vectorises them. h may be g or u.
    float gate[kTileRows], up[kTileRows], divisor[kTileRows];
    for (int64_t first = 0; first < count; first += kTileRows) {
        const int n = count - first < kTileRows ? int(count - first) : kTileRows;
        for (int i = 0; i < n; ++i) gate[i] = at_most(g[first + i], limit);
        for (int i = 0; i < n; ++i) up[i] = at_most(at_least(u[first + i], -limit), limit);
        for (int i = 0; i < n; ++i) divisor[i] = 1.0f + exponential(-gate[i]);
        for (int i = 0; i < n; ++i) h[first + i] = gate[i] / divisor[i] * up[i] * weight;
    }
}

// Asks for what lies `bytes` further on in memory; it need not exist.
static inline void prefetch_ahead(const uint8_t* from, int64_t bytes) {
    __builtin_prefetch(reinterpret_cast<const void*>(uintptr_t(from) + uintptr_t(bytes)));
}

// Float weights to float32, for tails and for embed.
static inline float float_weight(Type type, const uint8_t* row, int64_t k) {
    if (type == F32) {
        float v;
        std::memcpy(&v, row + 4 * k, 4);
        return v;
    }
    return type == F16 ? float_of_half(load_u16(row + 2 * k)) : float_of_bfloat(load_u16(row + 2 * k));
}

// Buffers carved out of a thread's scratch for one unpacked row.
static inline Unpacked unpacked_in(uint8_t* scratch, int64_t padded) {
    auto* scales = reinterpret_cast<float*>(scratch + padded);
    return {scratch, scales, scales + padded / 16};
}
static inline int64_t unpacked_bytes(int64_t padded) { return padded + 2 * sizeof(float) * (padded / 16); }

// Formats with blocks of 32 may end inside a superblock: the rest must not count.
static inline void clear_padding(const Layout& layout, int64_t cols, Unpacked out) {
    const int64_t padded = padded_columns(cols);
    for (int64_t k = cols; k < padded; ++k) out.codes[k] = 0;
    for (int64_t s = cols / layout.granule; s < padded / layout.granule; ++s) out.scales[s] = out.mins[s] = 0.0f;
}

// Integer products one weight row at a time, four unpacked rows to each activation row while it is in the nearest
// cache. The dot product of an unpacked weight row and one activation row follows level.h.
using Dot = float (*)(const Unpacked& w, const IntegerRows& x, int64_t row);
constexpr int kStripRows = 4;
static inline int64_t strip_stride(int64_t padded) { return (unpacked_bytes(padded) + 63) / 64 * 64; }

// Asks for a row of weights some 4 KB ahead, into the second cache: what is read and worked on at once keeps too few
// lines on their way (avx512/multiply.cpp).
static inline void prefetch_row(const uint8_t* row, int64_t row_bytes) {
    for (int64_t i = 0; i < row_bytes; i += 64)
        __builtin_prefetch(reinterpret_cast<const void*>(uintptr_t(row) + 4096 + uintptr_t(i)), 0, 2);
}

static inline void multiply_strips(const Layout& layout, Unpack unpack, Dot dot, const uint8_t* weights,
                                   int64_t row_bytes, int num_rows, int64_t cols, const IntegerRows& x, RowList list,
                                   Output out, uint8_t* scratch) {
    const int64_t stride = strip_stride(x.padded);
    for (int i = 0; i < kStripRows; ++i) clear_padding(layout, cols, unpacked_in(scratch + i * stride, x.padded));
    for (int r = 0; r < num_rows; r += kStripRows) {
        const int count = num_rows - r < kStripRows ? num_rows - r : kStripRows;
        for (int i = 0; i < count; ++i) {
            prefetch_row(weights + (r + i) * row_bytes, row_bytes);
            unpack(weights + (r + i) * row_bytes, cols, unpacked_in(scratch + i * stride, x.padded));
        }
        for (int64_t t = 0; t < list.count; ++t)
            for (int i = 0; i < count; ++i)
                out.data[t * out.stride + r + i] = dot(unpacked_in(scratch + i * stride, x.padded), x, list.rows[t]);
    }
}

}  // namespace whitedwarf
