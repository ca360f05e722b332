// 256 columns at a time with AVX-512: the order this level keeps codes in, and how each format gets into it.
//
// Order: register t of four holds, in 32-bit element s, columns 16 s + 4 t .. + 3. Four chained dot product
// instructions then leave the sum of each 16 columns in its own element, with nothing to add across. Scales and mins
// come one per element too (repeated where a format shares them among 32). Signed codes are offset by +128, for the
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
using Words = Table<uint32_t>;
using Bytes = Table<uint8_t>;

static inline __m512 times_half(__m128i sixteen_bytes, const uint8_t* half) {
    return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(sixteen_bytes)), _mm512_set1_ps(half_at(half)));
}

// Columns in their own order, 64 to a register, into this level's order.
struct Reorder {
    static constexpr Words kFirst{[](int s) { return s / 8 + s % 8 * 4; }};       // t = 0, then t = 1
    static constexpr Words kSecond{[](int s) { return 2 + s / 8 + s % 8 * 4; }};  // t = 2, then t = 3
    __m512i first = kFirst, second = kSecond;

    void operator()(const __m512i in[4], __m512i out[4]) const {
        const __m512i a = _mm512_permutex2var_epi32(in[0], first, in[1]);
        const __m512i b = _mm512_permutex2var_epi32(in[2], first, in[3]);
        const __m512i c = _mm512_permutex2var_epi32(in[0], second, in[1]);
        const __m512i d = _mm512_permutex2var_epi32(in[2], second, in[3]);
        out[0] = _mm512_shuffle_i64x2(a, b, 0x44), out[1] = _mm512_shuffle_i64x2(a, b, 0xee);
        out[2] = _mm512_shuffle_i64x2(c, d, 0x44), out[3] = _mm512_shuffle_i64x2(c, d, 0xee);
    }
};

// Through the scalar unpacker: for the rare formats, and for rows that end inside a superblock.
template <Type kType, int kGranule, bool kHasMin>
struct Slow {
    Reorder reorder;
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
    Reorder reorder;
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
    static constexpr Words kShifts{[](int s) { return s % 8 / 2 * 2; }};
    __m512i first_words = kFirstWords, shifts = kShifts, three = _mm512_set1_epi8(3);
    __m128i fifteen = _mm_set1_epi8(15);

    Superblock load(const uint8_t* p) const {
        Superblock out;
        const __m512i q = load64(p + 16);
        for (int t = 0; t < 4; ++t) {
            const __m512i words = _mm512_add_epi32(first_words, _mm512_set1_epi32(t));
            out.codes[t] = _mm512_and_si512(_mm512_srlv_epi32(_mm512_permutexvar_epi32(words, q), shifts), three);
        }
        const __m128i sc = load16(p);
        out.scales = times_half(_mm_and_si128(sc, fifteen), p + 80);
        out.mins = times_half(_mm_and_si128(_mm_srli_epi16(sc, 4), fifteen), p + 82);
        return out;
    }
};

template <>
struct Format<Q4_K> {
    static constexpr Words kFirstWords{[](int s) { return s / 4 * 8 + s % 2 * 4; }};
    static constexpr Words kShifts{[](int s) { return s / 2 % 2 * 4; }};
    __m512i first_words = kFirstWords, shifts = kShifts, fifteen = _mm512_set1_epi8(15);

