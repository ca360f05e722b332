// How 16 weight rows of each format get into half a panel, a superblock at a time: packed bytes are turned over
// (rows to elements), and unpacked after that. Far fewer words to turn over than once they are unpacked.
// Internal linkage: see blocks.h.
#pragma once

#include "avx512/formats.h"
#include "avx512/panel.h"

namespace whitedwarf::avx512 {

// A superblock of sixteen rows, `stride` bytes apart.
struct SixteenRows {
    const uint8_t* first;
    int64_t stride;

    const uint8_t* row(int r) const { return first + r * stride; }

    // 16 bytes from `at` on, of every row: to[i] has their i-th word, a row to each element.
    [[gnu::always_inline]] void words(int64_t at, __m512i to[4]) const {
        __m512i four[4];  // rows i, i + 4, i + 8, i + 12
        for (int i = 0; i < 4; ++i) {
            const __m512i start = _mm512_castsi128_si512(load16(row(i) + at));
            const __m512i two = _mm512_inserti32x4(start, load16(row(i + 4) + at), 1);
            const __m512i three = _mm512_inserti32x4(two, load16(row(i + 8) + at), 2);
            four[i] = _mm512_inserti32x4(three, load16(row(i + 12) + at), 3);
        }
        const __m512i a = _mm512_unpacklo_epi32(four[0], four[1]), b = _mm512_unpacklo_epi32(four[2], four[3]);
        const __m512i c = _mm512_unpackhi_epi32(four[0], four[1]), d = _mm512_unpackhi_epi32(four[2], four[3]);
        to[0] = _mm512_unpacklo_epi64(a, b), to[1] = _mm512_unpackhi_epi64(a, b);
        to[2] = _mm512_unpacklo_epi64(c, d), to[3] = _mm512_unpackhi_epi64(c, d);
    }

    __m512i word(int64_t at) const {
        alignas(64) uint32_t to[16];
        for (int r = 0; r < 16; ++r) to[r] = load_u32(row(r) + at);
        return _mm512_load_si512(to);
    }
};

static inline __m512 low_halves(__m512i words) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(words)); }
static inline __m512 high_halves(__m512i words) { return low_halves(_mm512_srli_epi32(words, 16)); }

// Where a half of the panel gets one superblock.
struct PanelBlock {
    uint8_t* codes;
    float *scales, *mins;
    int64_t codes_step, scales_step;  // from lane to lane

    [[gnu::always_inline]] void put_codes(int lane, int step, __m512i v) const {
        _mm512_store_si512(codes + lane * codes_step + step * kStepBytes, v);
    }
    [[gnu::always_inline]] void put_scale(int lane, __m512 v) const { _mm512_store_ps(scales + lane * scales_step, v); }
    [[gnu::always_inline]] void put_min(int lane, __m512 v) const { _mm512_store_ps(mins + lane * scales_step, v); }
};

template <Type kType, Signs kSigns>
struct PanelFormat;  // formats without one go through unpack

static constexpr int offset_of(Signs signs) { return signs == Signs::kOffset ? kOffset : 0; }

template <Signs kSigns>
struct PanelFormat<Q8_0, kSigns> {
    __m512i offset = _mm512_set1_epi8(char(offset_of(kSigns)));

    void operator()(const SixteenRows& in, const PanelBlock& out) const {
        alignas(64) uint16_t halves[8][16];
        for (int r = 0; r < 16; ++r)
            for (int g = 0; g < 8; ++g) halves[g][r] = load_u16(in.row(r) + 34 * g);
        for (int g = 0; g < 8; ++g)
            for (int half = 0; half < 2; ++half) {
                __m512i words[4];
                in.words(34 * g + 2 + 16 * half, words);
                for (int i = 0; i < 4; ++i) out.put_codes(g, 4 * half + i, _mm512_xor_si512(words[i], offset));
            }
        for (int g = 0; g < 8; ++g)
            out.put_scale(g, _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(halves[g]))));
    }
};

template <Signs kSigns>
struct PanelFormat<Q2_K, kSigns> {
    template <int kPlane>
    static constexpr Bytes kField{[](int i) { return field_row(i % 8, 2 * kPlane, 2); }};
    __m512i fields[4] = {kField<0>, kField<1>, kField<2>, kField<3>};
    __m512 numbers = _mm512_castsi512_ps(Format<Q2_K>::kNumbers);

