// The encoders on AVX2, eight blocks in a register; grid points are searched eight at a time.
#include <immintrin.h>

#include <cstdint>

namespace whitedwarf {
namespace {

constexpr int kLanes = 8;

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
    alignas(32) float rows[8][4];
    cost_rows(x, roots, scale, rows);
    __m256 table[8], best = _mm256_set1_ps(__builtin_inff());
    for (int i = 0; i < 8; ++i) table[i] = _mm256_broadcast_ps(reinterpret_cast<const __m128*>(rows[i]));
    __m256i place = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), found = place;
    for (int n = 0; n < count; n += 8) {
        __m256i word = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(words + n)));
        __m256 cost = _mm256_permutevar_ps(table[0], word);
        for (int i = 1; i < 8; ++i) {
            word = _mm256_srli_epi32(word, 2);
            cost = _mm256_add_ps(cost, _mm256_permutevar_ps(table[i], word));
        }
        const __m256 is_better = _mm256_cmp_ps(cost, best, _CMP_LT_OQ);
        best = _mm256_blendv_ps(best, cost, is_better);
        found = _mm256_blendv_epi8(found, place, _mm256_castps_si256(is_better));
        place = _mm256_add_epi32(place, _mm256_set1_epi32(8));
    }
    alignas(32) float costs[8];
    alignas(32) int32_t places[8];
    _mm256_store_ps(costs, best);
    _mm256_store_si256(reinterpret_cast<__m256i*>(places), found);
    int first = 0;
    for (int lane = 1; lane < 8; ++lane)
        if (costs[lane] < costs[first] || (costs[lane] == costs[first] && places[lane] < places[first])) first = lane;
    return words[places[first]];
}

}  // namespace
}  // namespace whitedwarf

#include "quantize_level.h"

namespace whitedwarf {
const QuantizeLevel kAvx2Quantize = {"avx2", encode_batch};
}
