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

// Code in bits 0-1 and sign in bit 2.
static constexpr int iq2_value(int i) { return kOffset + (i & 4 ? -1 : 1) * int(kIq2Magnitudes[i & 3]); }

// No lookup in memory: the grid lies in eight registers as two planes of bytes, one of the low and one of the high bits
// of the eight 2-bit codes. So each eight columns have three bytes (two of codes, one of signs) with a bit per column.
// Those of two eighths stacked are a matrix of bits, and one affine instruction turns it over: a byte per column, whose
// bits 0-2 say everything about the first eighth's column and bits 3-5 about the second's. One more lookup for each.
template <>
struct Format<IQ2_XXS> {
    // A plane of the grid, and its quarter of 64 entries.
    template <int kBit, int kQuarter>
    static constexpr Bytes kPlane{[](int i) { return iq2_plane(64 * kQuarter + i, kBit); }};
    // Bits 0-6 stay, bit 7 becomes their parity (iq2_signs). Row i of a matrix makes bit 7 - i.
    static constexpr Bytes kParity{[](int i) { return i % 8 ? 0x80 >> i % 8 : 0x7f; }};
    static constexpr Bytes kTurn{[](int i) { return 1 << i % 8; }};
    // Where, in a block's long, the four 7-bit sign masks start; they go to bytes 4 to 7, beside the four indices.
    static constexpr Bytes kSevens{[](int i) { return 32 + i % 4 * 7; }};
    static constexpr Bytes kTopOfIndices{[](int i) { return i % 8 < 4 ? 0x80 : 0; }};
    // The matrix of eighths 0 and 1 (2 and 3: two more), from the last row up: low plane, high plane, signs; twice.
    static constexpr Bytes kRows{[](int i) {
        const int row = 7 - i % 8, eighth = row / 3 % 2, first = i / 8 * 8;
        return first + eighth + (row % 3 == 0 ? 0 : row % 3 == 1 ? 64 : 4);
    }};
    static constexpr Bytes kFirstValues{[](int i) { return iq2_value(i & 7); }};
    static constexpr Bytes kSecondValues{[](int i) { return iq2_value(i >> 3); }};
    static constexpr Floats kScales{[](int s) { return float(2 * s + 1) * 0.125f; }};

    __m512i low_plane[4] = {kPlane<0, 0>, kPlane<0, 1>, kPlane<0, 2>, kPlane<0, 3>};
    __m512i high_plane[4] = {kPlane<1, 0>, kPlane<1, 1>, kPlane<1, 2>, kPlane<1, 3>};
    __m512i parity = kParity, turn = kTurn, sevens = kSevens, top_of_indices = kTopOfIndices, rows = kRows;
    __m512i first_values = kFirstValues, second_values = kSecondValues;
    __m512 numbers = _mm512_castsi512_ps(kScales);

    Superblock load(const uint8_t* p) const {
        constexpr __mmask64 kIndices = 0x0f0f0f0f0f0f0f0f;
        const __m512i block = load64(p + 2);  // eight longs: four indices, then signs and scale
        const __mmask64 is_upper = _mm512_test_epi8_mask(block, top_of_indices);
        const __m512i masks = _mm512_multishift_epi64_epi8(sevens, block);
        const __m512i both = _mm512_mask_gf2p8affine_epi64_epi8(block, ~kIndices, masks, parity, 0);
        const __m512i low = _mm512_mask2_permutex2var_epi8(low_plane[0], both, kIndices, low_plane[1]);
        const __m512i low_and_signs = _mm512_mask_mov_epi8(low, is_upper, lookup(both, low_plane + 2));
        const __m512i high = _mm512_mask_mov_epi8(lookup(both, high_plane), is_upper, lookup(both, high_plane + 2));
        Superblock out;
        for (int pair = 0; pair < 2; ++pair) {
            const __m512i from = _mm512_add_epi8(rows, _mm512_set1_epi8(char(2 * pair)));
            const __m512i matrix = _mm512_permutex2var_epi8(low_and_signs, from, high);
            const __m512i columns = _mm512_gf2p8affine_epi64_epi8(turn, matrix, 0);
            out.codes[2 * pair] = _mm512_permutexvar_epi8(columns, first_values);
            out.codes[2 * pair + 1] = _mm512_permutexvar_epi8(columns, second_values);
        }
        // A long's top four bits, from where the shift goes round; (2 s + 1) / 8 * d is exact.
        const __m512i scale = _mm512_multishift_epi64_epi8(_mm512_set1_epi8(60), block);
        out.scales = _mm512_mul_ps(_mm512_permutexvar_ps(scale, numbers), halves_at(p));
        return out;
    }

    static __m512i lookup(__m512i index, const __m512i* table) {
        return _mm512_permutex2var_epi8(table[0], index, table[1]);
    }
};

}  // namespace whitedwarf::avx512
