// Weights of every type from their planes (ops/mlx_twins/blocks.py), 32 columns at a time: a "run".
//
// `run` counts runs from the beginning of the tensor. The large plane lies in device memory; a small one may be so small
// that MLX passes it as constant, so its pointer is of a template's type. The multiplications are those of
// gguf/codecs.py, in their order.

#include <metal_stdlib>
#include <metal_simdgroup_matrix>
using namespace metal;

constant float DOUBLED_E2M1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

inline void unpack_f32(const device float* values, ulong run, thread float4 (&w)[8]) {
  const device float4* from = (const device float4*)(values + 32 * run);
  for (uint i = 0; i < 8; i++) w[i] = from[i];
}

inline void unpack_f16(const device half* values, ulong run, thread float4 (&w)[8]) {
  const device half4* from = (const device half4*)(values + 32 * run);
  for (uint i = 0; i < 8; i++) w[i] = float4(from[i]);
}

// The upper halves of floats, passed as integers.
inline void unpack_bf16(const device uint16_t* values, ulong run, thread float4 (&w)[8]) {
  const device ushort4* from = (const device ushort4*)(values + 32 * run);
  for (uint i = 0; i < 8; i++) w[i] = as_type<float4>(uint4(from[i]) << 16);
}

template <typename Scales>
inline void unpack_q8_0(const device int8_t* quants, Scales scales, ulong run, thread float4 (&w)[8]) {
  const device char4* from = (const device char4*)(quants + 32 * run);
  const float scale = float(scales[run]);
  for (uint i = 0; i < 8; i++) w[i] = float4(from[i]) * scale;
}

// Eight runs a block: two of them in each 32 bytes of quants, in the low nibbles and in the high ones.
template <typename Steps>
inline void unpack_q4_k(
    const device uint8_t* quants, const device uint8_t* small, Steps steps, ulong run, thread float4 (&w)[8]) {
  const ulong block = run >> 3;
  const uint part = uint(run & 7);
  const device uint8_t* s = small + 12 * block;
  uint scale = s[part] & 63;
  uint minimum = s[part + 4] & 63;
  if (part >= 4) {
    scale = (s[part + 4] & 15) | ((s[part - 4] >> 2) & 48);
    minimum = (s[part + 4] >> 4) | ((s[part] >> 2) & 48);
  }
  const float step = float(steps[2 * block]) * float(scale);
  const float offset = float(steps[2 * block + 1]) * float(minimum);
  const device uchar4* from = (const device uchar4*)(quants + 128 * block + 32 * (part >> 1));
  const uint shift = 4 * (part & 1);
  for (uint i = 0; i < 8; i++) w[i] = step * float4((uint4(from[i]) >> shift) & 15) - offset;
}

// Eight runs a block: four in each 32 bytes of quants, two bits each; a small scale and minimum per 16 columns.
template <typename Steps>
inline void unpack_q2_k(
    const device uint8_t* quants, const device uint8_t* small, Steps steps, ulong run, thread float4 (&w)[8]) {
  const ulong block = run >> 3;
  const uint part = uint(run & 7);
  const device uchar4* from = (const device uchar4*)(quants + 64 * block + 32 * (part >> 2));
  const uint shift = 2 * (part & 3);
  const float scale = float(steps[2 * block]);
  const float minimum = float(steps[2 * block + 1]);
  for (uint half_run = 0; half_run < 2; half_run++) {
    const uint packed = small[16 * block + 2 * part + half_run];
    const float step = scale * float(packed & 15);
    const float offset = minimum * float(packed >> 4);
    for (uint i = 4 * half_run; i < 4 * half_run + 4; i++)
      w[i] = step * float4((uint4(from[i]) >> shift) & 3) - offset;
  }
}

// Two words a run: four points of the grid; four times seven signs, whose number is made even, and a small scale.
template <typename Steps>
inline void unpack_iq2_xxs(const device uint32_t* codes, Steps steps, ulong run, thread float4 (&w)[8]) {
  const uint points = codes[2 * run];
  const uint signs_and_scale = codes[2 * run + 1];
  const float scale = float(steps[run >> 3]) * (0.5f + float(signs_and_scale >> 28)) * 0.25f;
  for (uint i = 0; i < 4; i++) {
    const uint point = (points >> (8 * i)) & 255;
    const uint stored = (signs_and_scale >> (7 * i)) & 127;
    const uint signs = stored | ((popcount(stored) & 1) << 7);
    for (uint half_point = 0; half_point < 2; half_point++) {
      const uint bytes = IQ2_XXS_GRID[2 * point + half_point];
      const uint4 magnitudes = (uint4(bytes) >> uint4(0, 8, 16, 24)) & 255;
      const uint4 is_negative = (uint4(signs >> (4 * half_point)) >> uint4(0, 1, 2, 3)) & 1;
      w[2 * i + half_point] = scale * float4(magnitudes) * (1.0f - 2.0f * float4(is_negative));
    }
  }
}

// 2^(byte - 128): halved, as the values are doubled. The two smallest are no normal numbers.
inline float half_scale(uint byte) {
  const float normal = as_type<float>((max(byte, 2u) - 1) << 23);
  return byte >= 2 ? normal : (byte == 1 ? normal * 0.5f : normal * 0.25f);
}

template <typename Scales>
inline void unpack_mxfp4(const device uint8_t* quants, Scales scales, ulong run, thread float4 (&w)[8]) {
  const device uchar4* from = (const device uchar4*)(quants + 16 * run);
  const float scale = half_scale(scales[run]);
  for (uint i = 0; i < 4; i++) {
    const uchar4 both = from[i];
    for (uint j = 0; j < 4; j++) {
      w[i][j] = DOUBLED_E2M1[both[j] & 15] * scale;
      w[i + 4][j] = DOUBLED_E2M1[both[j] >> 4] * scale;
    }
  }
}

inline float swiglu(float gate, float up, float limit) {
  const float clamped = min(gate, limit);
  return clamped / (1.0f + exp(-clamped)) * clamp(up, -limit, limit);
}
