// Floats, Q8_0 and MXFP4: one pass, nothing to search. After kLanes is set, once per CPU level.
#pragma once

#include <cmath>
#include <cstring>

#include "half.h"

namespace whitedwarf {
namespace {

inline float largest_of(const float* x, int count, EncodeFaults& faults) {
    uint32_t largest = 0;
    for (int i = 0; i < count; ++i) {
        const uint32_t bits = bits_of_float(x[i]) & 0x7fffffff;
        largest = bits > largest ? bits : largest;
    }
    faults.has_infinity |= largest >= 0x7f800000;
    return float_of_bits(largest);
}

inline void encode_f16(const float* x, int64_t count, uint8_t* out, EncodeFaults& faults) {
    uint32_t largest = 0;
    for (int64_t i = 0; i < count; ++i) {
        const uint16_t half = half_of_float(x[i]);
        std::memcpy(out + 2 * i, &half, 2);
        const uint32_t bits = bits_of_float(x[i]) & 0x7fffffff;
        largest = bits > largest ? bits : largest;
    }
    if (largest < 0x477ff000) return;
    const float magnitude = largest > 0x7f800000 ? INFINITY : float_of_bits(largest);
    faults.largest = magnitude > faults.largest ? magnitude : faults.largest;
}

inline void encode_bf16(const float* x, int64_t count, uint8_t* out) {
    for (int64_t i = 0; i < count; ++i) {
        const uint16_t stored = bfloat_of_float(x[i]);
        std::memcpy(out + 2 * i, &stored, 2);
    }
}

// d = largest / 127; the quants use d before it is rounded to float16, halves round away from zero.
inline void encode_q8_0(const float* x, uint8_t* out, EncodeFaults& faults) {
    const float scale = largest_of(x, 32, faults) / 127.0f;
    const float division = 1.0f / scale;
    const float inverse = division < INFINITY ? division : 0.0f;  // zero, or so small that float16 stores zero
    if (!(scale < INFINITY)) return;
    const uint16_t stored = checked_half(scale, faults);
    std::memcpy(out, &stored, 2);
    for (int i = 0; i < 32; ++i) {
        const float scaled = x[i] * inverse;
        const int whole = int(scaled);
        out[2 + i] = uint8_t(int8_t(whole + int(2.0f * (scaled - float(whole)))));
    }
}

// Scale 2^(floor(log2(largest)) - 2); the nearest code, a tie towards zero.
inline void encode_mxfp4(const float* x, uint8_t* out, EncodeFaults& faults) {
    const float largest = largest_of(x, 32, faults);
    if (!(largest < INFINITY)) return;
    const int exponent = largest > 0 ? int(std::floor(float(std::log2(double(largest))))) + 125 : 0;
    const uint8_t scale = uint8_t(exponent < 0 ? 0 : exponent > 254 ? 254 : exponent);
    out[0] = scale;
    const float step = mxfp4_scale(scale);  // of the doubled codes 0, 1, 2, 3, 4, 6, 8, 12
    uint8_t codes[32];
    for (int i = 0; i < 32; ++i) {
        const float ratio = std::fabs(x[i]) / step;
        const int magnitude = (ratio > 0.5f) + (ratio > 1.5f) + (ratio > 2.5f) + (ratio > 3.5f) + (ratio > 5.0f) +
                              (ratio > 7.0f) + (ratio > 10.0f);
        codes[i] = uint8_t(magnitude | ((x[i] < 0) & (magnitude > 0)) << 3);
    }
    for (int i = 0; i < 16; ++i) out[1 + i] = uint8_t(codes[i] | codes[i + 16] << 4);
}

}  // namespace
}  // namespace whitedwarf
