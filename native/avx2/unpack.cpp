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

void unpack_q4_k(const uint8_t* row, int64_t cols, Unpacked out) {
    const __m256i fifteen = _mm256_set1_epi8(15);
    for (; cols > 0; cols -= 256, row += 144, out.codes += 256, out.scales += 8, out.mins += 8) {
        for (int i = 0; i < 4; ++i) {
            const __m256i q = load32(row + 16 + 32 * i);
            store32(out.codes + 64 * i, _mm256_and_si256(q, fifteen));
            store32(out.codes + 64 * i + 32, _mm256_and_si256(_mm256_srli_epi16(q, 4), fifteen));
        }
        const float d = half_at(row), dmin = half_at(row + 2);
        for (int j = 0; j < 8; ++j) {
            out.scales[j] = d * float(k_scale(row + 4, j));
            out.mins[j] = dmin * float(k_min(row + 4, j));
        }
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
        case Q4_K:
            return unpack_q4_k;
        case IQ2_XXS:
            return unpack_iq2_xxs;
        case MXFP4:
            return unpack_mxfp4;
        default:
            return scalar_unpack(type);
    }
}

}  // namespace whitedwarf::avx2
