// Numbers in an order that unsigned integers keep, and places among the threads of a group.

#include <metal_stdlib>
#include <metal_simdgroup_matrix>
using namespace metal;

// Minus zero counts as zero.
inline uint ordered(float x) {
  const uint bits = as_type<uint>(x + 0.0f);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

// How many threads before this one are marked, and how many of all. Every thread must come this way.
inline uint2 place_in_group(bool is_marked, threadgroup uint* partial, uint lane, uint simd_index, uint num_simds) {
  const uint own = is_marked ? 1 : 0;
  const uint before = simd_prefix_exclusive_sum(own);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (lane == 31) partial[simd_index] = before + own;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  uint place = before, total = 0;
  for (uint i = 0; i < num_simds; i++) {
    if (i < simd_index) place += partial[i];
    total += partial[i];
  }
  return uint2(place, total);
}
