// How each format gets into the order of superblock.h, 256 columns at a time. Internal linkage: see blocks.h.
#pragma once

#include "avx512/iq2_planes.h"

namespace whitedwarf::avx512 {

// Two float16 side by side, each sixteen times.
struct TwoHalves {
    __m512 first, second;
};

static inline TwoHalves two_halves_at(const uint8_t* halves) {
    const __m512 both = _mm512_cvtph_ps(_mm256_set1_epi32(int32_t(load_u32(halves))));
    return {_mm512_moveldup_ps(both), _mm512_movehdup_ps(both)};
}

static constexpr int superblock_bytes(Type type) {
    const Layout& layout = kLayouts[layout_index(type)];
    return layout.bytes * (kSuperblock / layout.block);
}

// Row `row` of the 8 x 8 bits that take `bits` bits from bit `first` on out of a byte (row i makes bit 7 - i): what a
// shift and a mask do, in one affine instruction, with the shift of each long.
static constexpr int field_row(int row, int first, int bits) { return 7 - row < bits ? 1 << (first + 7 - row) : 0; }

// Through the scalar unpacker: for rows that end inside a superblock.
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
        const TwoHalves units = two_halves_at(p + 80);
        out.scales = _mm512_mul_ps(_mm512_permutexvar_ps(sc, numbers), units.first);
        out.mins = _mm512_mul_ps(_mm512_permutexvar_ps(_mm512_srli_epi32(sc, 4), numbers), units.second);
        return out;
    }
};

// Scales and mins of Q4_K and Q5_K: four 6-bit numbers per word at once (layout: k_scale and k_min in blocks.h).
static inline void put_k_numbers(const uint8_t* p, Superblock& out) {
    const auto floats = [](uint64_t eight_bytes) {
        const __m128i v = _mm_cvtsi64_si128(int64_t(eight_bytes));
        return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_unpacklo_epi8(v, v)));
    };
    const uint32_t a = load_u32(p + 4), b = load_u32(p + 8), c = load_u32(p + 12);
    const uint32_t six = 0x3f3f3f3f, four = 0x0f0f0f0f, two = 0x03030303;
    const TwoHalves units = two_halves_at(p);
    out.scales = _mm512_mul_ps(floats((a & six) | uint64_t((c & four) | (a >> 6 & two) << 4) << 32), units.first);
    out.mins = _mm512_mul_ps(floats((b & six) | uint64_t((c >> 4 & four) | (b >> 6 & two) << 4) << 32), units.second);
}

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
        put_k_numbers(p, out);
        return out;
    }
};

// The low bits like Q4_K's; the fifth of 32 columns side by side is bit g of 32 bytes.
template <>
struct Format<Q5_K> {
    static constexpr Bytes kFifth{[](int i) { return i % 8 == 7 - 4 ? 1 << i / 8 : 0; }};
    __m512i first_longs = Format<Q4_K>::kFirstLongs, fields = Format<Q4_K>::kFields, fifth = kFifth;

    Superblock load(const uint8_t* p) const {
        Superblock out;
        const __m512i low = load64(p + 48), high = load64(p + 112);
        for (int t = 0; t < 4; ++t) {
            const __m512i longs = _mm512_add_epi64(first_longs, _mm512_set1_epi64(t));
            const __m512i q = _mm512_permutex2var_epi64(low, longs, high);
            int64_t eight;
            std::memcpy(&eight, p + 16 + 8 * t, 8);
            const __m512i top = _mm512_gf2p8affine_epi64_epi8(_mm512_set1_epi64(eight), fifth, 0);
            out.codes[t] = _mm512_or_si512(_mm512_gf2p8affine_epi64_epi8(q, fields, 0), top);
        }
        put_k_numbers(p, out);
        return out;
    }
};

// Codes minus 4, plus the offset: 0x7c with the two low bits where the third is not set, 0x80 with them where it is.
template <>
struct Format<Q3_K> {
    static constexpr Words kHighWords{[](int s) { return s % 2 * 4; }};
    static constexpr Bytes kFields{[](int i) { return field_row(i % 8, i / 8 % 4 * 2, 2); }};
    static constexpr Bytes kThird{[](int i) { return 7 - i % 8 >= 2 ? 1 << i / 8 : 0; }};
    __m512i first_words = Format<Q2_K>::kFirstWords, high_words = kHighWords, fields = kFields, third = kThird;
    // Scale s: its low four bits out of one long, its high two out of another.
    __m128i low_bits = _mm_setr_epi8(0, 8, 16, 24, 32, 40, 48, 56, 4, 12, 20, 28, 36, 44, 52, 60);
    __m128i high_bits = _mm_setr_epi8(0, 8, 16, 24, 2, 10, 18, 26, 4, 12, 20, 28, 6, 14, 22, 30);

