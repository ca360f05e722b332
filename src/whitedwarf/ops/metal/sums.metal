// Sums within simdgroups and threadgroups, and what the mixes of streams are made with.

#include <metal_stdlib>
#include <metal_simdgroup_matrix>
using namespace metal;

inline float sigmoid(float x) { return 1.0f / (1.0f + exp(-x)); }

// Of the four lanes that differ in two neighbouring bits of their number, the lower of which is `step`.
inline float sum_of_four(float value, ushort step) {
  const float two = value + simd_shuffle_xor(value, step);
  return two + simd_shuffle_xor(two, ushort(2 * step));
}

inline float max_of_four(float value, ushort step) {
  const float two = max(value, simd_shuffle_xor(value, step));
  return max(two, simd_shuffle_xor(two, ushort(2 * step)));
}

// Over a whole threadgroup; every thread must come this way, and gets the sum. `partial` has a place per simdgroup.
inline float sum_of_group(float value, threadgroup float* partial, uint lane, uint simd_index, uint num_simds) {
  const float own = simd_sum(value);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (lane == 0) partial[simd_index] = own;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  float total = 0;
  for (uint i = 0; i < num_simds; i++) total += partial[i];
  return total;
}

#define SUM_OF_GROUP(value) \
  sum_of_group(value, partial, lane, simd_index, THREADS / 32)
#define MIXED(i) \
  (pre[0] * from[i] + pre[1] * from[width + i] + pre[2] * from[2 * width + i] + pre[3] * from[3 * width + i])
