// Integer products. Few activation rows: one unpacked weight row at a time, here. Many: interleaved tiles, tile.cpp.
//
// Both follow the order of level.h, so the choice does not show in the result.
#include "avx512/vectors.h"

namespace whitedwarf::avx512 {
namespace {

constexpr int64_t kFewRows = 3;  // up to here the interleaving does not pay

template <int kGranule>
constexpr int kLanes = kSuperblock / kGranule;

// Sums of each granule of a superblock, in order; 16 of them, or 8 in the lower half.
template <int kGranule>
__m512i granule_sums(const uint8_t* codes, const int8_t* q) {
    const auto products = [&](int i) {
        return _mm512_dpbusd_epi32(_mm512_setzero_si512(), _mm512_loadu_si512(codes + 64 * i),
                                   _mm512_loadu_si512(q + 64 * i));
    };
    const auto pairs32 = [](__m512i a, __m512i b) {
        return _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    };
    const __m512i a = pairs32(products(0), products(1)), b = pairs32(products(2), products(3));
    // Element 4 L + i: 16 columns number L of the i-th 64.
    const __m512i sixteens = _mm512_add_epi32(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
    if constexpr (kGranule == 16) {
        const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
        return _mm512_permutexvar_epi32(order, sixteens);
    } else {
        const __m512i pairs = _mm512_add_epi32(sixteens, _mm512_shuffle_i32x4(sixteens, sixteens, 0b10110001));
        const __m512i order = _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 0, 0, 0, 0, 0, 0, 0, 0);
        return _mm512_permutexvar_epi32(order, pairs);
    }
}

template <int kGranule, bool kHasMin>
float dot(const Unpacked& w, const IntegerRows& x, int64_t row) {
    const int8_t* q = x.q + row * x.padded;
    const int64_t first = row * x.granules();
    const float *scales = x.scales + first, *sums = x.sums + first;
    const int32_t* q_sums = x.q_sums + first;
    constexpr __mmask16 kUsed = kGranule == 16 ? 0xffff : 0x00ff;
    __m512 acc = _mm512_setzero_ps();
    for (int64_t s = 0, k = 0; k < x.padded; s += kLanes<kGranule>, k += kSuperblock) {
        __m512i p = granule_sums<kGranule>(w.codes + k, q + k);
        if (!kHasMin)
            p = _mm512_sub_epi32(p, _mm512_slli_epi32(_mm512_maskz_loadu_epi32(kUsed, q_sums + s), kOffsetShift));
        const __m512 scale =
            _mm512_mul_ps(_mm512_maskz_loadu_ps(kUsed, w.scales + s), _mm512_maskz_loadu_ps(kUsed, scales + s));
        acc = _mm512_mask3_fmadd_ps(_mm512_cvtepi32_ps(p), scale, acc, kUsed);
        if (kHasMin)
            acc = _mm512_fnmadd_ps(_mm512_maskz_loadu_ps(kUsed, w.mins + s), _mm512_maskz_loadu_ps(kUsed, sums + s), acc);
    }
    return kGranule == 16 ? sum_lanes16(acc) : sum_lanes8(_mm512_castps512_ps256(acc));
}

template <int kGranule, bool kHasMin>
void multiply_rows(const Layout& layout, const uint8_t* weights, int64_t row_bytes, int num_rows, int64_t cols,
                   const IntegerRows& x, RowList list, Output out, uint8_t* scratch) {
    const Unpack unpack = unpacker(layout.type);
    const Unpacked w = unpacked_in(scratch, x.padded);
    clear_padding(layout, cols, w);
    for (int r = 0; r < num_rows; ++r) {
        unpack(weights + r * row_bytes, cols, w);
        for (int64_t i = 0; i < list.count; ++i)
            out.data[i * out.stride + r] = dot<kGranule, kHasMin>(w, x, list.rows[i]);
    }
}

template <int kGranule, bool kHasMin>
void choose(const Layout& layout, const uint8_t* weights, int64_t row_bytes, int num_rows, int64_t cols,
            const IntegerRows& x, RowList list, Output out, uint8_t* scratch) {
    if (list.count <= kFewRows)
        multiply_rows<kGranule, kHasMin>(layout, weights, row_bytes, num_rows, cols, x, list, out, scratch);
    else
        multiply_tile(layout, weights, row_bytes, num_rows, cols, x, list, out, scratch);
}

}  // namespace

void multiply(const Layout& layout, const uint8_t* weights, int64_t row_bytes, int num_rows, int64_t cols,
              const IntegerRows& x, RowList list, Output out, uint8_t* scratch) {
    const auto call = layout.granule == 32 ? layout.has_min ? choose<32, true> : choose<32, false>
                      : layout.has_min     ? choose<16, true>
                                           : choose<16, false>;
    call(layout, weights, row_bytes, num_rows, cols, x, list, out, scratch);
}

}  // namespace whitedwarf::avx512
