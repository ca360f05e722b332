// 256 columns at a time with AVX-512: the order this level keeps codes in, and how columns get into it.
//
// Order, granules of 16: register t of four holds, in 32-bit element s, columns 16 s + 4 t .. + 3. Four chained dot
// product instructions then leave the sum of each granule in its own element, with nothing to add across.
// Granules of 32: register t holds, in 64-bit element g, columns 32 g + 8 t .. + 7 (an eighth of a granule is what one
// IQ2_XXS grid index stands for); the sum of a granule is then that of a pair of 32-bit elements.
// Scales and mins come one per 32-bit element too (repeated for pairs). Signed codes are offset by +128, for the
// unsigned side of the instruction; the activations carry the correction (IntegerRows::offsets = -128 * the granule's
// sum, with the first element of a pair; the second has 0).
// Internal linkage: see blocks.h.
#pragma once

#include "avx512/vectors.h"

namespace whitedwarf::avx512 {

constexpr int kOffset = 128;

struct Superblock {
    __m512i codes[4];
    __m512 scales;
    __m512 mins;  // only for formats with mins
};

// Two superblocks with granules of 32: the even elements of the scales are the first's, the odd ones the second's.
struct Pair {
    __m512i codes[2][4];
    __m512 scales;
};

constexpr __mmask16 kOdd = 0xaaaa;

// 64 constant bytes, made by the compiler.
template <typename Element>
struct alignas(64) Table {
    Element elements[64 / sizeof(Element)] = {};

    template <typename Value>
    constexpr explicit Table(Value value) {
        for (int i = 0; i < int(64 / sizeof(Element)); ++i) elements[i] = Element(value(i));
    }
    operator __m512i() const { return _mm512_load_si512(elements); }
};
using Longs = Table<uint64_t>;
using Words = Table<uint32_t>;
using Bytes = Table<uint8_t>;
using Floats = Table<float>;

// The float16 at `half`, sixteen times.
static inline __m512 halves_at(const uint8_t* half) {
    return _mm512_cvtph_ps(_mm256_set1_epi16(int16_t(load_u16(half))));
}

// Columns in their own order, 64 to a register, into this level's order.
template <int kGranule>
struct Reorder {
    // t = 0, then t = 1; and t = 2, then t = 3: of words for granules of 16, of longs for granules of 32.
    static constexpr Words kFirstWords{[](int s) { return s / 8 + s % 8 * 4; }};
    static constexpr Words kSecondWords{[](int s) { return 2 + s / 8 + s % 8 * 4; }};
    static constexpr Longs kFirstLongs{[](int s) { return s / 4 + s % 4 * 4; }};
    static constexpr Longs kSecondLongs{[](int s) { return 2 + s / 4 + s % 4 * 4; }};
    __m512i first = kGranule == 16 ? __m512i(kFirstWords) : __m512i(kFirstLongs);
    __m512i second = kGranule == 16 ? __m512i(kSecondWords) : __m512i(kSecondLongs);

    static __m512i pick(__m512i from, __m512i indices, __m512i or_from) {
        return kGranule == 16 ? _mm512_permutex2var_epi32(from, indices, or_from)
                              : _mm512_permutex2var_epi64(from, indices, or_from);
    }

    void operator()(const __m512i in[4], __m512i out[4]) const {
        const __m512i a = pick(in[0], first, in[1]), b = pick(in[2], first, in[3]);
        const __m512i c = pick(in[0], second, in[1]), d = pick(in[2], second, in[3]);
        out[0] = _mm512_shuffle_i64x2(a, b, 0x44), out[1] = _mm512_shuffle_i64x2(a, b, 0xee);
        out[2] = _mm512_shuffle_i64x2(c, d, 0x44), out[3] = _mm512_shuffle_i64x2(c, d, 0xee);
    }
};

template <Type kType>
struct Format;

}  // namespace whitedwarf::avx512
