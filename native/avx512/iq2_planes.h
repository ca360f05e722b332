// IQ2_XXS into the order of superblock.h, without a lookup in memory. Internal linkage: see blocks.h.
#pragma once

#include "avx512/superblock.h"

namespace whitedwarf::avx512 {

// Bit `bit` of each of the eight codes of a grid entry.
static constexpr int iq2_plane(int entry, int bit) {
    int byte = 0;
    for (int i = 0; i < 8; ++i) byte |= (kIq2Grid[entry] >> (2 * i + bit) & 1) << i;
    return byte;
}

// Low bit of the code in bit `first`, high bit two further up, sign four further up.
static constexpr int iq2_value(int bits, int first) {
    const int code = (bits >> first & 1) | (bits >> (first + 2) & 1) << 1;
    return kOffset + (bits >> (first + 4) & 1 ? -1 : 1) * int(kIq2Magnitudes[code]);
}

// Two superblocks at once, so that their 64 grid indices fill a register: a long has the four indices of a granule of
// the first and of the second. An index stands for an eighth, eight columns of a granule.
//
// The grid lies in eight registers as two planes of bytes, one of the low and one of the high bits of its 2-bit codes;
// the signs are a third plane, so each eighth has three bytes with a bit per column. A long of a plane is a matrix of
// bits, eighth by column, and one affine instruction turns it over: then byte = column, bit = eighth, and each of the
// eight registers of codes wants one bit of each turned plane. The planes are turned by two bytes against each other,
// so that the bits of two eighths can be picked out of the three registers into one, which is an index of six bits.
//
// Why so: with 512-bit registers Intel has two ports, and one of them alone does the lookups; vpermi2b takes it twice.
// This is 54 instructions for 512 weights and one activation row, 19 of them lookups or like them.
template <>
struct Format<IQ2_XXS> {
    // A plane of the grid, and its quarter of 64 entries.
    template <int kBit, int kQuarter>
    static constexpr Bytes kPlane{[](int i) { return iq2_plane(64 * kQuarter + i, kBit); }};
    static constexpr Bytes kTurn{[](int i) { return 1 << i % 8; }};
    // Column 7's sign is the parity of the other seven; bit 7 of a sign byte is not its own.
    static constexpr Bytes kTurnSigns{[](int i) { return i % 8 == 7 ? 0x7f : 1 << i % 8; }};
    // Where, in a long of two words, the 7-bit sign masks start; four bytes away from their eighth.
    static constexpr Bytes kSevens{[](int i) { return ((i + 4) % 8) / 4 * 32 + i % 4 * 7; }};
    // Bits 2 i, 2 i + 1 from the low plane, the next two from the high one, the rest from the signs.
    template <int kPair>
    static constexpr Bytes kLow{[](int) { return 3 << 2 * kPair; }};
    template <int kPair>
    static constexpr Bytes kCodes{[](int) { return (15 << 2 * kPair | 15 >> (8 - 2 * kPair)) & 255; }};
    // Bits 2 i and up to bit 0 and up, round the byte. Row r of a matrix makes bit 7 - r.
    template <int kPair>
    static constexpr Bytes kRound{[](int r) { return 1 << (7 - r % 8 + 2 * kPair) % 8; }};
    static constexpr Bytes kFirstValues{[](int i) { return iq2_value(i, 0); }};
    static constexpr Bytes kSecondValues{[](int i) { return iq2_value(i, 1); }};
    static constexpr Floats kScales{[](int s) { return float(2 * s + 1) * 0.125f; }};

    __m512i low_plane[4] = {kPlane<0, 0>, kPlane<0, 1>, kPlane<0, 2>, kPlane<0, 3>};
    __m512i high_plane[4] = {kPlane<1, 0>, kPlane<1, 1>, kPlane<1, 2>, kPlane<1, 3>};
    __m512i turn = kTurn, turn_signs = kTurnSigns, sevens = kSevens;
    __m512i first_values = kFirstValues, second_values = kSecondValues;
    __m512 numbers = _mm512_castsi512_ps(kScales);

    struct Planes {
        __m512i low, high, signs;  // byte = column, bit 7 - k = eighth k, high two bits further up and signs four
    };

    // A superblock is a scale and eight longs: four indices, then a word of signs and a number. Masked loads touch
    // nothing before the first or behind the second superblock.
    Pair load(const uint8_t* first, const uint8_t* second) const {
        const __m512i indices = _mm512_mask_loadu_epi32(load64(first + 2), kOdd, second - 2);
        const __m512i words =
            _mm512_mask_loadu_epi32(_mm512_maskz_loadu_epi32(0x5555, first + 6), kOdd, second + 2);
        const Planes planes = turned(indices, words);
        Pair out;
        put<0>(planes, out.codes[1][3], out.codes[1][2]);
        put<1>(planes, out.codes[1][1], out.codes[1][0]);
        put<2>(planes, out.codes[0][3], out.codes[0][2]);
        put<3>(planes, out.codes[0][1], out.codes[0][0]);
        // A word's top four bits; (2 s + 1) / 8 * d is exact.
        const __m512 scale = _mm512_permutexvar_ps(_mm512_srli_epi32(words, 28), numbers);
        const uint32_t halves = load_u16(first) | uint32_t(load_u16(second)) << 16;
        out.scales = _mm512_mul_ps(scale, _mm512_cvtph_ps(_mm256_set1_epi32(int32_t(halves))));
        return out;
    }

    Planes turned(__m512i indices, __m512i words) const {
        const __mmask64 top = _mm512_movepi8_mask(indices);
        const __mmask64 next = _mm512_movepi8_mask(_mm512_add_epi8(indices, indices));
        const auto lookup = [&](const __m512i* table) {
            const __m512i lower = _mm512_mask_permutexvar_epi8(_mm512_permutexvar_epi8(indices, table[0]), next,
                                                               indices, table[1]);
            return _mm512_mask_permutexvar_epi8(_mm512_mask_permutexvar_epi8(lower, top, indices, table[2]),
                                                _kand_mask64(top, next), indices, table[3]);
        };
        const auto turn_over = [](__m512i columns, __m512i plane) {
            return _mm512_gf2p8affine_epi64_epi8(columns, plane, 0);
        };
        return {turn_over(turn, lookup(low_plane)), turn_over(turn, _mm512_ror_epi64(lookup(high_plane), 16)),
                turn_over(turn_signs, _mm512_multishift_epi64_epi8(sevens, words))};
    }

    // The codes of the eighths whose low bits are bits 2 kPair and 2 kPair + 1.
    template <int kPair>
    void put(const Planes& planes, __m512i& first, __m512i& second) const {
        constexpr int kSecondChooses = 0xe2;  // second operand ? first : third
        const __m512i codes = _mm512_ternarylogic_epi32(planes.low, kLow<kPair>, planes.high, kSecondChooses);
        __m512i index = _mm512_ternarylogic_epi32(codes, kCodes<kPair>, planes.signs, kSecondChooses);
        if (kPair > 0) index = _mm512_gf2p8affine_epi64_epi8(index, kRound<kPair>, 0);
        first = _mm512_permutexvar_epi8(index, first_values);
        second = _mm512_permutexvar_epi8(index, second_values);
    }
};

}  // namespace whitedwarf::avx512