    void operator()(const SixteenRows& in, const PanelBlock& out) const {
        for (int sixteen = 0; sixteen < 4; ++sixteen) {
            __m512i words[4];
            in.words(16 + 16 * sixteen, words);
            for (int plane = 0; plane < 4; ++plane)
                for (int i = 0; i < 4; ++i) {
                    const __m512i codes = _mm512_gf2p8affine_epi64_epi8(words[i], fields[plane], 0);
                    out.put_codes(sixteen / 2 * 8 + plane * 2 + sixteen % 2, i, codes);
                }
        }
        const __m512i both = in.word(80);
        const __m512 d = low_halves(both), dmin = high_halves(both);
        __m512i words[4];
        in.words(0, words);
        for (int s = 0; s < 16; ++s) {
            // The lookup uses the low four bits of its index only.
            const __m512i scale = _mm512_srli_epi32(words[s / 4], unsigned(s % 4 * 8));
            const __m512i min = _mm512_srli_epi32(words[s / 4], unsigned(s % 4 * 8 + 4));
            out.put_scale(s, _mm512_mul_ps(_mm512_permutexvar_ps(scale, numbers), d));
            out.put_min(s, _mm512_mul_ps(_mm512_permutexvar_ps(min, numbers), dmin));
        }
    }
};

template <Signs kSigns>
struct PanelFormat<Q4_K, kSigns> {
    template <int kPlane>
    static constexpr Bytes kField{[](int i) { return field_row(i % 8, 4 * kPlane, 4); }};
    __m512i fields[2] = {kField<0>, kField<1>};

    void operator()(const SixteenRows& in, const PanelBlock& out) const {
        for (int sixteen = 0; sixteen < 8; ++sixteen) {
            __m512i words[4];
            in.words(16 + 16 * sixteen, words);
            for (int plane = 0; plane < 2; ++plane)
                for (int i = 0; i < 4; ++i) {
                    const __m512i codes = _mm512_gf2p8affine_epi64_epi8(words[i], fields[plane], 0);
                    out.put_codes(sixteen / 2 * 2 + plane, sixteen % 2 * 4 + i, codes);
                }
        }
        // Four 6-bit numbers per word at once (layout: k_scale and k_min in blocks.h).
        __m512i words[4];
        in.words(0, words);
        const __m512 d = low_halves(words[0]), dmin = high_halves(words[0]);
        const __m512i &a = words[1], &b = words[2], &c = words[3];
        const __m512i six = _mm512_set1_epi32(0x3f3f3f3f), low = _mm512_set1_epi32(0x0f0f0f0f);
        const __m512i high = _mm512_set1_epi32(0x30303030);
        const auto joined = [&](__m512i four, __m512i two) {
            return _mm512_or_si512(_mm512_and_si512(four, low), _mm512_and_si512(_mm512_srli_epi32(two, 2), high));
        };
        const __m512i scales[2] = {_mm512_and_si512(a, six), joined(c, a)};
        const __m512i mins[2] = {_mm512_and_si512(b, six), joined(_mm512_srli_epi32(c, 4), b)};
        for (int g = 0; g < 8; ++g) {
            out.put_scale(g, _mm512_mul_ps(byte_of(scales[g / 4], g % 4), d));
            out.put_min(g, _mm512_mul_ps(byte_of(mins[g / 4], g % 4), dmin));
        }
    }

    static __m512 byte_of(__m512i words, int i) {
        return _mm512_cvtepi32_ps(_mm512_and_si512(_mm512_srli_epi32(words, unsigned(8 * i)), _mm512_set1_epi32(255)));
    }
};

template <Signs kSigns>
struct PanelFormat<MXFP4, kSigns> {
    static constexpr Bytes kTable{[](int i) { return kMxfp4Codes[i & 15] + offset_of(kSigns); }};
    __m512i table = kTable;

    void operator()(const SixteenRows& in, const PanelBlock& out) const {
        alignas(64) uint8_t exponents[8][16];
        for (int r = 0; r < 16; ++r)
            for (int g = 0; g < 8; ++g) exponents[g][r] = in.row(r)[17 * g];
        for (int g = 0; g < 8; ++g) {
            __m512i words[4];
            in.words(17 * g + 1, words);
            for (int i = 0; i < 4; ++i) {
                // The table repeats itself: what else the lookup's six bits hold does not matter.
                out.put_codes(g, i, _mm512_permutexvar_epi8(words[i], table));
                out.put_codes(g, 4 + i, _mm512_permutexvar_epi8(_mm512_srli_epi32(words[i], 4), table));
            }
        }
        for (int g = 0; g < 8; ++g) {
            const __m512i e = _mm512_cvtepu8_epi32(_mm_load_si128(reinterpret_cast<const __m128i*>(exponents[g])));
            const __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
            const __mmask16 is_tiny = _mm512_cmplt_epu32_mask(e, _mm512_set1_epi32(2));
            const __m512i tiny = _mm512_set1_epi32(0x00200000);
            out.put_scale(g, _mm512_castsi512_ps(_mm512_mask_sllv_epi32(normal, is_tiny, tiny, e)));
        }
    }
};

