#include "rows.h"

#include <bit>
#include <cmath>
#include <cstring>

namespace whitedwarf {

namespace {

constexpr float kE4m3Max = 448.0f;
constexpr float kE2m1Max = 6.0f;
constexpr int kE8m0Bias = 127;
constexpr float kSmallestKvAmax = 1e-4f;
constexpr float kSmallestKeyAmax = 6.0f * 0x1p-126f;
constexpr float kE2m1Values[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};

float largest_magnitude(const float* x, int count, float floor) {
    float largest = floor;
    for (int i = 0; i < count; ++i) largest = std::fabs(x[i]) > largest ? std::fabs(x[i]) : largest;
    return largest;
}

float clamp(float value, float limit) { return value > limit ? limit : value < -limit ? -limit : value; }

// Nearest even integer of a small non-negative value.
uint32_t round_to_even(float value) { return static_cast<uint32_t>((value + 0x1.8p23f) - 0x1.8p23f); }

// Nearest-even rounding of |value| <= 448 to e4m3fn.
uint8_t to_e4m3(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const uint32_t sign = (bits >> 24) & 0x80;
    const uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude < 0x3c800000) return sign | round_to_even(std::bit_cast<float>(magnitude) * 512.0f);  // below 2^-6
    const uint32_t rounded = magnitude + 0x7ffff + ((magnitude >> 20) & 1);
    return sign | ((rounded >> 20) - (120 << 3));
}

float from_e4m3(uint8_t code) {
    const int exponent = (code >> 3) & 15;
    const float fraction = static_cast<float>(code & 7);
    const float magnitude = exponent == 0 ? fraction * 0x1p-9f : (8.0f + fraction) * power_of_two(exponent - 10);
    return code & 0x80 ? -magnitude : magnitude;
}

// Nearest-even rounding of |value| <= 6 to e2m1.
uint8_t to_e2m1(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const uint32_t sign = (bits >> 28) & 8;
    const uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude < 0x3f800000) return sign | round_to_even(std::bit_cast<float>(magnitude) * 2.0f);
    const uint32_t rounded = magnitude + 0x1fffff + ((magnitude >> 22) & 1);
    return sign | ((rounded >> 22) - (126 << 1));
}

float from_e2m1(uint8_t code) { return code & 8 ? -kE2m1Values[code & 7] : kE2m1Values[code & 7]; }

void pack_kv(const RowFormat& format, const float* x, uint8_t* out) {
    const int plain = format.plain();
    uint8_t* scale = out + plain;
    for (int start = 0; start < plain; start += kKvBlock) {
        const int end = start + kKvBlock < plain ? start + kKvBlock : plain;
        const float amax = largest_magnitude(x + start, end - start, kSmallestKvAmax);
        const int exponent = power_of_two_above(amax * (1.0f / kE4m3Max));
        const float shrink = power_of_two(-exponent);
        for (int i = start; i < end; ++i) out[i] = to_e4m3(clamp(x[i] * shrink, kE4m3Max));
        *scale++ = static_cast<uint8_t>(exponent + kE8m0Bias);
    }
    for (int i = plain; i < format.dims; ++i, scale += 2) {
        const uint16_t half = to_f16(x[i]);
        std::memcpy(scale, &half, 2);
    }
}

void unpack_kv(const RowFormat& format, const uint8_t* row, float* out) {
    const int plain = format.plain();
    const uint8_t* scales = row + plain;
    for (int i = 0; i < plain; ++i) out[i] = from_e4m3(row[i]) * power_of_two(scales[i / kKvBlock] - kE8m0Bias);
    const uint8_t* tail = scales + (plain + kKvBlock - 1) / kKvBlock;
    for (int i = plain; i < format.dims; ++i, tail += 2) {
        uint16_t half;
        std::memcpy(&half, tail, 2);
        out[i] = from_f16(half);
    }
}

// Codes of one block of a key; returns the exponent of its scale.
int round_key_block(const float* x, uint8_t* codes) {
    const float amax = largest_magnitude(x, kKeyBlock, kSmallestKeyAmax);
    const int exponent = power_of_two_above(amax * (1.0f / kE2m1Max));
    const float shrink = power_of_two(-exponent);
    for (int i = 0; i < kKeyBlock; ++i) codes[i] = to_e2m1(clamp(x[i] * shrink, kE2m1Max));
    return exponent;
}

void pack_key(float* x, int dims, uint8_t* out) {
    hadamard(x, dims);
    uint8_t* scale = out + dims / 2;
    for (int start = 0; start < dims; start += kKeyBlock) {
        uint8_t codes[kKeyBlock];
        *scale++ = static_cast<uint8_t>(round_key_block(x + start, codes) + kE8m0Bias);
        for (int i = 0; i < kKeyBlock; i += 2) out[(start + i) / 2] = codes[i] | (codes[i + 1] << 4);
    }
}

