// The AVX-512 level (F, BW, DQ, VL, VBMI, VNNI; and GFNI).
#include "arithmetic.h"
#include "avx512/products.h"
#include "avx512/vectors.h"

namespace whitedwarf {
namespace {

int64_t scratch_bytes(int64_t cols) {
    const int64_t integer = avx512::tile_scratch_bytes(padded_columns(cols));
    const int64_t floating = avx512::float_scratch_bytes(cols);
    return integer > floating ? integer : floating;
}

}  // namespace

namespace avx512 {
namespace {

// swiglu_row of arithmetic.h, operation by operation. Where a value is NaN, min and max give their second operand.
__m512 exponential16(__m512 x) {
    const auto set = [](float value) { return _mm512_set1_ps(value); };
    x = _mm512_min_ps(set(87.0f), _mm512_max_ps(set(-87.0f), x));
    const __m512 shifted = _mm512_add_ps(_mm512_mul_ps(x, set(1.44269504f)), set(12582912.0f));
    const __m512 n = _mm512_sub_ps(shifted, set(12582912.0f));
    const __m512 r = _mm512_sub_ps(_mm512_sub_ps(x, _mm512_mul_ps(n, set(0.693359375f))),
                                   _mm512_mul_ps(n, set(-2.12194440e-4f)));
    __m512 p = set(1.9875691500e-4f);
    constexpr float kFactors[] = {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f,
                                  5.0000001201e-1f};
    for (float factor : kFactors) p = _mm512_add_ps(_mm512_mul_ps(p, r), set(factor));
    p = _mm512_add_ps(_mm512_add_ps(_mm512_mul_ps(_mm512_mul_ps(p, r), r), r), set(1.0f));
    const __m512i offset = _mm512_set1_epi32(127 - int(bits_of_float(12582912.0f)));
    const __m512i exponent = _mm512_slli_epi32(_mm512_add_epi32(_mm512_castps_si512(shifted), offset), 23);
    return _mm512_mul_ps(p, _mm512_castsi512_ps(exponent));
}

}  // namespace

void swiglu(const float* g, const float* u, int64_t count, float limit, float weight, float* h) {
    const __m512 highest = _mm512_set1_ps(limit), lowest = _mm512_set1_ps(-limit);
    for (int64_t i = 0; i < count; i += 16) {
        const __mmask16 used = count - i < 16 ? __mmask16((1u << (count - i)) - 1) : __mmask16(0xffff);
        const __m512 gate = _mm512_min_ps(highest, _mm512_maskz_loadu_ps(used, g + i));
        const __m512 up = _mm512_min_ps(highest, _mm512_max_ps(lowest, _mm512_maskz_loadu_ps(used, u + i)));
        const __m512 minus = _mm512_xor_ps(gate, _mm512_set1_ps(-0.0f));
        const __m512 divisor = _mm512_add_ps(_mm512_set1_ps(1.0f), exponential16(minus));
        const __m512 product = _mm512_mul_ps(_mm512_div_ps(gate, divisor), up);
        _mm512_mask_storeu_ps(h + i, used, _mm512_mul_ps(product, _mm512_set1_ps(weight)));
    }
}

}  // namespace avx512

const Level kAvx512 = {"avx512",      avx512::quantise, avx512::multiply, avx512::multiply_float,
                       scratch_bytes, avx512::decode,   avx512::swiglu};

}  // namespace whitedwarf
