// Integer products with 256-bit registers, in the order of level.h.
#include "avx2/vectors.h"

namespace whitedwarf::avx2 {
namespace {

// Eight sums of four columns each. Pairs of products stay below 2^15: |code| <= 128 and |q| <= 127.
template <bool kHasMin>
__m256i products(const uint8_t* codes, const int8_t* q) {
    const __m256i w = load32(codes), x = load32(q);
    const __m256i pairs =
        kHasMin ? _mm256_maddubs_epi16(w, x) : _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
    return _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
}

// Four times 32 columns: element i of the lower (upper) half = first (second) 16 columns of the i-th 32.
template <bool kHasMin>
__m256i sixteens(const uint8_t* codes, const int8_t* q) {
    const auto at = [&](int i) { return products<kHasMin>(codes + 32 * i, q + 32 * i); };
    return _mm256_hadd_epi32(_mm256_hadd_epi32(at(0), at(1)), _mm256_hadd_epi32(at(2), at(3)));
}

template <bool kHasMin>
float dot32(const Unpacked& w, const IntegerRows& x, int64_t row) {
    const int8_t* q = x.q + row * x.pitch();
    const float *scales = x.scales + row * x.stride(), *sums = x.sums + row * x.stride();
    __m256 acc = _mm256_setzero_ps();
    for (int64_t k = 0, s = 0; k < x.padded; k += 256, s += 8) {
        const __m256i a = sixteens<kHasMin>(w.codes + k, q + k);
        const __m256i b = sixteens<kHasMin>(w.codes + k + 128, q + k + 128);
        const __m256i p =
            _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31));
        const __m256 scale = _mm256_mul_ps(_mm256_loadu_ps(w.scales + s), _mm256_loadu_ps(scales + s));
        acc = _mm256_fmadd_ps(_mm256_cvtepi32_ps(p), scale, acc);
        if (kHasMin) acc = _mm256_fnmadd_ps(_mm256_loadu_ps(w.mins + s), _mm256_loadu_ps(sums + s), acc);
    }
    return sum_lanes8(acc);
}

template <bool kHasMin>
float dot16(const Unpacked& w, const IntegerRows& x, int64_t row) {
    const int8_t* q = x.q + row * x.pitch();
    const float *scales = x.scales + row * x.stride(), *sums = x.sums + row * x.stride();
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256 acc[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    for (int64_t k = 0, s = 0; k < x.padded; k += 256, s += 16)
        for (int i = 0; i < 2; ++i) {
            const int64_t at = k + 128 * i, to = s + 8 * i;
            const __m256i p = _mm256_permutevar8x32_epi32(sixteens<kHasMin>(w.codes + at, q + at), order);
            const __m256 scale = _mm256_mul_ps(_mm256_loadu_ps(w.scales + to), _mm256_loadu_ps(scales + to));
            acc[i] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(p), scale, acc[i]);
            if (kHasMin) acc[i] = _mm256_fnmadd_ps(_mm256_loadu_ps(w.mins + to), _mm256_loadu_ps(sums + to), acc[i]);
        }
    return sum_lanes8(_mm256_add_ps(acc[0], acc[1]));
}

}  // namespace

void multiply(const Layout& layout, const uint8_t* weights, int64_t row_bytes, int num_rows, int64_t cols,
              const IntegerRows& x, RowList list, Output out, uint8_t* scratch) {
    const Dot dot = layout.granule == 32 ? layout.has_min ? dot32<true> : dot32<false>
                    : layout.has_min     ? dot16<true>
                                         : dot16<false>;
    multiply_strips(layout, unpacker(layout.type), dot, weights, row_bytes, num_rows, cols, x, list, out, scratch);
}

}  // namespace whitedwarf::avx2