// As in iq2_planes.h, with a word for each row: its bytes are a granule's four eighths, their bits the columns.
template <Signs kSigns>
struct PanelFormat<IQ2_XXS, kSigns> {
    template <int kBit, int kQuarter>
    static constexpr Bytes kPlane{[](int i) { return iq2_plane(64 * kQuarter + i, kBit); }};
    // Bits 0-6 stay, bit 7 becomes their parity (iq2_signs). Row i of a matrix makes bit 7 - i.
    static constexpr Bytes kParity{[](int i) { return i % 8 ? 0x80 >> i % 8 : 0x7f; }};
    static constexpr Bytes kTurn{[](int i) { return 1 << i % 8; }};
    // Where the four 7-bit sign masks of two rows start in the long that these share.
    static constexpr Bytes kSevens{[](int i) { return i % 8 / 4 * 32 + i % 4 * 7; }};
    // The matrix of eighths 2 pair and 2 pair + 1, from the last row up: low plane, signs, high plane; twice. The first
    // two lie side by side, for rows 0, 1 (or 2, 3: kUpper) of every four; the high plane has all rows in their order.
    template <int kPair, bool kUpper>
    static constexpr Bytes kRows{[](int i) {
        const int bit = 7 - i % 8, eighth = 2 * kPair + bit / 3 % 2, row = i / 16 * 4 + i / 8 % 2 + 2 * kUpper;
        return bit % 3 == 2 ? 64 + 4 * row + eighth : i / 8 * 8 + (bit % 3 == 1 ? 4 : 0) + eighth;
    }};
    // Low bit in bit 0, sign in bit 1, high bit in bit 2.
    static constexpr int value(int bits) {
        const int magnitude = kIq2Magnitudes[(bits & 1) | (bits & 4) >> 1];
        return offset_of(kSigns) + (bits & 2 ? -magnitude : magnitude);
    }
    static constexpr Bytes kFirstValues{[](int i) { return value(i & 7); }};
    static constexpr Bytes kSecondValues{[](int i) { return value(i >> 3); }};

    __m512i low_plane[4] = {kPlane<0, 0>, kPlane<0, 1>, kPlane<0, 2>, kPlane<0, 3>};
    __m512i high_plane[4] = {kPlane<1, 0>, kPlane<1, 1>, kPlane<1, 2>, kPlane<1, 3>};
    __m512i parity = kParity, turn = kTurn, sevens = kSevens;
    __m512i rows[2][2] = {{kRows<0, false>, kRows<0, true>}, {kRows<1, false>, kRows<1, true>}};
    __m512i values[2] = {kFirstValues, kSecondValues};
    __m512 numbers = _mm512_castsi512_ps(Format<IQ2_XXS>::kScales);

    void operator()(const SixteenRows& in, const PanelBlock& out) const {
        const __m512 d = low_halves(in.word(0));
        for (int pair = 0; pair < 4; ++pair) {
            __m512i words[4];
            in.words(2 + 16 * pair, words);
            for (int i = 0; i < 2; ++i) put_granule(2 * pair + i, words[2 * i], words[2 * i + 1], d, out);
        }
    }

    [[gnu::always_inline]] void put_granule(int g, __m512i indices, __m512i rest, __m512 d,
                                            const PanelBlock& out) const {
        const __mmask64 is_upper = _mm512_movepi8_mask(indices);
        const __m512i low = lookup(indices, is_upper, low_plane), high = lookup(indices, is_upper, high_plane);
        const __m512i masks = _mm512_multishift_epi64_epi8(sevens, rest);
        const __m512i signs = _mm512_gf2p8affine_epi64_epi8(masks, parity, 0);
        const __m512i beside[2] = {_mm512_unpacklo_epi32(low, signs), _mm512_unpackhi_epi32(low, signs)};
        for (int pair = 0; pair < 2; ++pair) {
            __m512i columns[2];  // of rows 0, 1 and of rows 2, 3 of every four
            for (int i = 0; i < 2; ++i) {
                const __m512i matrix = _mm512_permutex2var_epi8(beside[i], rows[pair][i], high);
                columns[i] = _mm512_gf2p8affine_epi64_epi8(turn, matrix, 0);
            }
            for (int i = 0; i < 2; ++i) {
                const __m512 a = _mm512_castsi512_ps(_mm512_permutexvar_epi8(columns[0], values[i]));
                const __m512 b = _mm512_castsi512_ps(_mm512_permutexvar_epi8(columns[1], values[i]));
                const int step = 2 * (2 * pair + i);
                out.put_codes(g, step, _mm512_castps_si512(_mm512_shuffle_ps(a, b, 0x88)));
                out.put_codes(g, step + 1, _mm512_castps_si512(_mm512_shuffle_ps(a, b, 0xdd)));
            }
        }
        out.put_scale(g, _mm512_mul_ps(_mm512_permutexvar_ps(_mm512_srli_epi32(rest, 28), numbers), d));
    }

    static __m512i lookup(__m512i index, __mmask64 is_upper, const __m512i* plane) {
        const __m512i lower = _mm512_permutex2var_epi8(plane[0], index, plane[1]);
        return _mm512_mask_mov_epi8(lower, is_upper, _mm512_permutex2var_epi8(plane[2], index, plane[3]));
    }
};

}  // namespace whitedwarf::avx512
