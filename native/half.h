// float32 to float16 and bfloat16, to nearest even. Internal linkage: see blocks.h.
#pragma once

#include <cmath>

#include "quantize.h"

namespace whitedwarf {

// Without branches, so that a loop of it becomes vectors. What is too large becomes infinite; not-a-numbers stay such.
static inline uint16_t half_of_float(float value) {
    const uint32_t bits = bits_of_float(value), magnitude = bits & 0x7fffffff;
    const uint32_t small = bits_of_float(float_of_bits(magnitude < 0x38800000 ? magnitude : 0) + 0.5f) - 0x3f000000;
    const uint32_t normal = (magnitude + 0xfff + (magnitude >> 13 & 1) - (112u << 23)) >> 13;
    const uint32_t special = magnitude > 0x7f800000 ? 0x7e00u : 0x7c00u;
    const uint32_t finite = magnitude < 0x38800000 ? small : normal;
    return uint16_t((bits >> 16 & 0x8000) | (magnitude < 0x477ff000 ? finite : special));
}

static inline uint16_t bfloat_of_float(float value) {
    const uint32_t bits = bits_of_float(value);
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return uint16_t((bits & 0x7fffffff) > 0x7f800000 ? (bits >> 16 | 0x40) : rounded);
}

// The float16 of a block's scale; what it cannot hold is noted.
static inline uint16_t checked_half(float value, EncodeFaults& faults) {
    const float magnitude = value < 0 ? -value : value;
    if (!(magnitude < 65520.0f)) {
        const float noted = magnitude == magnitude ? magnitude : INFINITY;
        faults.largest = noted > faults.largest ? noted : faults.largest;
    }
    return half_of_float(value);
}

}  // namespace whitedwarf
