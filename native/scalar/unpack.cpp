// Weight rows to codes, scales and mins: the specification of every block layout (model.md 5.1).
#include "arithmetic.h"

namespace whitedwarf {
namespace {

void unpack_q8_0(const uint8_t* row, int64_t cols, Unpacked out) {
    for (int64_t b = 0; b < cols / 32; ++b, row += 34) {
        std::memcpy(out.codes + b * 32, row + 2, 32);
        out.scales[b] = float_of_half(load_u16(row));
    }
}

void unpack_mxfp4(const uint8_t* row, int64_t cols, Unpacked out) {
    for (int64_t b = 0; b < cols / 32; ++b, row += 17) {
        for (int i = 0; i < 16; ++i) {
            out.codes[b * 32 + i] = uint8_t(kMxfp4Codes[row[1 + i] & 15]);
            out.codes[b * 32 + 16 + i] = uint8_t(kMxfp4Codes[row[1 + i] >> 4]);
        }
        out.scales[b] = mxfp4_scale(row[0]);
    }
}

void unpack_q2_k(const uint8_t* row, int64_t cols, Unpacked out) {
    for (int64_t b = 0; b < cols / 256; ++b, row += 84) {
        const uint8_t* qs = row + 16;
        const float d = float_of_half(load_u16(row + 80)), dmin = float_of_half(load_u16(row + 82));
        for (int k = 0; k < 256; k += 32)
            for (int i = 0; i < 32; ++i) out.codes[b * 256 + k + i] = qs[k / 128 * 32 + i] >> (k % 128 / 32 * 2) & 3;
        for (int s = 0; s < 16; ++s) {
            out.scales[b * 16 + s] = d * float(row[s] & 15);
            out.mins[b * 16 + s] = dmin * float(row[s] >> 4);
        }
    }
}

void unpack_q3_k(const uint8_t* row, int64_t cols, Unpacked out) {
    for (int64_t b = 0; b < cols / 256; ++b, row += 110) {
        const uint8_t *high = row, *qs = row + 32, *sc = row + 96;
        const float d = float_of_half(load_u16(row + 108));
        for (int k = 0; k < 256; k += 32)
            for (int i = 0; i < 32; ++i) {
                const int low = qs[k / 128 * 32 + i] >> (k % 128 / 32 * 2) & 3;
                out.codes[b * 256 + k + i] = uint8_t((low | (high[i] >> (k / 32) & 1) << 2) - 4);
            }
        for (int s = 0; s < 16; ++s) {
            const int low = s < 8 ? sc[s] & 15 : sc[s - 8] >> 4;
            out.scales[b * 16 + s] = d * float((low | (sc[8 + s % 4] >> (s / 4 * 2) & 3) << 4) - 32);
        }
    }
}

void k_scales(const uint8_t* block, float* scales, float* mins) {
    const float d = float_of_half(load_u16(block)), dmin = float_of_half(load_u16(block + 2));
    for (int j = 0; j < 8; ++j) {
        scales[j] = d * float(k_scale(block + 4, j));
        mins[j] = dmin * float(k_min(block + 4, j));
    }
}

void unpack_q4_k(const uint8_t* row, int64_t cols, Unpacked out) {
    for (int64_t b = 0; b < cols / 256; ++b, row += 144) {
        const uint8_t* qs = row + 16;
        k_scales(row, out.scales + b * 8, out.mins + b * 8);
        for (int k = 0; k < 256; k += 32)
            for (int i = 0; i < 32; ++i) out.codes[b * 256 + k + i] = qs[k / 64 * 32 + i] >> (k % 64 / 32 * 4) & 15;
    }
}

void unpack_q5_k(const uint8_t* row, int64_t cols, Unpacked out) {
    for (int64_t b = 0; b < cols / 256; ++b, row += 176) {
        const uint8_t *high = row + 16, *qs = row + 48;
        k_scales(row, out.scales + b * 8, out.mins + b * 8);
        for (int k = 0; k < 256; k += 32)
            for (int i = 0; i < 32; ++i) {
                const int low = qs[k / 64 * 32 + i] >> (k % 64 / 32 * 4) & 15;
                out.codes[b * 256 + k + i] = uint8_t(low | (high[i] >> (k / 32) & 1) << 4);
            }
    }
}

void unpack_q6_k(const uint8_t* row, int64_t cols, Unpacked out) {
    for (int64_t b = 0; b < cols / 256; ++b, row += 210) {
        const float d = float_of_half(load_u16(row + 208));
        for (int k = 0; k < 256; k += 32)
            for (int i = 0; i < 32; ++i) {
                const int half = k / 128, quarter = k % 128 / 32;
                const int low = row[half * 64 + quarter % 2 * 32 + i] >> (quarter / 2 * 4) & 15;
                const int high = row[128 + half * 32 + i] >> (quarter * 2) & 3;
                out.codes[b * 256 + k + i] = uint8_t((low | high << 4) - 32);
            }
        for (int s = 0; s < 16; ++s) out.scales[b * 16 + s] = d * float(int8_t(row[192 + s]));
    }
}

void unpack_iq2_xxs(const uint8_t* row, int64_t cols, Unpacked out) {
    for (int64_t b = 0; b < cols / 256; ++b, row += 66) {
        const float d = float_of_half(load_u16(row));
        for (int j = 0; j < 8; ++j) {
            const uint8_t* indices = row + 2 + j * 8;
            const uint32_t rest = load_u32(indices + 4);
            for (int i = 0; i < 32; ++i) {
                const int magnitude = kIq2Magnitudes[kIq2Grid[indices[i / 8]] >> (i % 8 * 2) & 3];
                const bool negative = iq2_signs(rest >> (i / 8 * 7) & 127) >> (i % 8) & 1;
                out.codes[b * 256 + j * 32 + i] = uint8_t(negative ? -magnitude : magnitude);
            }
            out.scales[b * 8 + j] = d * (float(2 * (rest >> 28) + 1) * 0.125f);
        }
    }
}

}  // namespace

Unpack scalar_unpack(Type type) {
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
            return nullptr;
    }
}

}  // namespace whitedwarf
