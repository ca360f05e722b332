// The experts of each row and their weights (2.6): logits (n, E) -> experts (n, USED), weights (n, USED).
//
// bias (E); table (V, USED); ids (n); scale (1). CHOICE: 0 the highest scores, 1 the highest with the bias added, 2 the
// table's. A simdgroup serves a row, each lane every 32nd of LANE_EXPERTS * 32 experts; of equal ones the lowest is taken.
// grid: (n), a simdgroup each; threadgroup: 32.

const uint lane = thread_index_in_simdgroup, row = threadgroup_position_in_grid.x, num_experts = logits_shape[1];
float scores[LANE_EXPERTS], ranked[LANE_EXPERTS];
for (uint i = 0; i < LANE_EXPERTS; i++) {
  const uint expert = i * 32 + lane;
  const bool is_one = expert < num_experts;
  scores[i] = is_one ? router_score(logits[ulong(row) * num_experts + expert]) : 0;
  ranked[i] = !is_one ? -INFINITY : (CHOICE == 1 ? scores[i] + bias[expert] : scores[i]);
}

float total = 0, own = 0;  // `own`: the weight of the slot that is this lane's
for (uint slot = 0; slot < USED; slot++) {
  uint chosen = 0xFFFFFFFF;
  if (CHOICE == 2) {
    chosen = table[ulong(ids[row]) * USED + slot];
  } else {
    float best = -INFINITY;
    for (uint i = 0; i < LANE_EXPERTS; i++) best = max(best, ranked[i]);
    best = simd_max(best);
    for (uint i = 0; i < LANE_EXPERTS; i++)
      if (ranked[i] == best) chosen = min(chosen, i * 32 + lane);
    chosen = simd_min(chosen);
  }
  float score = 0;
  for (uint i = 0; i < LANE_EXPERTS; i++)
    if (i * 32 + lane == chosen) {
      score = scores[i];
      ranked[i] = -INFINITY;
    }
  score = simd_sum(score);
  total += score;
  if (lane == slot) own = score;
  if (lane == 0) experts[ulong(row) * USED + slot] = chosen;
}
if (lane < USED) weights[ulong(row) * USED + lane] = (NORMALISE ? own / max(total, WEIGHT_SUM_FLOOR) : own) * scale[0];
