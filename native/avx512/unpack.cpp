// Weight rows to bytes, 64 at a time. Signed codes come out offset by +128.
#include "avx512/vectors.h"

namespace whitedwarf::avx512 {
namespace {

// The scalar unpacker, then the offset: for formats that are rare, and for rows that end inside a superblock.
template <Type kType, bool kSigned>
void unpack_slowly(const uint8_t* row, int64_t cols, Unpacked out) {
    scalar_unpack(kType)(row, cols, out);
    if (kSigned)
        for (int64_t k = 0; k < cols; ++k) out.codes[k] ^= 0x80;
}

void unpack_q8_0(const uint8_t* row, int64_t cols, Unpacked out) {
    const __m512i sign = _mm512_set1_epi8(char(0x80));
    // Four float16 scales out of 128 bytes: at 0, 34, 68 and 102.
    const __m512i picks = _mm512_castsi128_si512(_mm_setr_epi16(0, 17, 34, 51, 0, 0, 0, 0));
    for (; cols >= 256; cols -= 256, row += 272, out.codes += 256, out.scales += 8) {
        for (int i = 0; i < 4; ++i) {
            const __m512i q = load_pair(row + 68 * i + 2, row + 68 * i + 36);
            _mm512_storeu_si512(out.codes + 64 * i, _mm512_xor_si512(q, sign));
        }
        const auto four_scales = [&](const uint8_t* p) {
            return _mm512_castsi512_si128(
                _mm512_permutex2var_epi16(_mm512_loadu_si512(p), picks, _mm512_loadu_si512(p + 64)));
        };
        const __m128i halves = _mm_unpacklo_epi64(four_scales(row), four_scales(row + 136));
        _mm256_storeu_ps(out.scales, _mm256_cvtph_ps(halves));
    }
    unpack_slowly<Q8_0, true>(row, cols, out);
}

void unpack_mxfp4(const uint8_t* row, int64_t cols, Unpacked out) {
    alignas(64) uint8_t offset_codes[64], scale_at[64] = {};
    for (int i = 0; i < 64; ++i) offset_codes[i] = uint8_t(kMxfp4Codes[i & 15] + kOffset);
    for (int i = 0; i < 8; ++i) scale_at[i] = uint8_t(17 * i);
    const __m512i codes = _mm512_load_si512(offset_codes), picks = _mm512_load_si512(scale_at);
    // Each 16 bytes appear twice: as low nibbles, then as high ones.
    const __m512i nibble = _mm512_inserti64x4(
        _mm512_castsi256_si512(_mm256_setr_epi64x(0, 0, 0x0004000400040004, 0x0004000400040004)),
        _mm256_setr_epi64x(0, 0, 0x0004000400040004, 0x0004000400040004), 1);
    const auto twice = [](const uint8_t* p) {
        return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    };
    for (; cols >= 256; cols -= 256, row += 136, out.codes += 256, out.scales += 8) {
        for (int i = 0; i < 4; ++i) {
            const uint8_t* p = row + 34 * i + 1;
            const __m512i q = _mm512_inserti64x4(_mm512_castsi256_si512(twice(p)), twice(p + 17), 1);
            _mm512_storeu_si512(out.codes + 64 * i, _mm512_permutexvar_epi8(_mm512_srlv_epi16(q, nibble), codes));
        }
        const __m512i picked = _mm512_permutex2var_epi8(_mm512_loadu_si512(row), picks, _mm512_loadu_si512(row + 64));
        const __m256i e = _mm256_cvtepu8_epi32(_mm512_castsi512_si128(picked));
        const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
        const __m256i tiny = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), e);
        const __mmask8 is_tiny = _mm256_cmplt_epu32_mask(e, _mm256_set1_epi32(2));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out.scales), _mm256_mask_mov_epi32(normal, is_tiny, tiny));
    }
    unpack_slowly<MXFP4, true>(row, cols, out);
}

