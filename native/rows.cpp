#include "row_rounding.h"

namespace whitedwarf {

namespace {

float from_e4m3(uint8_t code) {
    const int exponent = (code >> 3) & 15;
    const float fraction = float(code & 7);
    const float magnitude = exponent == 0 ? fraction * 0x1p-9f : (8.0f + fraction) * power_of_two(exponent - 10);
    return code & 0x80 ? -magnitude : magnitude;
}

void encode_halves(const float* x, int count, uint8_t* out) {
    for (int i = 0; i < count; ++i) {
        const uint16_t half = to_f16(x[i]);
        std::memcpy(out + 2 * i, &half, 2);
    }
}

void decode_halves(const uint8_t* row, int count, float* out) {
    for (int i = 0; i < count; ++i) {
        uint16_t half;
        std::memcpy(&half, row + 2 * i, 2);
        out[i] = float_of_half(half);
    }
}

void encode_tail(const RowFormat& format, const float* x, uint8_t* out) {
    if (format.kind == RowKind::packed_kv)
        std::memcpy(out, x, size_t(4) * format.rope_dims);
    else
        encode_halves(x, format.rope_dims, out);
}

void decode_tail(const RowFormat& format, const uint8_t* tail, float* out) {
    if (format.kind == RowKind::packed_kv)
        std::memcpy(out, tail, size_t(4) * format.rope_dims);
    else
        decode_halves(tail, format.rope_dims, out);
}

void pack_kv(const RowFormat& format, const float* x, uint8_t* out) {
    const int plain = format.plain();
    uint8_t* scale = out + plain;
    for (int start = 0; start < plain; start += kKvBlock) {
        const int end = start + kKvBlock < plain ? start + kKvBlock : plain;
        const float amax = largest_magnitude(x + start, end - start, kSmallestKvAmax);
        const int exponent = power_of_two_above(amax * (1.0f / kE4m3Max));
        const float shrink = power_of_two(-exponent);
        for (int i = start; i < end; ++i) out[i] = to_e4m3(clamp(x[i] * shrink, kE4m3Max));
        *scale++ = uint8_t(exponent + kE8m0Bias);
    }
    encode_tail(format, x + plain, out + format.tail_offset());
}

void unpack_kv(const RowFormat& format, const uint8_t* row, float* out) {
    const int plain = format.plain();
    const uint8_t* scales = row + plain;
    for (int i = 0; i < plain; ++i) out[i] = from_e4m3(row[i]) * power_of_two(scales[i / kKvBlock] - kE8m0Bias);
    decode_tail(format, row + format.tail_offset(), out + plain);
}

void pack_key(float* x, int dims, uint8_t* out) {
    hadamard(x, dims);
    uint8_t* scale = out + dims / 2;
    for (int start = 0; start < dims; start += kKeyBlock) {
        uint32_t codes[kKeyBlock];
        *scale++ = uint8_t(round_key_block(x + start, codes) + kE8m0Bias);
        for (int i = 0; i < kKeyBlock; i += 2) out[(start + i) / 2] = uint8_t(codes[i] | codes[i + 1] << 4);
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
        case RowKind::packed_kv_f16: return size_t(tail_offset()) + size_t(2) * rope_dims;
        case RowKind::packed_kv: return size_t(tail_offset()) + size_t(4) * rope_dims;
        case RowKind::packed_key: return size_t(dims) / 2 + (dims + kKeyBlock - 1) / kKeyBlock;
    }
    return 0;
}

void encode_row(const RowFormat& format, float* x, uint8_t* out) {
    switch (format.kind) {
        case RowKind::f32: std::memcpy(out, x, format.row_bytes()); break;
        case RowKind::f16: encode_halves(x, format.dims, out); break;
        case RowKind::packed_kv_f16:
        case RowKind::packed_kv: pack_kv(format, x, out); break;
        case RowKind::packed_key: pack_key(x, format.dims, out); break;
    }
}

void decode_row(const RowFormat& format, const uint8_t* row, float* out) {
    switch (format.kind) {
        case RowKind::f32: std::memcpy(out, row, format.row_bytes()); break;
        case RowKind::f16: decode_halves(row, format.dims, out); break;
        case RowKind::packed_kv_f16:
        case RowKind::packed_kv: unpack_kv(format, row, out); break;
        case RowKind::packed_key: unpack_key(row, format.dims, out); break;
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
    const float factor = float(1.0 / std::sqrt(double(dims)));
    for (int i = 0; i < dims; ++i) x[i] *= factor;
}

uint16_t to_f16(float value) {
    const uint32_t bits = bits_of_float(value);
    const uint16_t sign = (bits >> 16) & 0x8000;
    const uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return sign | 0x7e00;   // not a number
    if (magnitude >= 0x477ff000) return sign | 0x7c00;  // rounds beyond 65504: infinity
    if (magnitude < 0x38800000) {                       // below 2^-14: steps of 2^-24
        const float steps = float_of_bits(magnitude) * 0x1p24f;
        return sign | uint16_t(round_to_even(steps));
    }
    const uint32_t rounded = magnitude + 0xfff + ((magnitude >> 13) & 1);
    return sign | uint16_t((rounded >> 13) - (112 << 10));
}

}  // namespace whitedwarf
