// How each format gets into the order of superblock.h, 256 columns at a time. Internal linkage: see blocks.h.
#pragma once

#include "avx512/iq2_planes.h"

namespace whitedwarf::avx512 {

static inline __m512 times_half(__m128i sixteen_bytes, const uint8_t* half) {
    return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(sixteen_bytes)), halves_at(half));
}

static constexpr int superblock_bytes(Type type) {
    const Layout& layout = kLayouts[layout_index(type)];
    return layout.bytes * (kSuperblock / layout.block);
}

// Row `row` of the 8 x 8 bits that take `bits` bits from bit `first` on out of a byte (row i makes bit 7 - i): what a
// shift and a mask do, in one affine instruction, with the shift of each long.
static constexpr int field_row(int row, int first, int bits) { return 7 - row < bits ? 1 << (first + 7 - row) : 0; }

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
