// Whole rows in the order of superblock.h: weights of every format, and activations.
#include "avx512/formats.h"
#include "avx512/products.h"

namespace whitedwarf::avx512 {
namespace {

void store(const Superblock& block, int64_t at, bool has_min, Unpacked out) {
    for (int t = 0; t < 4; ++t) _mm512_storeu_si512(out.codes + 256 * at + 64 * t, block.codes[t]);
    _mm512_storeu_ps(out.scales + 16 * at, block.scales);
    if (has_min) _mm512_storeu_ps(out.mins + 16 * at, block.mins);
}

template <Type kType, int kGranule, bool kHasMin>
void unpack_row(const uint8_t* row, int64_t cols, Unpacked out) {
    constexpr int kBytes = superblock_bytes(kType);
    const Format<kType> format;
    int64_t at = 0;
    if constexpr (kType == IQ2_XXS) {
        for (const int64_t count = cols / kSuperblock; at < count; at += 2) {
            const int64_t next = at + 1 < count ? at + 1 : at;
            const Pair pair = format.load(row + at * kBytes, row + next * kBytes);
            const auto one = [&](int i, __m512 scales) {
                const __m512i* codes = pair.codes[i];
                return Superblock{{codes[0], codes[1], codes[2], codes[3]}, scales, {}};
            };
            if (next > at) store(one(1, _mm512_movehdup_ps(pair.scales)), next, kHasMin, out);
            store(one(0, _mm512_moveldup_ps(pair.scales)), at, kHasMin, out);
        }
    } else {
        for (; at < cols / kSuperblock; ++at) store(format.load(row + at * kBytes), at, kHasMin, out);
        if (cols % kSuperblock)
            store(Slow<kType, kGranule, kHasMin>().load(row + at * kBytes, cols % kSuperblock), at, kHasMin, out);
    }
}

}  // namespace

void unpack(Type type, const uint8_t* row, int64_t cols, Unpacked out) {
    switch (type) {
        case Q8_0:
            return unpack_row<Q8_0, 32, false>(row, cols, out);
        case Q2_K:
            return unpack_row<Q2_K, 16, true>(row, cols, out);
        case Q3_K:
            return unpack_row<Q3_K, 16, false>(row, cols, out);
        case Q4_K:
            return unpack_row<Q4_K, 32, true>(row, cols, out);
        case Q5_K:
            return unpack_row<Q5_K, 32, true>(row, cols, out);
        case Q6_K:
            return unpack_row<Q6_K, 16, false>(row, cols, out);
        case IQ2_XXS:
            return unpack_row<IQ2_XXS, 32, false>(row, cols, out);
        case MXFP4:
            return unpack_row<MXFP4, 32, false>(row, cols, out);
        default:
            return;
    }
}

// The largest magnitude's bits (NaN above inf above numbers).
static uint32_t largest_bits(__m512 a, __m512 b) {
    const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
    const __m512i ab = _mm512_max_epu32(_mm512_and_si512(_mm512_castps_si512(a), magnitude),
                                        _mm512_and_si512(_mm512_castps_si512(b), magnitude));
    return _mm512_reduce_max_epu32(ab);
}

static int32_t sum16(__m128i q) {
    const __m128i sums = _mm_sad_epu8(_mm_xor_si128(q, _mm_set1_epi8(char(0x80))), _mm_setzero_si128());
    return _mm_cvtsi128_si32(sums) + _mm_extract_epi16(sums, 4) - 16 * 128;
}

template <bool kColumns>
static void quantise_row(const float* x, int64_t first, int64_t count, const IntegerRows& out, int64_t row) {
    for (int64_t k = first; k < first + count; k += kActivationBlock, x += kActivationBlock) {
        const __m512 in[2] = {_mm512_loadu_ps(x), _mm512_loadu_ps(x + 16)};
        const uint32_t amax_bits = largest_bits(in[0], in[1]);
        const bool is_finite = amax_bits < 0x7f800000;
        float d = is_finite ? float_of_bits(amax_bits) / 127.0f : float_of_bits(0x7fc00000);
        const bool is_normal = is_finite && d >= 0x1p-126f;
        if (is_finite && !is_normal) d = 0.0f;
        const __mmask16 kept = is_normal ? 0xffff : 0;
        int8_t* block = out.q + row * out.pitch() + k / kSuperblock * kSuperblock + k % kSuperblock / 4;
        alignas(16) int8_t q[kActivationBlock];
        int32_t totals[2];
        for (int half = 0; half < 2; ++half) {
            const __m512i rounded = _mm512_maskz_cvtps_epi32(kept, _mm512_div_ps(in[half], _mm512_set1_ps(d)));
            const __m128i sixteen = _mm512_cvtepi32_epi8(rounded);
            totals[half] = sum16(sixteen);
            _mm_store_si128(reinterpret_cast<__m128i*>(q + 16 * half), sixteen);
        }
        if (kColumns) std::memcpy(out.columns + row * out.pitch() + k, q, kActivationBlock);
        if (out.granule == 32)
            for (int t = 0; t < 4; ++t) std::memcpy(block + 64 * t, q + 8 * t, 8);
        else
            for (int i = 0; i < 8; ++i) std::memcpy(block + i % 4 * 64 + i / 4 * 4, q + 4 * i, 4);
        const int64_t at = row * out.stride() + k / 16;
        for (int half = 0; half < 2; ++half) {
            out.scales[at + half] = d;
            out.sums[at + half] = d * float(out.granule == 32 ? totals[0] + totals[1] : totals[half]);
            out.offsets[at + half] = -kOffset * (out.granule == 16 ? totals[half] : half ? 0 : totals[0] + totals[1]);
        }
    }
}

void quantise(const float* x, int64_t first, int64_t count, const IntegerRows& out, int64_t row) {
    quantise_row<false>(x, first, count, out, row);
}

void quantise_twice(const float* x, int64_t first, int64_t count, const IntegerRows& out, int64_t row) {
    quantise_row<true>(x, first, count, out, row);
}

}  // namespace whitedwarf::avx512
