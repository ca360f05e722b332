// The encoders on AVX-512, sixteen blocks in a register; grid points are searched sixteen at a time.
#include <immintrin.h>

#include <cstdint>

namespace whitedwarf {
namespace {

constexpr int kLanes = 16;

// What each code of each of eight weights costs: rows[i] = the costs of weight i's codes 0, 1, 2.
inline void cost_rows(const float* x, const float* roots, float scale, float (*rows)[4]) {
    const __m256 value = _mm256_loadu_ps(x), root = _mm256_loadu_ps(roots);
    const auto costs = [&](float level) {
        const __m256 difference = _mm256_sub_ps(_mm256_mul_ps(_mm256_set1_ps(scale), _mm256_set1_ps(level)), value);
        return _mm256_mul_ps(_mm256_mul_ps(root, difference), difference);
    };
    const __m256 zero = costs(1), one = costs(3), two = costs(5);
    const __m256 low = _mm256_unpacklo_ps(zero, one), high = _mm256_unpackhi_ps(zero, one);
    const __m256 low_two = _mm256_unpacklo_ps(two, two), high_two = _mm256_unpackhi_ps(two, two);
    const auto keep = [&](__m256 pair, int i) {  // rows i and i + 4
        _mm_store_ps(rows[i], _mm256_castps256_ps128(pair));
        _mm_store_ps(rows[i + 4], _mm256_extractf128_ps(pair, 1));
    };
    keep(_mm256_shuffle_ps(low, low_two, 0x44), 0);
    keep(_mm256_shuffle_ps(low, low_two, 0xee), 1);
    keep(_mm256_shuffle_ps(high, high_two, 0x44), 2);
    keep(_mm256_shuffle_ps(high, high_two, 0xee), 3);
}

inline int nearest_point(const uint16_t* words, int count, const float* x, const float* roots, float scale) {
    alignas(64) float rows[8][4];
    cost_rows(x, roots, scale, rows);
    __m512 table[8], best = _mm512_set1_ps(__builtin_inff());
    for (int i = 0; i < 8; ++i) table[i] = _mm512_broadcast_f32x4(_mm_load_ps(rows[i]));
    __m512i place = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), found = place;
    for (int n = 0; n < count; n += 16) {
        __m512i word = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(words + n)));
        __m512 cost = _mm512_permutevar_ps(table[0], word);
        for (int i = 1; i < 8; ++i) {
            word = _mm512_srli_epi32(word, 2);
            cost = _mm512_add_ps(cost, _mm512_permutevar_ps(table[i], word));
        }
        const __mmask16 is_better = _mm512_cmp_ps_mask(cost, best, _CMP_LT_OQ);
        best = _mm512_mask_mov_ps(best, is_better, cost);
        found = _mm512_mask_mov_epi32(found, is_better, place);
        place = _mm512_add_epi32(place, _mm512_set1_epi32(16));
    }
    const __m512 least = _mm512_set1_ps(_mm512_reduce_min_ps(best));
    const __mmask16 is_least = _mm512_cmp_ps_mask(best, least, _CMP_EQ_OQ);
    return words[_mm512_mask_reduce_min_epu32(is_least ? is_least : __mmask16(1), found)];
}

}  // namespace
}  // namespace whitedwarf

#include "quantize_level.h"

namespace whitedwarf {
const QuantizeLevel kAvx512Quantize = {"avx512", encode_batch};
}
