// Weight rows to bytes, 32 at a time.
#include "avx2/vectors.h"
#include "iq2.h"

namespace whitedwarf::avx2 {
namespace {

void unpack_q8_0(const uint8_t* row, int64_t cols, Unpacked out) {
    for (int64_t b = 0; b < cols / 32; ++b, row += 34) {
        store32(out.codes + 32 * b, load32(row + 2));
        out.scales[b] = half_at(row);
    }
}

void unpack_mxfp4(const uint8_t* row, int64_t cols, Unpacked out) {
    const __m256i codes = _mm256_broadcastsi128_si256(load16(kMxfp4Codes)), fifteen = _mm256_set1_epi8(15);
    for (int64_t b = 0; b < cols / 32; ++b, row += 17) {
        const __m128i q = load16(row + 1);
        const __m256i nibbles = _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(q, 4), q), fifteen);
        store32(out.codes + 32 * b, _mm256_shuffle_epi8(codes, nibbles));
        out.scales[b] = mxfp4_scale(row[0]);
    }
}

void unpack_q2_k(const uint8_t* row, int64_t cols, Unpacked out) {
    const __m256i three = _mm256_set1_epi8(3);
    const __m128i fifteen = _mm_set1_epi8(15);
    for (; cols > 0; cols -= 256, row += 84, out.codes += 256, out.scales += 16, out.mins += 16) {
        for (int half = 0; half < 2; ++half) {
            const __m256i q = load32(row + 16 + 32 * half);
            uint8_t* to = out.codes + 128 * half;
            store32(to, _mm256_and_si256(q, three));
            store32(to + 32, _mm256_and_si256(_mm256_srli_epi16(q, 2), three));
            store32(to + 64, _mm256_and_si256(_mm256_srli_epi16(q, 4), three));
            store32(to + 96, _mm256_and_si256(_mm256_srli_epi16(q, 6), three));
        }
        const __m128i sc = load16(row);
        const auto spread = [](__m128i bytes, const uint8_t* unit, float* to) {
            const __m256 factor = _mm256_set1_ps(half_at(unit));
            const __m256 low = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
            const __m256 high = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8)));
            _mm256_storeu_ps(to, _mm256_mul_ps(low, factor));
            _mm256_storeu_ps(to + 8, _mm256_mul_ps(high, factor));
        };
        spread(_mm_and_si128(sc, fifteen), row + 80, out.scales);
        spread(_mm_and_si128(_mm_srli_epi16(sc, 4), fifteen), row + 82, out.mins);
    }
}

void unpack_k_scales(const uint8_t* block, Unpacked out) {
    const float d = half_at(block), dmin = half_at(block + 2);
    for (int j = 0; j < 8; ++j) {
        out.scales[j] = d * float(k_scale(block + 4, j));
        out.mins[j] = dmin * float(k_min(block + 4, j));
    }
}

void unpack_q4_k(const uint8_t* row, int64_t cols, Unpacked out) {
    const __m256i fifteen = _mm256_set1_epi8(15);
    for (; cols > 0; cols -= 256, row += 144, out.codes += 256, out.scales += 8, out.mins += 8) {
        for (int i = 0; i < 4; ++i) {
            const __m256i q = load32(row + 16 + 32 * i);
            store32(out.codes + 64 * i, _mm256_and_si256(q, fifteen));
            store32(out.codes + 64 * i + 32, _mm256_and_si256(_mm256_srli_epi16(q, 4), fifteen));
        }
        unpack_k_scales(row, out);
    }
}

// 0xff where bit `bit` is set.
__m256i where_set(__m256i bytes, int bit) {
    const __m256i one = _mm256_set1_epi8(char(1 << bit));
    return _mm256_cmpeq_epi8(_mm256_and_si256(bytes, one), one);
}

void unpack_q5_k(const uint8_t* row, int64_t cols, Unpacked out) {
    const __m256i fifteen = _mm256_set1_epi8(15), sixteen = _mm256_set1_epi8(16);
    for (; cols > 0; cols -= 256, row += 176, out.codes += 256, out.scales += 8, out.mins += 8) {
        const __m256i high = load32(row + 16);
        const auto with_fifth = [&](__m256i low, int bit) {
            return _mm256_or_si256(_mm256_and_si256(low, fifteen), _mm256_and_si256(where_set(high, bit), sixteen));
        };
        for (int i = 0; i < 4; ++i) {
            const __m256i q = load32(row + 48 + 32 * i);
            store32(out.codes + 64 * i, with_fifth(q, 2 * i));
            store32(out.codes + 64 * i + 32, with_fifth(_mm256_srli_epi16(q, 4), 2 * i + 1));
        }
        unpack_k_scales(row, out);
    }
}

