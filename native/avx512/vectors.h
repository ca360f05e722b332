// Small AVX-512 pieces. Internal linkage: see blocks.h.
#pragma once

#include <immintrin.h>

#include "arithmetic.h"

namespace whitedwarf::avx512 {

// Codes of formats without mins are signed; this level keeps them offset, for vpdpbusd's unsigned side.
constexpr int kOffset = 128;
constexpr int kOffsetShift = 7;

// The trees of level.h.
static inline float sum_lanes8(__m256 v) {
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

static inline float sum_lanes16(__m512 v) {
    return sum_lanes8(_mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1)));
}

static inline float half_at(const uint8_t* p) { return _cvtsh_ss(load_u16(p)); }

// 32 bytes twice.
static inline __m512i load_twice(const uint8_t* p) {
    return _mm512_broadcast_i64x4(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}

// Two times 32 bytes.
static inline __m512i load_pair(const uint8_t* low, const uint8_t* high) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(low))),
                              _mm256_loadu_si256(reinterpret_cast<const __m256i*>(high)), 1);
}

// Shift counts for 16-bit elements: `low` in the lower half, `high` in the upper.
static inline __m512i halves16(int low, int high) {
    return _mm512_inserti64x4(_mm512_set1_epi16(short(low)), _mm256_set1_epi16(short(high)), 1);
}

// Codes at this level: an unpacker per format, one whole row at a time.
Unpack unpacker(Type type);

// Integer products: any number of activation rows; many of them through an interleaved tile.
void multiply(const Layout& layout, const uint8_t* weights, int64_t row_bytes, int num_rows, int64_t cols,
              const IntegerRows& x, RowList list, Output out, uint8_t* scratch);
void multiply_tile(const Layout& layout, const uint8_t* weights, int64_t row_bytes, int num_rows, int64_t cols,
                   const IntegerRows& x, RowList list, Output out, uint8_t* scratch);
int64_t tile_scratch_bytes(int64_t padded);

// Float products and weights as floats.
void multiply_float(const Layout& layout, const uint8_t* weights, int64_t row_bytes, int num_rows, const FloatRows& x,
                    RowList list, Output out, uint8_t* scratch);
void decode(const Layout& layout, const uint8_t* weights, int64_t cols, float* out, uint8_t* scratch);
int64_t float_scratch_bytes(int64_t cols);

}  // namespace whitedwarf::avx512
