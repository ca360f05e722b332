// The parts of each query's softmax and its sink joined, and the rotary tail turned back -> y (n, H d).
//
// parts (n, H, splits, d), tops and totals (n, H, splits); sinks (H); turns (n, ROPE / 2, 2).
// grid: (heads, n), a simdgroup each; threadgroup: 32.

const uint lane = thread_index_in_simdgroup;
const uint head = threadgroup_position_in_grid.x, row = threadgroup_position_in_grid.y;
const uint heads = parts_shape[1], splits = parts_shape[2];
const ulong first = (ulong(row) * heads + head) * splits;

float top = sinks[head];
for (uint split = 0; split < splits; split++)
  if (totals[first + split] > 0) top = max(top, tops[first + split]);

float total = exp(sinks[head] - top), sum[DIMS / 32];
for (uint i = 0; i < DIMS / 32; i++) sum[i] = 0;
for (uint split = 0; split < splits; split++) {
  const ulong place = first + split;
  if (!(totals[place] > 0)) continue;  // it saw nothing
  const float weight = exp(tops[place] - top);
  total += totals[place] * weight;
  for (uint i = 0; i < DIMS / 32; i++) sum[i] += parts[place * DIMS + i * 32 + lane] * weight;
}

for (uint i = 0; i < DIMS / 32; i++) {
  const uint column = i * 32 + lane;
  const float value = sum[i] / total, other = simd_shuffle_xor(value, 1);
  float turned = value;
  if (column >= DIMS - ROPE) {
    const ulong pair = ulong(row) * (ROPE / 2) + (column - (DIMS - ROPE)) / 2;
    const float cosine = turns[2 * pair], sine = turns[2 * pair + 1];
    turned = column % 2 ? value * cosine - other * sine : value * cosine + other * sine;
  }
  y[(ulong(row) * heads + head) * DIMS + column] = turned;
}
