// Down for many rows: hidden (pairs, F) in the order of their experts -> y (pairs, D) in the same order.
//
// counts, starts, tile_ends (E) as in experts_many_up. Tiles of 32 pairs of one expert by 64 outputs.
// grid: (tiles of D, tiles of pairs or more); threadgroup: 64.

const uint width = hidden_shape[1], runs = width / 32, outputs = down0_shape[1];
const uint thread_index = thread_index_in_threadgroup, side = simdgroup_index_in_threadgroup;
const uint first = threadgroup_position_in_grid.x * 64, tile = threadgroup_position_in_grid.y;
const uint num_experts = down0_shape[0];
if (tile >= uint(tile_ends[num_experts - 1])) return;

FIND_EXPERT
threadgroup float weights[64 * STRIDE];
threadgroup float inputs[32 * STRIDE];
Tile sums = empty_tile();

const ulong own_output = ulong(expert) * outputs + min(first + thread_index, outputs - 1);
for (uint run = 0; run < runs; run++) {
  float4 w[8];
  UNPACK_DOWN(own_output * runs + run, w);
  for (uint i = 0; i < 8; i++) ((threadgroup float4*)(weights + thread_index * STRIDE))[i] = w[i];
  for (uint i = thread_index; i < 32 * 8; i += 64) {
    const ulong place = start + min(first_pair + i / 8, count - 1);
    const device float4* from = (const device float4*)(hidden + place * width + run * 32);
    ((threadgroup float4*)(inputs + i / 8 * STRIDE))[i % 8] = from[i % 8];
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  add_products(sums, inputs, weights + side * 32 * STRIDE);
  threadgroup_barrier(mem_flags::mem_threadgroup);
}

store_tile(sums, weights + side * 32, 64);
threadgroup_barrier(mem_flags::mem_threadgroup);
for (uint i = thread_index; i < 32 * 64; i += 64) {
  const uint place = first_pair + i / 64, output = first + i % 64;
  if (place < count && output < outputs) y[ulong(start + place) * outputs + output] = weights[i];
}
