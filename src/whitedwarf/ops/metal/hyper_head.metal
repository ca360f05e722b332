// The final mix of the four streams into one normed vector (2.8).
//
// streams (n, 4, D); products (n, 4) of the streams as they are; base (4); scale (1); norm (D); epsilons (2) -> x (n, D).
// grid: (n); threadgroup: THREADS.

const uint width = norm_shape[0], row = threadgroup_position_in_grid.x;
const uint lane = thread_index_in_simdgroup, simd_index = simdgroup_index_in_threadgroup;
const uint thread_index = thread_index_in_threadgroup;
const device float* from = streams + ulong(row) * 4 * width;
threadgroup float partial[32];
threadgroup float pre[4];

float squares = 0;
for (uint i = thread_index; i < 4 * width; i += THREADS) squares += from[i] * from[i];
const float inverse = 1.0f / sqrt(SUM_OF_GROUP(squares) / float(4 * width) + epsilons[0]);
if (thread_index < 4)
  pre[thread_index] = sigmoid(products[row * 4 + thread_index] * inverse * scale[0] + base[thread_index]) + epsilons[1];
threadgroup_barrier(mem_flags::mem_threadgroup);

float mixed_squares = 0;
for (uint i = thread_index; i < width; i += THREADS) {
  const float value = MIXED(i);
  mixed_squares += value * value;
}
const float mixed_inverse = 1.0f / sqrt(SUM_OF_GROUP(mixed_squares) / float(width) + epsilons[0]);
for (uint i = thread_index; i < width; i += THREADS) x[ulong(row) * width + i] = MIXED(i) * mixed_inverse * norm[i];
