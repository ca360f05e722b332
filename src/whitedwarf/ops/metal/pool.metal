// A gated average per channel over the tokens of each window -> pooled (groups, d); see ops/mlx_twins/pool.py.
//
// values, gates (m, c d); ape (RATIO, c d); place (2): the row of the first window's first token, and the window's number.
// OVERLAP: c = 2, and a window also pools the first halves of the one before it. A thread makes a channel of a window.
// grid: (d rounded up, groups); threadgroup: THREADS.

const uint width = values_shape[1], dims = OVERLAP ? width / 2 : width;
const uint channel = thread_position_in_grid.x, group = threadgroup_position_in_grid.y;
if (channel >= dims) return;

const int begin = place[0] + int(group) * RATIO;
const bool has_before = OVERLAP && place[1] + int(group) > 0;
const uint own_channel = OVERLAP ? dims + channel : channel;

float top = -INFINITY;
for (int t = has_before ? -RATIO : 0; t < RATIO; t++) {
  const uint column = t < 0 ? channel : own_channel;
  top = max(top, gates[ulong(begin + t) * width + column] + ape[((t + RATIO) % RATIO) * width + column]);
}
float total = 0, sum = 0;
for (int t = has_before ? -RATIO : 0; t < RATIO; t++) {
  const uint column = t < 0 ? channel : own_channel;
  const ulong from = ulong(begin + t) * width + column;
  const float share = exp(gates[from] + ape[((t + RATIO) % RATIO) * width + column] - top);
  total += share;
  sum += share * values[from];
}
pooled[ulong(group) * dims + channel] = sum / total;
