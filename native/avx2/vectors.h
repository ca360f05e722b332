// Small AVX2 pieces. Internal linkage: see blocks.h.
#pragma once

#include <immintrin.h>

#include "arithmetic.h"

namespace whitedwarf::avx2 {

static inline __m256i load32(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
static inline __m128i load16(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
static inline void store32(void* p, __m256i v) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }
static inline float half_at(const uint8_t* p) { return _cvtsh_ss(load_u16(p)); }

// The trees of level.h.
static inline float sum_lanes8(__m256 v) {
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

// Codes at this level: signed bytes for formats without mins.
Unpack unpacker(Type type);

void multiply(const Layout& layout, const uint8_t* weights, int64_t row_bytes, int num_rows, int64_t cols,
              const IntegerRows& x, RowList list, Output out, uint8_t* scratch);
void multiply_float(const Layout& layout, const uint8_t* weights, int64_t row_bytes, int num_rows, const FloatRows& x,
                    RowList list, Output out, uint8_t* scratch);
void decode(const Layout& layout, const uint8_t* weights, int64_t cols, float* out, uint8_t* scratch);
int64_t float_scratch_bytes(int64_t cols);

}  // namespace whitedwarf::avx2
