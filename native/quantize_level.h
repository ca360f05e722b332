// The table of encoders of one CPU level: included last by the level's quantize.cpp.
#pragma once

#include "quantize_iq2.h"
#include "quantize_plain.h"

namespace whitedwarf {
namespace {

// No format with a search reaches farther, and sums of squares could overflow (gguf/codecs_plain.py knows it, too).
constexpr float kLargestSearched = 0x1p26f;

inline void encode_batch(const BlockSource& source, int64_t first, int count, uint8_t* out, EncodeFaults& faults) {
    const Layout& layout = *source.layout;
    const float* x = source.values + first * layout.block;
    const int64_t elements = int64_t(count) * layout.block;
    switch (layout.type) {
        case F16: return encode_f16(x, elements, out, faults);
        case BF16: return encode_bf16(x, elements, out);
        case Q8_0:
            for (int i = 0; i < count; ++i) encode_q8_0(x + 32 * i, out + 34 * i, faults);
            return;
        case MXFP4:
            for (int i = 0; i < count; ++i) encode_mxfp4(x + 32 * i, out + 17 * i, faults);
            return;
        default: break;
    }
    for (int i = 0; i < count; ++i) {
        const float largest = largest_of(x + 256 * i, 256, faults);
        if (largest > kLargestSearched) faults.largest = largest > faults.largest ? largest : faults.largest;
    }
    if (faults.has_infinity || faults.largest > 0) return;
    if (layout.type == Q4_K) return encode_q4_k(source, first, count, out, faults);
    if (layout.type == Q2_K) return encode_q2_k(source, first, count, out, faults);
    encode_iq2_xxs(source, first, count, out, faults);
}

}  // namespace
}  // namespace whitedwarf
