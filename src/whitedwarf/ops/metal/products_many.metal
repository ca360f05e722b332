// x (n, G in) by a weight (G out, in) -> y (n, G out), for many rows: tiles of 32 rows and 64 outputs.
//
// Two simdgroups; each thread unpacks a run of 32 columns of one output, then both multiply 8 by 8 matrices in f32, 32
// outputs each. grid: (tiles of outputs, tiles of rows, groups); threadgroup: 64.

const uint n = x_shape[0], width = x_shape[1], groups = threadgroups_per_grid.z;
const uint runs = width / groups / 32, outputs = w0_shape[0] / groups;
const uint thread_index = thread_index_in_threadgroup, side = simdgroup_index_in_threadgroup;
const uint group = threadgroup_position_in_grid.z;
const uint first_row = threadgroup_position_in_grid.y * 32, first = threadgroup_position_in_grid.x * 64;

threadgroup float weights[64 * STRIDE];  // a row for each output
threadgroup float inputs[32 * STRIDE];
Tile sums = empty_tile();

const ulong own_output = group * outputs + min(first + thread_index, outputs - 1);
for (uint run = 0; run < runs; run++) {
  float4 w[8];
  UNPACK_W(own_output * runs + run, w);
  for (uint i = 0; i < 8; i++) ((threadgroup float4*)(weights + thread_index * STRIDE))[i] = w[i];
  for (uint i = thread_index; i < 32 * 8; i += 64) {
    const ulong row = min(first_row + i / 8, n - 1);
    const device float4* from = (const device float4*)(x + row * width + (group * runs + run) * 32);
    ((threadgroup float4*)(inputs + i / 8 * STRIDE))[i % 8] = from[i % 8];
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  add_products(sums, inputs, weights + side * 32 * STRIDE);
  threadgroup_barrier(mem_flags::mem_threadgroup);
}

store_tile(sums, weights + side * 32, 64);
threadgroup_barrier(mem_flags::mem_threadgroup);
for (uint i = thread_index; i < 32 * 64; i += 64) {
  const uint row = first_row + i / 64, output = first + i % 64;
  if (row < n && output < outputs) y[ulong(row) * outputs * groups + group * outputs + output] = weights[i];
}
