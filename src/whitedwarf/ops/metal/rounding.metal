// Rounding to stored rows, as in ops/rows.py: powers of two come from the bits of a float, codes from whole steps of one.

#include <metal_stdlib>
#include <metal_simdgroup_matrix>
using namespace metal;

// The exponent e with 2^e >= ratio > 2^(e-1) of a positive normal float; 128 of infinity and NaN.
inline int power_of_two_above(float ratio) {
  const uint bits = as_type<uint>(ratio);
  return min(int(bits >> 23) - 127 + ((bits & 0x7FFFFF) != 0 ? 1 : 0), 128);
}

// Of exponents of normal numbers.
inline float two_to(int exponent) { return as_type<float>(uint(exponent + 127) << 23); }

// x times 2^-exponent, in two steps, since 2^-128 is no normal number.
inline float scaled_down(float x, int exponent) {
  const int part = exponent >> 1;
  return x * two_to(-part) * two_to(part - exponent);
}

// The largest magnitude that lanes hold, and not less than `least`: by the bits, among which NaN comes after infinity.
inline float largest(uint bits, float least) { return as_type<float>(max(simd_max(bits), as_type<uint>(least))); }

inline uint magnitude_bits(float x) { return as_type<uint>(x) & 0x7FFFFFFF; }

// Sign, exponent and mantissa of |x| <= the largest code: steps of the exponent's size, halves to even.
inline uint code_of(float x, int lowest_exponent, int mantissa_bits) {
  const uint magnitude = magnitude_bits(x);
  const int exponent = max(int(magnitude >> 23) - 127, lowest_exponent);
  const uint steps = uint(rint(as_type<float>(magnitude) * two_to(mantissa_bits - exponent)));
  return (uint(exponent - lowest_exponent) << mantissa_bits) + steps;
}

inline uint sign_of(float x) { return as_type<uint>(x) >> 31; }

inline uint e4m3(float x, int exponent) {
  if (magnitude_bits(x) > 0x7F800000) return 0x7F | sign_of(x) << 7;
  return code_of(clamp(scaled_down(x, exponent), -448.0f, 448.0f), -6, 3) | sign_of(x) << 7;
}

// The value of a code e2m1 with this exponent, which may be too large for any.
inline float from_e2m1(uint code, int exponent) {
  const float doubled[8] = {0, 1, 2, 3, 4, 6, 8, 12};
  const float value = exponent == 128 ? as_type<float>(0x7FC00000u) : doubled[code & 7] * 0.5f * two_to(exponent);
  return code & 8 ? -value : value;
}
