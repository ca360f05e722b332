// The mix of a sub-layer's input from its four streams, with its norm; and how its output goes back (2.2, steps 1-5).
//
// streams (n, 4, D); products (n, 24): of the streams as they are with the mixing matrix; base (24); scale (3); norm (D);
// epsilons (2): of the norms, of the mixes -> x (n, D), post (n, 4), combination (n, 16): [source, destination].
// A threadgroup of THREADS makes a row. grid: (n); threadgroup: THREADS.

const uint width = norm_shape[0], row = threadgroup_position_in_grid.x;
const uint lane = thread_index_in_simdgroup, simd_index = simdgroup_index_in_threadgroup;
const uint thread_index = thread_index_in_threadgroup;
const device float* from = streams + ulong(row) * 4 * width;
threadgroup float partial[32];
threadgroup float pre[4];

float squares = 0;
for (uint i = thread_index; i < 4 * width; i += THREADS) squares += from[i] * from[i];
const float inverse = 1.0f / sqrt(SUM_OF_GROUP(squares) / float(4 * width) + epsilons[0]);

if (thread_index < 32) {  // a simdgroup: lanes 0 to 15 are the entries of the combination, source by source
  const device float* mixed = products + ulong(row) * 24;
  if (lane < 4) {
    pre[lane] = sigmoid(mixed[lane] * inverse * scale[0] + base[lane]) + epsilons[1];
    post[ulong(row) * 4 + lane] = 2.0f * sigmoid(mixed[4 + lane] * inverse * scale[1] + base[4 + lane]);
  }
  const uint entry = lane % 16;
  const float logit = mixed[8 + entry] * inverse * scale[2] + base[8 + entry];
  float c = exp(logit - max_of_four(logit, 1));
  c = c / sum_of_four(c, 1) + epsilons[1];
  c = c / (sum_of_four(c, 4) + epsilons[1]);
  for (uint i = 1; i < ITERATIONS; i++) {
    c = c / (sum_of_four(c, 1) + epsilons[1]);
    c = c / (sum_of_four(c, 4) + epsilons[1]);
  }
  if (lane < 16) combination[ulong(row) * 16 + entry] = c;
}
threadgroup_barrier(mem_flags::mem_threadgroup);

float mixed_squares = 0;
for (uint i = thread_index; i < width; i += THREADS) {
  const float value = MIXED(i);
  mixed_squares += value * value;
}
const float mixed_inverse = 1.0f / sqrt(SUM_OF_GROUP(mixed_squares) / float(width) + epsilons[0]);
for (uint i = thread_index; i < width; i += THREADS) x[ulong(row) * width + i] = MIXED(i) * mixed_inverse * norm[i];