void unpack_q2_k(const uint8_t* row, int64_t cols, Unpacked out) {
    const __m512i three = _mm512_set1_epi8(3), first = halves16(0, 2), second = halves16(4, 6);
    const __m128i fifteen = _mm_set1_epi8(15);
    for (; cols > 0; cols -= 256, row += 84, out.codes += 256, out.scales += 16, out.mins += 16) {
        for (int half = 0; half < 2; ++half) {
            const __m512i q = load_twice(row + 16 + 32 * half);
            uint8_t* to = out.codes + 128 * half;
            _mm512_storeu_si512(to, _mm512_and_si512(_mm512_srlv_epi16(q, first), three));
            _mm512_storeu_si512(to + 64, _mm512_and_si512(_mm512_srlv_epi16(q, second), three));
        }
        const __m128i sc = _mm_loadu_si128(reinterpret_cast<const __m128i*>(row));
        const auto spread = [](__m128i bytes, const uint8_t* unit) {
            return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes)), _mm512_set1_ps(half_at(unit)));
        };
        _mm512_storeu_ps(out.scales, spread(_mm_and_si128(sc, fifteen), row + 80));
        _mm512_storeu_ps(out.mins, spread(_mm_and_si128(_mm_srli_epi16(sc, 4), fifteen), row + 82));
    }
}

void unpack_q4_k(const uint8_t* row, int64_t cols, Unpacked out) {
    const __m512i fifteen = _mm512_set1_epi8(15), nibble = halves16(0, 4);
    for (; cols > 0; cols -= 256, row += 144, out.codes += 256, out.scales += 8, out.mins += 8) {
        for (int i = 0; i < 4; ++i) {
            const __m512i q = _mm512_srlv_epi16(load_twice(row + 16 + 32 * i), nibble);
            _mm512_storeu_si512(out.codes + 64 * i, _mm512_and_si512(q, fifteen));
        }
        // Four 6-bit numbers per word at once (layout: k_scale and k_min in blocks.h).
        const uint32_t a = load_u32(row + 4), b = load_u32(row + 8), c = load_u32(row + 12);
        const uint32_t six = 0x3f3f3f3f, four = 0x0f0f0f0f, two = 0x03030303;
        const uint64_t scales = (a & six) | uint64_t((c & four) | (a >> 6 & two) << 4) << 32;
        const uint64_t mins = (b & six) | uint64_t((c >> 4 & four) | (b >> 6 & two) << 4) << 32;
        const auto spread = [](uint64_t bytes, const uint8_t* unit) {
            const __m256i wide = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(int64_t(bytes)));
            return _mm256_mul_ps(_mm256_cvtepi32_ps(wide), _mm256_set1_ps(half_at(unit)));
        };
        _mm256_storeu_ps(out.scales, spread(scales, row));
        _mm256_storeu_ps(out.mins, spread(mins, row + 2));
    }
}

// IQ2_XXS without a single lookup in memory: the 256 grid codes are 8 registers of 32 words, the 128 sign bytes two.
struct Iq2Tables {
    __m512i grid[8];
    __m512i signs[2];
    __m512i magnitudes;   // offset magnitude of a 2-bit code, whatever the upper bits
    __m512i index_words;  // byte positions of the 32 grid indices, every other byte
    __m512i sign_shifts;  // bit positions of the four 7-bit masks of a qword
    __m512i code_shifts;  // bit positions of the eight 2-bit codes of a word
    __m512i spread[4];    // words 8i..8i+7 to the low word of each qword

