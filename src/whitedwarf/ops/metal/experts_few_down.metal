// Down of the experts that each row picked, added up in the order of the slots: hidden (n k, F) -> y (n, D).
//
// experts (n, k). A simdgroup makes EACH outputs. grid: (tiles of D, rows); threadgroup: SIMDGROUPS * 32.

const uint width = hidden_shape[1], runs = width / 32, used = experts_shape[1];
const uint outputs = down0_shape[1];
const uint lane = thread_index_in_simdgroup, row = threadgroup_position_in_grid.y;
const uint first = (threadgroup_position_in_grid.x * SIMDGROUPS + simdgroup_index_in_threadgroup) * EACH;

float totals[EACH];
for (uint e = 0; e < EACH; e++) totals[e] = 0;

for (uint slot = 0; slot < used; slot++) {
  const uint pair = row * used + slot;
  const ulong expert = experts[pair];
  const device float4* input = (const device float4*)(hidden + ulong(pair) * width);
  for (uint e = 0; e < EACH; e++) {
    float sum = 0;
    for (uint run = lane; run < runs; run += 32) {
      float4 w[8];
      UNPACK_DOWN((expert * outputs + min(first + e, outputs - 1)) * runs + run, w);
      for (uint i = 0; i < 8; i++) sum += dot(w[i], input[run * 8 + i]);
    }
    totals[e] += simd_sum(sum);
  }
}

for (uint e = 0; e < EACH; e++)
  if (lane == 0 && first + e < outputs) y[ulong(row) * outputs + first + e] = totals[e];