    Superblock load(const uint8_t* p) const {
        Superblock out;
        const __m512i low = load64(p + 16), high = load64(p + 80);
        for (int t = 0; t < 4; ++t) {
            const __m512i words = _mm512_add_epi32(first_words, _mm512_set1_epi32(t));
            const __m512i q = _mm512_permutex2var_epi32(low, words, high);
            out.codes[t] = _mm512_and_si512(_mm512_srlv_epi32(q, shifts), fifteen);
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
    static constexpr Words kFirstWords{[](int s) { return s / 2 * 4; }};
    static constexpr Words kShifts{[](int s) { return s % 2 * 4; }};
    static constexpr Bytes kTable{[](int i) { return kMxfp4Codes[i & 15] + kOffset; }};
    static constexpr Bytes kExponents{[](int i) { return i / 2 * 17 & 127; }};
    __m512i compact = kCompact, first_words = kFirstWords, shifts = kShifts, table = kTable, exponents = kExponents;

    Superblock load(const uint8_t* p) const {
        Superblock out;
        const __m512i low = four_blocks(p + 1), high = four_blocks(p + 69);
        for (int t = 0; t < 4; ++t) {
            const __m512i words = _mm512_add_epi32(first_words, _mm512_set1_epi32(t));
            const __m512i q = _mm512_srlv_epi32(_mm512_permutex2var_epi32(low, words, high), shifts);
            out.codes[t] = _mm512_permutexvar_epi8(q, table);
        }
        const __m512i picked = _mm512_permutex2var_epi8(load64(p), exponents, load64(p + 64));
        const __m512i e = _mm512_cvtepu8_epi32(_mm512_castsi512_si128(picked));
        const __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
        const __mmask16 is_tiny = _mm512_cmplt_epu32_mask(e, _mm512_set1_epi32(2));
        out.scales = _mm512_castsi512_ps(_mm512_mask_sllv_epi32(normal, is_tiny, _mm512_set1_epi32(0x00200000), e));
        return out;
    }

    __m512i four_blocks(const uint8_t* p) const { return _mm512_permutex2var_epi8(load64(p), compact, load64(p + 3)); }
};

// No lookup in memory: the 256 grid codes are eight registers of 32 words, the 128 sign bytes two.
template <>
struct Format<IQ2_XXS> {
    static constexpr Bytes kLowSigns{[](int i) { return iq2_signs(unsigned(i)); }};
    static constexpr Bytes kHighSigns{[](int i) { return iq2_signs(unsigned(i + 64)); }};
    // Byte positions of the 32 grid indices, as words.
    static constexpr Bytes kIndexBytes{[](int i) { return i / 8 * 8 + i % 8 / 2; }};
    // Bit positions of the four 7-bit sign masks of a qword.
    static constexpr Bytes kSevens{[](int i) { return 32 + i % 4 * 7; }};
    // Bit positions, for t = 0, of the 2-bit codes; and of the sign bits, so that they land in bit 2. Per qword = 32
    // columns: bytes 0-3 belong to the first 16 columns, bytes 4-7 to the second.
    static constexpr Bytes kCodeBits{[](int i) { return i % 8 / 4 * 32 + i % 4 * 2; }};
    static constexpr Bytes kSignBits{[](int i) { return (i % 8 / 4 * 16 + i % 4 + 62) & 63; }};
    // Code in bits 0-1, sign in bit 2, anything in bits 3-5.
    static constexpr Bytes kValues{
        [](int i) { return kOffset + (i & 4 ? -int(kIq2Magnitudes[i & 3]) : int(kIq2Magnitudes[i & 3])); }};
    __m512i grid[8];
    __m512i low_signs = kLowSigns, high_signs = kHighSigns, index_bytes = kIndexBytes, sevens = kSevens;
    __m512i code_bits = kCodeBits, sign_bits = kSignBits, values = kValues, three = _mm512_set1_epi8(3);

    Format() {
        for (int i = 0; i < 8; ++i) grid[i] = load64(kIq2Grid + 32 * i);
    }

    Superblock load(const uint8_t* p) const {
        const __m512i block = load64(p + 2);  // eight qwords: four indices, then signs and scale
        const __m512i index = _mm512_maskz_permutexvar_epi8(0x5555555555555555, index_bytes, block);
        const __m512i codes = lookup(index);
        const __m512i masks = _mm512_multishift_epi64_epi8(sevens, block);
        const __m512i signs = _mm512_permutex2var_epi8(low_signs, masks, high_signs);
        Superblock out;
        for (int t = 0; t < 4; ++t) {
            const __m512i code_shift = _mm512_add_epi8(code_bits, _mm512_set1_epi8(char(8 * t)));
            const __m512i sign_shift = _mm512_add_epi8(sign_bits, _mm512_set1_epi8(char(4 * t)));
            const __m512i code = _mm512_multishift_epi64_epi8(code_shift, codes);
            const __m512i sign = _mm512_multishift_epi64_epi8(sign_shift, signs);
            // Bits 0-1 of code, the others of sign.
            const __m512i both = _mm512_ternarylogic_epi32(three, code, sign, 0xca);
            out.codes[t] = _mm512_permutexvar_epi8(both, values);
        }
        const __m512i scale = _mm512_shuffle_epi32(_mm512_srli_epi64(block, 60), _MM_PERM_CCAA);
        const float d = half_at(p);
        // (2 s + 1) / 8 * d, exact.
        out.scales = _mm512_fmadd_ps(_mm512_cvtepi32_ps(scale), _mm512_set1_ps(d * 0.25f), _mm512_set1_ps(d * 0.125f));
        return out;
    }

    __m512i lookup(__m512i index) const {
        const __mmask32 bit6 = _mm512_test_epi16_mask(index, _mm512_set1_epi16(64));
        const __mmask32 bit7 = _mm512_test_epi16_mask(index, _mm512_set1_epi16(128));
        const auto quarter = [&](int i) { return _mm512_permutex2var_epi16(grid[2 * i], index, grid[2 * i + 1]); };
        const __m512i low = _mm512_mask_mov_epi16(quarter(0), bit6, quarter(1));
        const __m512i high = _mm512_mask_mov_epi16(quarter(2), bit6, quarter(3));
        return _mm512_mask_mov_epi16(low, bit7, high);
    }
};

}  // namespace whitedwarf::avx512
