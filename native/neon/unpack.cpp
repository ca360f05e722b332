// Weight rows to bytes, 16 at a time.
#include "iq2.h"
#include "neon/vectors.h"

namespace whitedwarf::neon {
namespace {

void unpack_q8_0(const uint8_t* row, int64_t cols, Unpacked out) {
    for (int64_t b = 0; b < cols / 32; ++b, row += 34) {
        std::memcpy(out.codes + 32 * b, row + 2, 32);
        out.scales[b] = half_at(row);
    }
}

void unpack_mxfp4(const uint8_t* row, int64_t cols, Unpacked out) {
    const uint8x16_t codes = vreinterpretq_u8_s8(vld1q_s8(kMxfp4Codes));
    for (int64_t b = 0; b < cols / 32; ++b, row += 17) {
        const uint8x16_t q = vld1q_u8(row + 1);
        vst1q_u8(out.codes + 32 * b, vqtbl1q_u8(codes, vandq_u8(q, vdupq_n_u8(15))));
        vst1q_u8(out.codes + 32 * b + 16, vqtbl1q_u8(codes, vshrq_n_u8(q, 4)));
        out.scales[b] = mxfp4_scale(row[0]);
    }
}

void unpack_q2_k(const uint8_t* row, int64_t cols, Unpacked out) {
    const uint8x16_t three = vdupq_n_u8(3);
    for (; cols > 0; cols -= 256, row += 84, out.codes += 256, out.scales += 16, out.mins += 16) {
        for (int i = 0; i < 4; ++i) {
            const uint8x16_t q = vld1q_u8(row + 16 + 16 * i);
            uint8_t* to = out.codes + i / 2 * 128 + i % 2 * 16;
            vst1q_u8(to, vandq_u8(q, three));
            vst1q_u8(to + 32, vandq_u8(vshrq_n_u8(q, 2), three));
            vst1q_u8(to + 64, vandq_u8(vshrq_n_u8(q, 4), three));
            vst1q_u8(to + 96, vshrq_n_u8(q, 6));
        }
        const float d = half_at(row + 80), dmin = half_at(row + 82);
        for (int s = 0; s < 16; ++s) {
            out.scales[s] = d * float(row[s] & 15);
            out.mins[s] = dmin * float(row[s] >> 4);
        }
    }
}

void unpack_q4_k(const uint8_t* row, int64_t cols, Unpacked out) {
    for (; cols > 0; cols -= 256, row += 144, out.codes += 256, out.scales += 8, out.mins += 8) {
        for (int i = 0; i < 8; ++i) {
            const uint8x16_t q = vld1q_u8(row + 16 + 16 * i);
            uint8_t* to = out.codes + i / 2 * 64 + i % 2 * 16;
            vst1q_u8(to, vandq_u8(q, vdupq_n_u8(15)));
            vst1q_u8(to + 32, vshrq_n_u8(q, 4));
        }
        const float d = half_at(row), dmin = half_at(row + 2);
        for (int j = 0; j < 8; ++j) {
            out.scales[j] = d * float(k_scale(row + 4, j));
            out.mins[j] = dmin * float(k_min(row + 4, j));
        }
    }
}

void unpack_iq2_xxs(const uint8_t* row, int64_t cols, Unpacked out) {
    const auto two = [](uint64_t low, uint64_t high) {
        return vreinterpretq_u8_u64(vcombine_u64(vcreate_u64(low), vcreate_u64(high)));
    };
    const uint64_t *grid = kIq2Words.grid, *signs = kIq2Words.signs;
    for (; cols > 0; cols -= 256, row += 66, out.codes += 256, out.scales += 8) {
        const float d = half_at(row);
        for (int j = 0; j < 8; ++j) {
            const uint8_t* i = row + 2 + 8 * j;
            const uint32_t rest = load_u32(i + 4);
            for (int half = 0; half < 2; ++half) {
                const uint8x16_t g = two(grid[i[2 * half]], grid[i[2 * half + 1]]);
                const uint8x16_t s = two(signs[rest >> (14 * half) & 127], signs[rest >> (14 * half + 7) & 127]);
                vst1q_u8(out.codes + 32 * j + 16 * half, vsubq_u8(veorq_u8(g, s), s));
            }
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

}  // namespace whitedwarf::neon
