// Packed keys of 128 dims, sixteen at a time, one per lane, with one scale for all blocks of a key; and the best of many
// scores. Shared by the levels with AVX-512. Internal linkage: see blocks.h.
#pragma once

#include "avx512/vectors.h"
#include "index_query.h"

namespace whitedwarf::avx512 {

constexpr int kLanes = 16;
constexpr int kLaneWords = kAlignedDims / 4;

// Word j of a lane holds four codes of the key's dims 8 (j / 2) ..., the even ones for even j, the odd ones for odd j
// (the order of IndexQuery), times the power of two that its block has over the least of the key's.
struct AlignedKeys {
    __m512i words[kLaneWords];
    __m512 scales;     // the least powers of two
    bool is_aligned;   // false: some key's blocks lie too far apart, and nothing else counts
};

static inline void transpose(__m512i v[kLanes]) {
    __m512i w[kLanes];
    for (int i = 0; i < kLanes; i += 2) {
        w[i] = _mm512_unpacklo_epi32(v[i], v[i + 1]);
        w[i + 1] = _mm512_unpackhi_epi32(v[i], v[i + 1]);
    }
    for (int i = 0; i < kLanes; i += 4)
        for (int j = 0; j < 2; ++j) {
            v[i + 2 * j] = _mm512_unpacklo_epi64(w[i + j], w[i + j + 2]);
            v[i + 2 * j + 1] = _mm512_unpackhi_epi64(w[i + j], w[i + j + 2]);
        }
    for (int i = 0; i < kLanes; i += 8)
        for (int j = 0; j < 4; ++j) {
            w[i + j] = _mm512_shuffle_i32x4(v[i + j], v[i + j + 4], 0x88);
            w[i + j + 4] = _mm512_shuffle_i32x4(v[i + j], v[i + j + 4], 0xdd);
        }
    for (int j = 0; j < 8; ++j) {
        v[j] = _mm512_shuffle_i32x4(w[j], w[j + 8], 0x88);
        v[j + 8] = _mm512_shuffle_i32x4(w[j], w[j + 8], 0xdd);
    }
}

// kOffset: what is added to every code, for products that want them unsigned. Lanes beyond count repeat the last key.
template <int kOffset>
static inline void load_aligned(const uint8_t* keys, int64_t stride, int count, AlignedKeys& out) {
    // Quarter s holds the sixteen doubled values times 2^s.
    alignas(64) int8_t values[4][16];
    for (int s = 0; s < 4; ++s)
        for (int code = 0; code < 16; ++code) values[s][code] = int8_t(kMxfp4Codes[code] * (1 << s) + kOffset);
    const __m512i tables = _mm512_load_si512(values), nibble = _mm512_set1_epi8(15);

    alignas(64) uint32_t scales[kLanes];
    for (int k = 0; k < kLanes; ++k) scales[k] = load_u32(keys + (k < count ? k : count - 1) * stride + kAlignedDims / 2);
    const __m512i all = _mm512_load_si512(scales);
    __m512i least = _mm512_min_epu8(all, _mm512_rol_epi32(all, 8));
    least = _mm512_min_epu8(least, _mm512_rol_epi32(least, 16));  // in every byte of a lane
    const __m512i spread = _mm512_sub_epi8(all, least);
    const __m512i low = _mm512_set1_epi8(char(kE8m0Bias - kMostAlignedExponent));
    const __mmask64 is_far = _mm512_cmpgt_epu8_mask(spread, _mm512_set1_epi8(kAlignedSpread)) |
                             _mm512_cmplt_epu8_mask(least, low) |
                             _mm512_cmpgt_epu8_mask(least, _mm512_set1_epi8(char(kE8m0Bias + kMostAlignedExponent)));
    out.is_aligned = !is_far;
    if (is_far) return;
    out.scales = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_and_si512(least, _mm512_set1_epi32(255)), 23));
    _mm512_store_si512(scales, spread);

    const __m128i twice = _mm_setr_epi8(0, 0, 1, 1, 2, 2, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0);
    const __m512i odd = _mm512_setr_epi64(0, 1, 0, 1, 0, 1, 0, 1);
    __m512i even_codes[kLanes], odd_codes[kLanes];
    for (int k = 0; k < kLanes; ++k) {
        const __m512i codes = _mm512_loadu_si512(keys + (k < count ? k : count - 1) * stride);
        // A quarter of the nibbles is a block; it takes the quarter of the tables that its spread says.
        const __m512i quarter = _mm512_cvtepu8_epi64(_mm_shuffle_epi8(_mm_cvtsi32_si128(int(scales[k])), twice));
        const __m512i table =
            _mm512_permutexvar_epi64(_mm512_add_epi64(_mm512_add_epi64(quarter, quarter), odd), tables);
        even_codes[k] = _mm512_shuffle_epi8(table, _mm512_and_si512(codes, nibble));
        odd_codes[k] = _mm512_shuffle_epi8(table, _mm512_and_si512(_mm512_srli_epi16(codes, 4), nibble));
    }
    transpose(even_codes);
    transpose(odd_codes);
    for (int word = 0; word < kLanes; ++word) {
        out.words[2 * word] = even_codes[word];
        out.words[2 * word + 1] = odd_codes[word];
    }
}