    Iq2Tables() {
        alignas(64) uint8_t bytes[128];
        for (int i = 0; i < 8; ++i) grid[i] = _mm512_loadu_si512(kIq2Grid + 32 * i);
        for (int i = 0; i < 128; ++i) bytes[i] = iq2_signs(unsigned(i));
        signs[0] = _mm512_load_si512(bytes), signs[1] = _mm512_load_si512(bytes + 64);
        for (int i = 0; i < 64; ++i) bytes[i] = uint8_t(kIq2Magnitudes[i & 3] + kOffset);
        magnitudes = _mm512_load_si512(bytes);
        for (int i = 0; i < 64; ++i) bytes[i] = uint8_t(i / 8 * 8 + i % 8 / 2);
        index_words = _mm512_load_si512(bytes);
        for (int i = 0; i < 64; ++i) bytes[i] = uint8_t(32 + 7 * (i % 4));
        sign_shifts = _mm512_load_si512(bytes);
        for (int i = 0; i < 64; ++i) bytes[i] = uint8_t(2 * (i % 8));
        code_shifts = _mm512_load_si512(bytes);
        alignas(64) uint16_t words[32];
        for (int j = 0; j < 4; ++j) {
            for (int i = 0; i < 32; ++i) words[i] = uint16_t(8 * j + i / 4);
            spread[j] = _mm512_load_si512(words);
        }
    }
};

void unpack_iq2_xxs(const uint8_t* row, int64_t cols, Unpacked out) {
    const Iq2Tables t;
    for (; cols > 0; cols -= 256, row += 66, out.codes += 256, out.scales += 8) {
        const __m512i block = _mm512_loadu_si512(row + 2);  // eight qwords: four indices, then signs and scale
        const __m512i index = _mm512_maskz_permutexvar_epi8(0x5555555555555555, t.index_words, block);
        const __mmask32 bit6 = _mm512_test_epi16_mask(index, _mm512_set1_epi16(64));
        const __mmask32 bit7 = _mm512_test_epi16_mask(index, _mm512_set1_epi16(128));
        const auto quarter = [&](int i) { return _mm512_permutex2var_epi16(t.grid[2 * i], index, t.grid[2 * i + 1]); };
        const __m512i low = _mm512_mask_mov_epi16(quarter(0), bit6, quarter(1));
        const __m512i high = _mm512_mask_mov_epi16(quarter(2), bit6, quarter(3));
        const __m512i codes = _mm512_mask_mov_epi16(low, bit7, high);
        const __m512i sevens = _mm512_multishift_epi64_epi8(t.sign_shifts, block);
        const __m512i signs = _mm512_permutex2var_epi8(t.signs[0], sevens, t.signs[1]);
        alignas(32) uint64_t negative[4];
        _mm256_store_si256(reinterpret_cast<__m256i*>(negative), _mm512_cvtepi64_epi32(signs));
        for (int i = 0; i < 4; ++i) {
            const __m512i each = _mm512_multishift_epi64_epi8(t.code_shifts, _mm512_permutexvar_epi16(t.spread[i], codes));
            const __m512i q = _mm512_permutexvar_epi8(each, t.magnitudes);
            // 256 - (128 + m) = 128 - m
            _mm512_storeu_si512(out.codes + 64 * i, _mm512_mask_sub_epi8(q, negative[i], _mm512_setzero_si512(), q));
        }
        const __m256i scale = _mm512_cvtepi64_epi32(_mm512_srli_epi64(block, 60));
        const __m256i odd = _mm256_add_epi32(_mm256_add_epi32(scale, scale), _mm256_set1_epi32(1));
        _mm256_storeu_ps(out.scales, _mm256_mul_ps(_mm256_cvtepi32_ps(odd), _mm256_set1_ps(half_at(row) * 0.125f)));
    }
}

}  // namespace

Unpack unpacker(Type type) {
    switch (type) {
        case Q8_0: return unpack_q8_0;
        case Q2_K: return unpack_q2_k;
        case Q3_K: return unpack_slowly<Q3_K, true>;
        case Q4_K: return unpack_q4_k;
        case Q5_K: return unpack_slowly<Q5_K, false>;
        case Q6_K: return unpack_slowly<Q6_K, true>;
        case IQ2_XXS: return unpack_iq2_xxs;
        case MXFP4: return unpack_mxfp4;
        default: return nullptr;
    }
}

}  // namespace whitedwarf::avx512
