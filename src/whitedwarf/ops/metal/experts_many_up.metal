// Gate, up and SwiGLU for many rows: pairs of row and slot in the order of their experts -> hidden (pairs, F).
//
// x (n, D); order (pairs): the pair at each place, experts one after the other; slots (1): k; shares (pairs) by pair;
// counts, starts, tile_ends (E): an expert's pairs, the place of its first, and the tiles up to its last; limit (1).
// A threadgroup makes a tile of 32 pairs of one expert by 32 hidden values; the first simdgroup its gates, the second
// its ups. grid: (tiles of F, tiles of pairs or more); threadgroup: 64.

const uint width = x_shape[1], runs = width / 32, outputs = gate0_shape[1];
const uint thread_index = thread_index_in_threadgroup, side = simdgroup_index_in_threadgroup;
const uint first = threadgroup_position_in_grid.x * 32, tile = threadgroup_position_in_grid.y;
const uint num_experts = gate0_shape[0];
if (tile >= uint(tile_ends[num_experts - 1])) return;

FIND_EXPERT
threadgroup float weights[64 * STRIDE];  // a row for each output: 32 of the gate, 32 of up
threadgroup float inputs[32 * STRIDE];
Tile sums = empty_tile();

const ulong own_output = ulong(expert) * outputs + min(first + thread_index % 32, outputs - 1);
for (uint run = 0; run < runs; run++) {
  float4 w[8];
  if (side == 0) {
    UNPACK_GATE(own_output * runs + run, w);
  } else {
    UNPACK_UP(own_output * runs + run, w);
  }
  for (uint i = 0; i < 8; i++) ((threadgroup float4*)(weights + thread_index * STRIDE))[i] = w[i];
  for (uint i = thread_index; i < 32 * 8; i += 64) {
    const uint pair = order[start + min(first_pair + i / 8, count - 1)];
    const device float4* from = (const device float4*)(x + ulong(pair / uint(slots[0])) * width + run * 32);
    ((threadgroup float4*)(inputs + i / 8 * STRIDE))[i % 8] = from[i % 8];
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  add_products(sums, inputs, weights + side * 32 * STRIDE);
  threadgroup_barrier(mem_flags::mem_threadgroup);
}

store_tile(sums, weights + side * 32, 64);
threadgroup_barrier(mem_flags::mem_threadgroup);
for (uint i = thread_index; i < 32 * 32; i += 64) {
  const uint place = first_pair + i / 32, output = first + i % 32;
  if (place < count && output < outputs) {
    const threadgroup float* gate = weights + i / 32 * 64 + i % 32;
    hidden[ulong(start + place) * outputs + output] = swiglu(gate[0], gate[32], limit[0]) * shares[order[start + place]];
  }
}
