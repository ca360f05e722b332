// x (n, G in) by a weight (G out, in) -> y (n, G out), for few rows: the weight is read once.
//
// A simdgroup makes EACH outputs of BATCH rows; its lanes take runs of 32 columns in turn. A row's result does not depend
// on BATCH. grid: (tiles of outputs, tiles of rows, groups); threadgroup: SIMDGROUPS * 32.

const uint n = x_shape[0], width = x_shape[1], groups = threadgroups_per_grid.z;
const uint runs = width / groups / 32, outputs = w0_shape[0] / groups;
const uint lane = thread_index_in_simdgroup, group = threadgroup_position_in_grid.z;
const uint first_row = threadgroup_position_in_grid.y * BATCH;
const uint first = (threadgroup_position_in_grid.x * SIMDGROUPS + simdgroup_index_in_threadgroup) * EACH;

float sums[BATCH][EACH];
for (uint b = 0; b < BATCH; b++)
  for (uint e = 0; e < EACH; e++) sums[b][e] = 0;

for (uint run = lane; run < runs; run += 32) {
  float4 w[EACH][8];
  for (uint e = 0; e < EACH; e++) {
    const ulong output = group * outputs + min(first + e, outputs - 1);
    UNPACK_W(output * runs + run, w[e]);
  }
  for (uint b = 0; b < BATCH; b++) {
    const ulong row = min(first_row + b, n - 1);
    const device float4* from = (const device float4*)(x + row * width + (group * runs + run) * 32);
    for (uint i = 0; i < 8; i++) {
      const float4 values = from[i];
      for (uint e = 0; e < EACH; e++) sums[b][e] += dot(w[e][i], values);
    }
  }
}

for (uint b = 0; b < BATCH; b++)
  for (uint e = 0; e < EACH; e++) {
    const float total = simd_sum(sums[b][e]);
    if (lane == 0 && first_row + b < n && first + e < outputs)
      y[ulong(first_row + b) * outputs * groups + group * outputs + first + e] = total;
  }
