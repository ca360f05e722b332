// Gate and up of the expert that each pair of row and slot picked, SwiGLU, times the pair's weight -> hidden (pairs, F).
//
// x (n, D), experts (n, k), shares (n, k), limit (1). A simdgroup makes EACH hidden values; its lanes take runs of 32
// columns in turn. grid: (tiles of F, pairs); threadgroup: SIMDGROUPS * 32.

const uint width = x_shape[1], runs = width / 32, used = experts_shape[1];
const uint outputs = gate0_shape[1];
const uint lane = thread_index_in_simdgroup, pair = threadgroup_position_in_grid.y;
const uint first = (threadgroup_position_in_grid.x * SIMDGROUPS + simdgroup_index_in_threadgroup) * EACH;
const ulong expert = experts[pair];
const device float4* input = (const device float4*)(x + ulong(pair / used) * width);

float gates[EACH], ups[EACH];
for (uint e = 0; e < EACH; e++) gates[e] = ups[e] = 0;

for (uint run = lane; run < runs; run += 32) {
  for (uint e = 0; e < EACH; e++) {
    const ulong place = (expert * outputs + min(first + e, outputs - 1)) * runs + run;
    float4 w[8];
    UNPACK_GATE(place, w);
    for (uint i = 0; i < 8; i++) gates[e] += dot(w[i], input[run * 8 + i]);
    UNPACK_UP(place, w);
    for (uint i = 0; i < 8; i++) ups[e] += dot(w[i], input[run * 8 + i]);
  }
}

for (uint e = 0; e < EACH; e++) {
  const float gate = simd_sum(gates[e]), up = simd_sum(ups[e]);
  if (lane == 0 && first + e < outputs)
    hidden[ulong(pair) * outputs + first + e] = swiglu(gate, up, limit[0]) * shares[pair];
}
