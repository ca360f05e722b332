// Whole rows in the order of superblock.h: weights of every format, and activations.
#include "avx512/products.h"
#include "avx512/superblock.h"

namespace whitedwarf::avx512 {
namespace {

void store(const Superblock& block, int64_t at, bool has_min, Unpacked out) {
    for (int t = 0; t < 4; ++t) _mm512_storeu_si512(out.codes + 256 * at + 64 * t, block.codes[t]);
    _mm512_storeu_ps(out.scales + 16 * at, block.scales);
    if (has_min) _mm512_storeu_ps(out.mins + 16 * at, block.mins);
}

template <Type kType, int kGranule, bool kHasMin>
void unpack_row(const uint8_t* row, int64_t cols, Unpacked out) {
    constexpr int kBytes = kLayouts[layout_index(kType)].bytes * (kSuperblock / kLayouts[layout_index(kType)].block);
    const Format<kType> format;
    int64_t at = 0;
    for (; at < cols / kSuperblock; ++at) store(format.load(row + at * kBytes), at, kHasMin, out);
    if (cols % kSuperblock)
        store(Slow<kType, kGranule, kHasMin>().load(row + at * kBytes, cols % kSuperblock), at, kHasMin, out);
}

}  // namespace

void unpack(Type type, const uint8_t* row, int64_t cols, Unpacked out) {
    switch (type) {
        case Q8_0: return unpack_row<Q8_0, 32, false>(row, cols, out);
        case Q2_K: return unpack_row<Q2_K, 16, true>(row, cols, out);
        case Q3_K: return unpack_row<Q3_K, 16, false>(row, cols, out);
        case Q4_K: return unpack_row<Q4_K, 32, true>(row, cols, out);
        case Q5_K: return unpack_row<Q5_K, 32, true>(row, cols, out);
        case Q6_K: return unpack_row<Q6_K, 16, false>(row, cols, out);
        case IQ2_XXS: return unpack_row<IQ2_XXS, 32, false>(row, cols, out);
        case MXFP4: return unpack_row<MXFP4, 32, false>(row, cols, out);
        default: return;
    }
}

void quantise(const float* x, int64_t first, int64_t count, const IntegerRows& out, int64_t row) {
    for (int64_t k = first; k < first + count; k += kActivationBlock, x += kActivationBlock) {
        int8_t q[kActivationBlock];
        const float d = quantise_block(x, q);
        const int s = int(k % kSuperblock / 16);  // and s + 1
        int8_t* block = out.q + row * out.pitch() + k / kSuperblock * kSuperblock;
        int32_t totals[2] = {};
        for (int half = 0; half < 2; ++half) {
            for (int t = 0; t < 4; ++t) std::memcpy(block + 64 * t + 4 * (s + half), q + 16 * half + 4 * t, 4);
            for (int i = 0; i < 16; ++i) totals[half] += q[16 * half + i];
        }
        const int64_t at = row * out.stride() + k / 16;
        for (int half = 0; half < 2; ++half) {
            out.scales[at + half] = d;
            out.sums[at + half] = d * float(out.granule == 32 ? totals[0] + totals[1] : totals[half]);
            out.offsets[at + half] = -kOffset * totals[half];
        }
    }
}

}  // namespace whitedwarf::avx512