// ---- the best of many scores

static inline __m512i ordered(__m512 scores) {
    const __m512i bits = _mm512_castps_si512(_mm512_add_ps(scores, _mm512_setzero_ps()));
    const __m512i sign = _mm512_srai_epi32(bits, 31);  // negative: all bits turned; else the sign
    return _mm512_xor_si512(bits, _mm512_or_si512(sign, _mm512_set1_epi32(int(0x80000000))));
}

static inline __mmask16 lanes_below(int64_t count) { return count >= 16 ? __mmask16(0xffff) : __mmask16((1u << count) - 1); }

// How many of count bits are `least` or more. Padded with zeros to whole vectors.
static inline int64_t count_from(const uint32_t* bits, int64_t count, uint32_t least) {
    const __m512i edge = _mm512_set1_epi32(int(least)), one = _mm512_set1_epi32(1);
    __m512i total[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
    int64_t k = 0;
    for (; k + 32 <= count; k += 32)
        for (int i = 0; i < 2; ++i) {
            const __mmask16 is_in = _mm512_cmpge_epu32_mask(_mm512_loadu_si512(bits + k + 16 * i), edge);
            total[i] = _mm512_mask_add_epi32(total[i], is_in, total[i], one);
        }
    for (; k < count; k += 16) {
        const __mmask16 lanes = lanes_below(count - k);
        const __mmask16 is_in =
            _mm512_mask_cmpge_epu32_mask(lanes, _mm512_maskz_loadu_epi32(lanes, bits + k), edge);
        total[0] = _mm512_mask_add_epi32(total[0], is_in, total[0], one);
    }
    return _mm512_reduce_add_epi32(_mm512_add_epi32(total[0], total[1]));
}

// The scores become their ordered bits; then the edge is found bit by bit, by counting.
static inline void pick_best_wide(float* scores, int64_t count, int64_t top, int32_t* out) {
    uint32_t* bits = reinterpret_cast<uint32_t*>(scores);
    for (int64_t k = 0; k < count; k += 16) {
        const __mmask16 lanes = lanes_below(count - k);
        _mm512_mask_storeu_epi32(bits + k, lanes, ordered(_mm512_maskz_loadu_ps(lanes, scores + k)));
    }
    uint32_t edge = 0;
    int64_t num_from = count;  // how many reach the edge
    for (int bit = 31; bit >= 0 && num_from != top; --bit) {
        const uint32_t higher = edge | 1u << bit;
        const int64_t reaching = count_from(bits, count, higher);
        if (reaching >= top) edge = higher, num_from = reaching;
    }
    const int64_t num_above = num_from == top || edge == 0xffffffff ? 0 : count_from(bits, count, edge + 1);
    int64_t num_ties = num_from == top ? top : top - num_above;
    const __m512i edges = _mm512_set1_epi32(int(edge));
    for (int64_t k = 0; k < count; k += 16) {
        const __mmask16 lanes = lanes_below(count - k);
        const __m512i here = _mm512_maskz_loadu_epi32(lanes, bits + k);
        __mmask16 picked = _mm512_mask_cmpge_epu32_mask(lanes, here, edges);
        const __mmask16 ties = num_from == top ? __mmask16(0) : _mm512_mask_cmpeq_epu32_mask(picked, here, edges);
        for (uint32_t rest = ties; rest; rest &= rest - 1)
            if (num_ties-- <= 0) picked = __mmask16(picked & ~(rest & -rest));
        const int found = __builtin_popcount(picked);
        const __m512i numbers = _mm512_add_epi32(_mm512_set1_epi32(int(k)), _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8,
                                                                                             9, 10, 11, 12, 13, 14, 15));
        _mm512_mask_storeu_epi32(out, lanes_below(found), _mm512_maskz_compress_epi32(picked, numbers));
        out += found;
    }
}

}  // namespace whitedwarf::avx512
