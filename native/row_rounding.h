// The official FP8 and FP4 rounding (fact sheet 2.7), without branches so that it vectorises. ops/rows.py is the same
// in numpy, bit for bit. Internal linkage: see blocks.h.
#pragma once

#include <cmath>

#include "blocks.h"
#include "rows.h"

namespace whitedwarf {

constexpr float kE4m3Max = 448.0f;
constexpr float kE2m1Max = 6.0f;
constexpr int kE8m0Bias = 127;
constexpr float kSmallestKvAmax = 1e-4f;
constexpr float kSmallestKeyAmax = 6.0f * 0x1p-126f;
constexpr float kE2m1Values[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                   -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

// The exponent e with 2^e >= ratio > 2^(e-1), from the bits of a positive normal float; kNoExponent of inf and NaN.
constexpr int kNoExponent = 128;
static inline int power_of_two_above(float ratio) {
    const uint32_t bits = bits_of_float(ratio);
    const int exponent = int(bits >> 23) - kE8m0Bias + ((bits & 0x7fffff) != 0);
    return exponent < kNoExponent ? exponent : kNoExponent;
}

// 2^exponent for the exponents that a byte of scale can hold; the largest byte is NaN, so that a block that held an inf
// or a NaN comes out as NaN and not as numbers.
static inline float power_of_two(int exponent) {
    if (exponent > -127) return float_of_bits(exponent > 127 ? 0x7fc00000u : uint32_t(exponent + 127) << 23);
    return exponent == -127 ? 0x1p-127f : 0x1p-128f;
}

// Magnitudes compare like their bits.
static inline float largest_magnitude(const float* x, int count, float floor) {
    uint32_t largest = bits_of_float(floor);
    for (int i = 0; i < count; ++i) {
        const uint32_t bits = bits_of_float(x[i]) & 0x7fffffff;
        largest = bits > largest ? bits : largest;
    }
    return float_of_bits(largest);
}

static inline float clamp(float value, float limit) {
    const float low = value < -limit ? -limit : value;
    return low > limit ? limit : low;
}

// Nearest even integer of a small non-negative value.
static inline uint32_t round_to_even(float value) { return uint32_t(int32_t((value + 0x1.8p23f) - 0x1.8p23f)); }

// Nearest-even rounding of |value| <= 448 to e4m3fn; below 2^-6 in steps of 2^-9.
static inline uint8_t to_e4m3(float value) {
    const uint32_t bits = bits_of_float(value), magnitude = bits & 0x7fffffff;
    const uint32_t small = round_to_even(float_of_bits(magnitude < 0x3c800000 ? magnitude : 0) * 512.0f);
    const uint32_t large = ((magnitude + 0x7ffff + ((magnitude >> 20) & 1)) >> 20) - (120 << 3);
    return uint8_t(((bits >> 24) & 0x80) | (magnitude < 0x3c800000 ? small : large));
}

// Nearest-even rounding of |value| <= 6 to e2m1; below 1 in halves.
static inline uint32_t to_e2m1(float value) {
    const uint32_t bits = bits_of_float(value), magnitude = bits & 0x7fffffff;
    const uint32_t small = round_to_even(float_of_bits(magnitude < 0x3f800000 ? magnitude : 0) * 2.0f);
    const uint32_t large = ((magnitude + 0x1fffff + ((magnitude >> 22) & 1)) >> 22) - (126 << 1);
    return ((bits >> 28) & 8) | (magnitude < 0x3f800000 ? small : large);
}

// Codes of one block of a key; returns the exponent of its scale.
static inline int round_key_block(const float* x, uint32_t* codes) {
    const float amax = largest_magnitude(x, kKeyBlock, kSmallestKeyAmax);
    const int exponent = power_of_two_above(amax * (1.0f / kE2m1Max));
    const float shrink = power_of_two(-exponent);
    for (int i = 0; i < kKeyBlock; ++i) codes[i] = to_e2m1(clamp(x[i] * shrink, kE2m1Max));
    return exponent;
}

// The value of a code, of its bits: 0 and 0.5 are the two without an exponent.
static inline float from_e2m1(uint32_t code) {
    const uint32_t magnitude = code & 7;
    const uint32_t bits = magnitude < 2 ? magnitude * 0x3f000000 : (magnitude + (126 << 1)) << 22;
    return float_of_bits(bits | (code & 8) << 28);
}

}  // namespace whitedwarf
