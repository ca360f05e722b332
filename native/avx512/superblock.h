// 256 columns at a time with AVX-512: the order this level keeps codes in, and how each format gets into it.
//
// Order, granules of 16: register t of four holds, in 32-bit element s, columns 16 s + 4 t .. + 3. Four chained dot
// product instructions then leave the sum of each granule in its own element, with nothing to add across.
// Granules of 32: register t holds, in 64-bit element g, columns 32 g + 8 t .. + 7 (an eighth of a granule is what one
// IQ2_XXS grid index stands for); the sum of a granule is then that of a pair of 32-bit elements.
// Scales and mins come one per 32-bit element too (repeated for pairs). Signed codes are offset by +128, for the
// unsigned side of the instruction; the activations carry the correction (IntegerRows::offsets = -128 * sum of 16).
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

// Row `row` of the 8 x 8 bits that take `bits` bits from bit `first` on out of a byte (row i makes bit 7 - i): what a
// shift and a mask do, in one affine instruction, with the shift of each long.
static constexpr int field_row(int row, int first, int bits) { return 7 - row < bits ? 1 << (first + 7 - row) : 0; }

// The float16 at `half`, sixteen times. (From memory: by way of a scalar register it would be four instructions more.)
static inline __m512 halves_at(const uint8_t* half) { return _mm512_cvtph_ps(_mm256_set1_epi16(int16_t(load_u16(half)))); }

static inline __m512 times_half(__m128i sixteen_bytes, const uint8_t* half) {
    return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(sixteen_bytes)), halves_at(half));
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

// Through the scalar unpacker: for the rare formats, and for rows that end inside a superblock.
template <Type kType, int kGranule, bool kHasMin>
struct Slow {
    Reorder<kGranule> reorder;
    static constexpr Words kRepeat{[](int s) { return s * 16 / kGranule; }};

    Superblock load(const uint8_t* p, int64_t cols = kSuperblock) const {
        alignas(64) uint8_t codes[kSuperblock] = {};
        alignas(64) float scales[16] = {}, mins[16] = {};
        scalar_unpack(kType)(p, cols, {codes, scales, mins});
        __m512i in[4];
        const __m512i offset = _mm512_set1_epi8(char(kHasMin ? 0 : kOffset));
        for (int i = 0; i < 4; ++i) in[i] = _mm512_xor_si512(load64(codes + 64 * i), offset);
        Superblock out;
        reorder(in, out.codes);
        out.scales = _mm512_permutexvar_ps(kRepeat, _mm512_load_ps(scales));
        out.mins = _mm512_permutexvar_ps(kRepeat, _mm512_load_ps(mins));
        return out;
    }
};

template <Type kType>
struct Format;

template <>
struct Format<Q3_K> : Slow<Q3_K, 16, false> {};
template <>
struct Format<Q5_K> : Slow<Q5_K, 32, true> {};
template <>
struct Format<Q6_K> : Slow<Q6_K, 16, false> {};

template <>
struct Format<Q8_0> {
    Reorder<32> reorder;
    __m512i offset = _mm512_set1_epi8(char(kOffset));
    // Four float16 scales, twice each, out of 128 bytes: at 0, 34, 68 and 102.
    __m512i picks = _mm512_castsi128_si512(_mm_setr_epi16(0, 0, 17, 17, 34, 34, 51, 51));

    Superblock load(const uint8_t* p) const {
        __m512i in[4];
        for (int i = 0; i < 4; ++i) {
            const auto* block = reinterpret_cast<const __m256i*>(p + 68 * i + 2);
            const auto* next = reinterpret_cast<const __m256i*>(p + 68 * i + 36);
            const __m512i first = _mm512_castsi256_si512(_mm256_loadu_si256(block));
            in[i] = _mm512_xor_si512(_mm512_inserti64x4(first, _mm256_loadu_si256(next), 1), offset);
        }
        Superblock out;
        reorder(in, out.codes);
        out.scales = _mm512_cvtph_ps(_mm256_set_m128i(scales_at(p + 136), scales_at(p)));
        return out;
    }

    __m128i scales_at(const uint8_t* p) const {
        return _mm512_castsi512_si128(_mm512_permutex2var_epi16(load64(p), picks, load64(p + 64)));
    }
};

template <>
struct Format<Q2_K> {
    static constexpr Words kFirstWords{[](int s) { return s / 8 * 8 + s % 2 * 4; }};
    static constexpr Bytes kFields{[](int i) { return field_row(i % 8, i / 8 % 4 * 2, 2); }};
    static constexpr Floats kNumbers{[](int s) { return s; }};
    __m512i first_words = kFirstWords, fields = kFields;
    __m512 numbers = _mm512_castsi512_ps(kNumbers);

