// Small AVX-512 pieces. Internal linkage: see blocks.h.
#pragma once

#include <immintrin.h>

#include "arithmetic.h"

namespace whitedwarf::avx512 {

static inline __m512i load64(const void* p) { return _mm512_loadu_si512(p); }
static inline __m128i load16(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
static inline float half_at(const uint8_t* p) { return _cvtsh_ss(load_u16(p)); }

// The trees of level.h.
static inline float sum_lanes8(__m256 v) {
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

static inline float sum_lanes16(__m512 v) {
    return sum_lanes8(_mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1)));
}

}  // namespace whitedwarf::avx512