    Superblock load(const uint8_t* p) const {
        Superblock out;
        const __m512i q = load64(p + 32);
        const __m512i high = _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
        for (int t = 0; t < 4; ++t) {
            const __m512i low = _mm512_permutexvar_epi32(_mm512_add_epi32(first_words, _mm512_set1_epi32(t)), q);
            const __m512i top = _mm512_permutexvar_epi32(_mm512_add_epi32(high_words, _mm512_set1_epi32(t)), high);
            out.codes[t] = _mm512_or_si512(_mm512_gf2p8affine_epi64_epi8(low, fields, 0),
                                           _mm512_gf2p8affine_epi64_epi8(top, third, 0x7c));
        }
        int64_t eight;
        std::memcpy(&eight, p + 96, 8);
        const __m128i low = _mm_multishift_epi64_epi8(low_bits, _mm_set1_epi64x(eight));
        const __m128i two = _mm_multishift_epi64_epi8(high_bits, _mm_set1_epi64x(load_u32(p + 104)));
        const __m128i sc = _mm_or_si128(_mm_and_si128(low, _mm_set1_epi8(15)),
                                        _mm_slli_epi16(_mm_and_si128(two, _mm_set1_epi8(3)), 4));
        const __m512i numbers = _mm512_sub_epi32(_mm512_cvtepu8_epi32(sc), _mm512_set1_epi32(32));
        out.scales = _mm512_mul_ps(_mm512_cvtepi32_ps(numbers), halves_at(p + 108));
        return out;
    }
};

// Codes minus 32, plus the offset: 0x60 with the five low bits where the sixth is not set, 0x80 with them where it is.
template <>
struct Format<Q6_K> {
    static constexpr Words kLowWords{[](int s) { return s / 8 * 16 + s / 2 % 2 * 8 + s % 2 * 4; }};
    static constexpr Bytes kFields{[](int i) { return field_row(i % 8, i / 16 % 2 * 4, 4); }};
    static constexpr Bytes kTops{[](int i) {
        const int bit = 7 - i % 8, first = i / 8 % 4 * 2;
        return bit < 4 ? 0 : 1 << (bit == 4 ? first : first + 1);
    }};
    __m512i low_words = kLowWords, top_words = Format<Q2_K>::kFirstWords, fields = kFields, tops = kTops;

    Superblock load(const uint8_t* p) const {
        Superblock out;
        const __m512i low = load64(p), high = load64(p + 64), two = load64(p + 128);
        for (int t = 0; t < 4; ++t) {
            const __m512i words = _mm512_add_epi32(low_words, _mm512_set1_epi32(t));
            const __m512i top = _mm512_permutexvar_epi32(_mm512_add_epi32(top_words, _mm512_set1_epi32(t)), two);
            const __m512i q = _mm512_permutex2var_epi32(low, words, high);
            out.codes[t] = _mm512_or_si512(_mm512_gf2p8affine_epi64_epi8(q, fields, 0),
                                           _mm512_gf2p8affine_epi64_epi8(top, tops, 0x60));
        }
        const __m512i sc = _mm512_cvtepi8_epi32(load16(p + 192));
        out.scales = _mm512_mul_ps(_mm512_cvtepi32_ps(sc), halves_at(p + 208));
        return out;
    }
};

template <>
struct Format<MXFP4> {
    // The code bytes of four blocks of 17 bytes side by side, out of 67 bytes: 0 to 63 and 3 to 66.
    static constexpr Bytes kCompact{[](int i) { return i / 16 * 17 + i % 16 + (i / 16 * 17 + i % 16 < 64 ? 0 : 61); }};
    static constexpr Longs kFirstHalves{[](int g) { return 2 * g; }};
    static constexpr Bytes kTable{[](int i) { return kMxfp4Codes[i & 15] + kOffset; }};
    static constexpr Bytes kExponents{[](int i) { return i / 2 * 17 & 127; }};
    __m512i compact = kCompact, table = kTable, exponents = kExponents;
    __m512i first_halves = kFirstHalves;
    __m512i shifts[2] = {_mm512_setzero_si512(), _mm512_set1_epi64(4)};

    Superblock load(const uint8_t* p) const {
        Superblock out;
        const __m512i low = four_blocks(p + 1), high = four_blocks(p + 69);
        for (int t = 0; t < 4; ++t) {
            const __m512i longs = _mm512_add_epi64(first_halves, _mm512_set1_epi64(t % 2));
            const __m512i q = _mm512_permutex2var_epi64(low, longs, high);
            out.codes[t] = _mm512_permutexvar_epi8(_mm512_srlv_epi64(q, shifts[t / 2]), table);
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

}  // namespace whitedwarf::avx512