void unpack_q3_k(const uint8_t* row, int64_t cols, Unpacked out) {
    const __m256i three = _mm256_set1_epi8(3), four = _mm256_set1_epi8(4);
    for (; cols > 0; cols -= 256, row += 110, out.codes += 256, out.scales += 16) {
        const __m256i high = load32(row);
        for (int i = 0; i < 8; ++i) {
            const __m256i low = _mm256_and_si256(_mm256_srli_epi16(load32(row + 32 + i / 4 * 32), i % 4 * 2), three);
            store32(out.codes + 32 * i, _mm256_sub_epi8(low, _mm256_andnot_si256(where_set(high, i), four)));
        }
        const uint8_t* sc = row + 96;
        const float d = half_at(row + 108);
        for (int s = 0; s < 16; ++s) {
            const int low = s < 8 ? sc[s] & 15 : sc[s - 8] >> 4;
            out.scales[s] = d * float((low | (sc[8 + s % 4] >> (s / 4 * 2) & 3) << 4) - 32);
        }
    }
}

void unpack_q6_k(const uint8_t* row, int64_t cols, Unpacked out) {
    const __m256i three = _mm256_set1_epi8(3), fifteen = _mm256_set1_epi8(15), middle = _mm256_set1_epi8(32);
    for (; cols > 0; cols -= 256, row += 210, out.codes += 256, out.scales += 16) {
        for (int i = 0; i < 8; ++i) {
            const int half = i / 4, quarter = i % 4;
            const __m256i q = _mm256_srli_epi16(load32(row + half * 64 + quarter % 2 * 32), quarter / 2 * 4);
            const __m256i top = _mm256_srli_epi16(load32(row + 128 + half * 32), quarter * 2);
            const __m256i high = _mm256_slli_epi16(_mm256_and_si256(top, three), 4);
            store32(out.codes + 32 * i,
                    _mm256_sub_epi8(_mm256_or_si256(_mm256_and_si256(q, fifteen), high), middle));
        }
        const __m128i sc = load16(row + 192);
        const __m256 d = _mm256_set1_ps(half_at(row + 208));
        const auto put = [&](__m128i eight, float* to) {
            _mm256_storeu_ps(to, _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight))));
        };
        put(sc, out.scales);
        put(_mm_srli_si128(sc, 8), out.scales + 8);
    }
}

void unpack_iq2_xxs(const uint8_t* row, int64_t cols, Unpacked out) {
    for (; cols > 0; cols -= 256, row += 66, out.codes += 256, out.scales += 8) {
        const float d = half_at(row);
        for (int j = 0; j < 8; ++j) {
            const uint8_t* i = row + 2 + 8 * j;
            const uint32_t rest = load_u32(i + 4);
            const uint64_t *g = kIq2Words.grid, *s = kIq2Words.signs;
            const __m256i magnitudes =
                _mm256_set_epi64x(int64_t(g[i[3]]), int64_t(g[i[2]]), int64_t(g[i[1]]), int64_t(g[i[0]]));
            const __m256i signs = _mm256_set_epi64x(int64_t(s[rest >> 21 & 127]), int64_t(s[rest >> 14 & 127]),
                                                    int64_t(s[rest >> 7 & 127]), int64_t(s[rest & 127]));
            store32(out.codes + 32 * j, _mm256_sub_epi8(_mm256_xor_si256(magnitudes, signs), signs));
            out.scales[j] = d * (float(2 * (rest >> 28) + 1) * 0.125f);
        }
    }
}

}  // namespace

Unpack unpacker(Type type) {
    switch (type) {
        case Q8_0:
            return unpack_q8_0;
        case Q2_K:
            return unpack_q2_k;
        case Q3_K:
            return unpack_q3_k;
        case Q4_K:
            return unpack_q4_k;
        case Q5_K:
            return unpack_q5_k;
        case Q6_K:
            return unpack_q6_k;
        case IQ2_XXS:
            return unpack_iq2_xxs;
        case MXFP4:
            return unpack_mxfp4;
        default:
            return scalar_unpack(type);
    }
}

}  // namespace whitedwarf::avx2