    Superblock load(const uint8_t* p) const {
        Superblock out;
        const __m512i q = load64(p + 16);
        for (int t = 0; t < 4; ++t) {
            const __m512i words = _mm512_add_epi32(first_words, _mm512_set1_epi32(t));
            out.codes[t] = _mm512_gf2p8affine_epi64_epi8(_mm512_permutexvar_epi32(words, q), fields, 0);
        }
        // The lookup uses the low four bits of its index only.
        const __m512i sc = _mm512_cvtepu8_epi32(load16(p));
        out.scales = _mm512_mul_ps(_mm512_permutexvar_ps(sc, numbers), halves_at(p + 80));
        out.mins = _mm512_mul_ps(_mm512_permutexvar_ps(_mm512_srli_epi32(sc, 4), numbers), halves_at(p + 82));
        return out;
    }
};

template <>
struct Format<Q4_K> {
    static constexpr Longs kFirstLongs{[](int g) { return g / 2 * 4; }};
    static constexpr Bytes kFields{[](int i) { return field_row(i % 8, i / 8 % 2 * 4, 4); }};
    __m512i first_longs = kFirstLongs, fields = kFields;

    Superblock load(const uint8_t* p) const {
        Superblock out;
        const __m512i low = load64(p + 16), high = load64(p + 80);
        for (int t = 0; t < 4; ++t) {
            const __m512i longs = _mm512_add_epi64(first_longs, _mm512_set1_epi64(t));
            const __m512i q = _mm512_permutex2var_epi64(low, longs, high);
            out.codes[t] = _mm512_gf2p8affine_epi64_epi8(q, fields, 0);
        }
        // Four 6-bit numbers per word at once (layout: k_scale and k_min in blocks.h).
        const uint32_t a = load_u32(p + 4), b = load_u32(p + 8), c = load_u32(p + 12);
        const uint32_t six = 0x3f3f3f3f, four = 0x0f0f0f0f, two = 0x03030303;
        out.scales = times_half(twice((a & six) | uint64_t((c & four) | (a >> 6 & two) << 4) << 32), p);
        out.mins = times_half(twice((b & six) | uint64_t((c >> 4 & four) | (b >> 6 & two) << 4) << 32), p + 2);
        return out;
    }

    static __m128i twice(uint64_t eight_bytes) {
        const __m128i v = _mm_cvtsi64_si128(int64_t(eight_bytes));
        return _mm_unpacklo_epi8(v, v);
    }
};

template <>
struct Format<MXFP4> {
    // The code bytes of four blocks of 17 bytes side by side, out of 67 bytes: 0 to 63 and 3 to 66.
    static constexpr Bytes kCompact{[](int i) { return i / 16 * 17 + i % 16 + (i / 16 * 17 + i % 16 < 64 ? 0 : 61); }};
    static constexpr Longs kFirstHalves{[](int g) { return 2 * g; }};
    static constexpr Longs kSecondHalves{[](int g) { return 2 * g + 1; }};
    static constexpr Bytes kTable{[](int i) { return kMxfp4Codes[i & 15] + kOffset; }};
    static constexpr Bytes kExponents{[](int i) { return i / 2 * 17 & 127; }};
    __m512i compact = kCompact, table = kTable, exponents = kExponents;
    __m512i first_halves = kFirstHalves, second_halves = kSecondHalves;

    Superblock load(const uint8_t* p) const {
        Superblock out;
        const __m512i low = four_blocks(p + 1), high = four_blocks(p + 69);
        const __m512i first = _mm512_permutex2var_epi64(low, first_halves, high);
        const __m512i second = _mm512_permutex2var_epi64(low, second_halves, high);
        // The low nibbles, then the high ones; the lookup takes any bits above four.
        out.codes[0] = _mm512_permutexvar_epi8(first, table);
        out.codes[1] = _mm512_permutexvar_epi8(second, table);
        out.codes[2] = _mm512_permutexvar_epi8(_mm512_srli_epi16(first, 4), table);
        out.codes[3] = _mm512_permutexvar_epi8(_mm512_srli_epi16(second, 4), table);
        const __m512i picked = _mm512_permutex2var_epi8(load64(p), exponents, load64(p + 64));
        const __m512i e = _mm512_cvtepu8_epi32(_mm512_castsi512_si128(picked));
        const __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
        const __mmask16 is_tiny = _mm512_cmplt_epu32_mask(e, _mm512_set1_epi32(2));
        out.scales = _mm512_castsi512_ps(_mm512_mask_sllv_epi32(normal, is_tiny, _mm512_set1_epi32(0x00200000), e));
        return out;
    }

    __m512i four_blocks(const uint8_t* p) const { return _mm512_permutex2var_epi8(load64(p), compact, load64(p + 3)); }
};

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
        const __m512i sevens_of = _mm512_multishift_epi64_epi8(sevens, block);
        const __m512i both = _mm512_mask_gf2p8affine_epi64_epi8(block, ~kIndices, sevens_of, parity, 0);
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