void unpack_key(const uint8_t* row, int dims, float* out) {
    const uint8_t* scales = row + dims / 2;
    for (int i = 0; i < dims; ++i) {
        const uint8_t code = i % 2 == 0 ? row[i / 2] & 15 : row[i / 2] >> 4;
        out[i] = from_e2m1(code) * power_of_two(scales[i / kKeyBlock] - kE8m0Bias);
    }
}

}  // namespace

size_t RowFormat::row_bytes() const {
    switch (kind) {
        case RowKind::f32: return size_t(4) * dims;
        case RowKind::f16: return size_t(2) * dims;
        case RowKind::packed_kv: return size_t(plain()) + (plain() + kKvBlock - 1) / kKvBlock + size_t(2) * rope_dims;
        case RowKind::packed_key: return size_t(dims) / 2 + (dims + kKeyBlock - 1) / kKeyBlock;
    }
    return 0;
}

void encode_row(const RowFormat& format, float* x, uint8_t* out) {
    switch (format.kind) {
        case RowKind::f32: std::memcpy(out, x, format.row_bytes()); break;
        case RowKind::f16:
            for (int i = 0; i < format.dims; ++i) {
                const uint16_t half = to_f16(x[i]);
                std::memcpy(out + 2 * i, &half, 2);
            }
            break;
        case RowKind::packed_kv: pack_kv(format, x, out); break;
        case RowKind::packed_key: pack_key(x, format.dims, out); break;
    }
}

void decode_row(const RowFormat& format, const uint8_t* row, float* out) {
    switch (format.kind) {
        case RowKind::f32: std::memcpy(out, row, format.row_bytes()); break;
        case RowKind::f16:
            for (int i = 0; i < format.dims; ++i) {
                uint16_t half;
                std::memcpy(&half, row + 2 * i, 2);
                out[i] = from_f16(half);
            }
            break;
        case RowKind::packed_kv: unpack_kv(format, row, out); break;
        case RowKind::packed_key: unpack_key(row, format.dims, out); break;
    }
}

void round_like_keys(float* x, int dims) {
    hadamard(x, dims);
    for (int start = 0; start < dims; start += kKeyBlock) {
        uint8_t codes[kKeyBlock];
        const float scale = power_of_two(round_key_block(x + start, codes));
        for (int i = 0; i < kKeyBlock; ++i) x[start + i] = from_e2m1(codes[i]) * scale;
    }
}

void hadamard(float* x, int dims) {
    for (int stride = 1; stride < dims; stride *= 2) {
        for (int start = 0; start < dims; start += 2 * stride) {
            for (int i = start; i < start + stride; ++i) {
                const float low = x[i], high = x[i + stride];
                x[i] = low + high;
                x[i + stride] = low - high;
            }
        }
    }
    const float factor = static_cast<float>(1.0 / std::sqrt(static_cast<double>(dims)));
    for (int i = 0; i < dims; ++i) x[i] *= factor;
}

int power_of_two_above(float ratio) {
    const uint32_t bits = std::bit_cast<uint32_t>(ratio);
    return static_cast<int>(bits >> 23) - kE8m0Bias + ((bits & 0x7fffff) != 0);
}

float power_of_two(int exponent) {
    if (exponent > 127) return std::bit_cast<float>(0x7f800000u);
    if (exponent < -126) return exponent == -127 ? 0x1p-127f : 0x1p-128f;
    return std::bit_cast<float>(static_cast<uint32_t>(exponent + 127) << 23);
}

uint16_t to_f16(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const uint16_t sign = (bits >> 16) & 0x8000;
    const uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return sign | 0x7e00;   // not a number
    if (magnitude >= 0x477ff000) return sign | 0x7c00;  // rounds beyond 65504: infinity
    if (magnitude < 0x38800000) {                       // below 2^-14: steps of 2^-24
        const float steps = std::bit_cast<float>(magnitude) * 0x1p24f;
        return sign | static_cast<uint16_t>(round_to_even(steps));
    }
    const uint32_t rounded = magnitude + 0xfff + ((magnitude >> 13) & 1);
    return sign | static_cast<uint16_t>((rounded >> 13) - (112 << 10));
}

float from_f16(uint16_t bits) {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
    const uint32_t exponent = (bits >> 10) & 31;
    const uint32_t fraction = bits & 0x3ff;
    if (exponent == 0) {
        const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
        return sign ? -magnitude : magnitude;
    }
    if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000 | (fraction << 13));
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
}

}  // namespace whitedwarf
