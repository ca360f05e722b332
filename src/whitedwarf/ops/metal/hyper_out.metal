// A sub-layer's output put back into the four streams: post_k y + sum_j C[j, k] X[j] (2.2, step 6).
//
// streams (n, 4, D), added (n, D), post (n, 4), combination (n, 4, 4): [source, destination] -> out (n, 4, D).
// grid: (D rounded up, n); threadgroup: THREADS.

const uint width = added_shape[1], row = threadgroup_position_in_grid.y, i = thread_position_in_grid.x;
if (i >= width) return;

const ulong first = ulong(row) * 4 * width + i;
const float own = added[ulong(row) * width + i];
for (uint to = 0; to < 4; to++) {
  float total = post[row * 4 + to] * own;
  for (uint from = 0; from < 4; from++)
    total += combination[(row * 4 + from) * 4 + to] * streams[first + from * width];
  out[first + to * width] = total;
}
