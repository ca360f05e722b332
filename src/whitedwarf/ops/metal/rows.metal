// Stored rows back to floats, a value at a time (ops/rows.py). KIND: 0 f32, 1 f16, 2 packed with an f32 tail, 3 with f16.

#include <metal_stdlib>
#include <metal_simdgroup_matrix>
using namespace metal;

// sign, four bits of exponent, three of mantissa; the smallest exponent has no hidden bit, the largest mantissa is NaN.
inline float from_e4m3(uint code) {
  const uint magnitude = code & 127;
  const float normal = as_type<float>((magnitude << 20) + (120u << 23));
  const float value = magnitude < 8 ? float(magnitude) * 0.001953125f : normal;
  const float number = magnitude == 127 ? as_type<float>(0x7FC00000u) : value;
  return code & 128 ? -number : number;
}

// 2^(byte - 127); 255 is NaN. 0, the one that is no normal number, is never stored.
inline float from_e8m0(uint byte) { return as_type<float>(byte == 255 ? 0x7FC00000u : byte << 23); }

template <int KIND, int DIMS, int ROPE>
inline float stored_value(const device uint8_t* row, uint column) {
  if (KIND == 0) return ((const device float*)row)[column];
  if (KIND == 1) return float(((const device half*)row)[column]);
  const uint plain = DIMS - ROPE;
  if (column < plain) return from_e4m3(row[column]) * from_e8m0(row[plain + column / 64]);
  const uint tail = plain + (plain + 63) / 64;  // bytes: it may lie at any address
  if (KIND == 2) {
    const device uint8_t* b = row + tail + 4 * (column - plain);
    return as_type<float>(uint(b[0]) | uint(b[1]) << 8 | uint(b[2]) << 16 | uint(b[3]) << 24);
  }
  const device uint8_t* b = row + tail + 2 * (column - plain);
  return float(as_type<half>(ushort(ushort(b[0]) | ushort(b[1]) << 8)));
}
