// One query's softmax over a part of the keys it sees -> parts (n, H, splits, d), tops and totals (n, H, splits).
//
// queries (n, H, d); window (held, row_bytes); compressed (rows, row_bytes); place (2): the position of the window's first
// row, and how many positions a query sees up to its own; positions (n); counts (n); picked (n, k).
// SEEN: 0 the window only, 1 also compressed rows below the count, 2 also those picked. A threadgroup serves HEADS heads
// of one query, a simdgroup each; KEYS rows at a time are decoded for all of them. With SPLIT 0 there is one part; else
// the window and the compressed rows are each cut into parts of SPLIT.
// grid: (tiles of heads, n, splits); threadgroup: HEADS * 32.

const uint lane = thread_index_in_simdgroup, thread_index = thread_index_in_threadgroup;
const uint row = threadgroup_position_in_grid.y, split = threadgroup_position_in_grid.z;
const uint splits = threadgroups_per_grid.z, heads = queries_shape[1], row_bytes = window_shape[1];
const uint head = threadgroup_position_in_grid.x * HEADS + simdgroup_index_in_threadgroup;
const uint own_head = min(head, heads - 1);
const uint length = place[1], window_splits = (length + SPLIT - 1) / max(SPLIT, 1);

// Where the row of a key lies; -1 if there is none. A window's keys are counted from its oldest position.
#define POSITION(key) (positions[row] - int(length - 1) + int(key))
#define WINDOW_PLACE(key) (POSITION(key) < 0 ? -1 : POSITION(key) - place[0])
#define POOLED_PLACE(key) (SEEN == 2 ? picked[ulong(row) * picked_shape[1] + key] : int(key))
#define KEY_PLACE(key) (is_window ? WINDOW_PLACE(key) : POOLED_PLACE(key))

threadgroup float keys[KEYS * DIMS];
float query[DIMS / 32], sum[DIMS / 32];
for (uint i = 0; i < DIMS / 32; i++) {
  query[i] = queries[(ulong(row) * heads + own_head) * DIMS + i * 32 + lane] * rsqrt(float(DIMS));
  sum[i] = 0;
}
float top = -INFINITY, total = 0;

for (uint part = 0; part < (SEEN ? 2 : 1); part++) {
  const bool is_window = part == 0;
  const uint visible = is_window ? length : (SEEN == 1 ? uint(counts[row]) : uint(picked_shape[1]));
  uint begin = 0, end = visible;
  if (SPLIT) {
    if (is_window != (split < window_splits)) continue;
    begin = (is_window ? split : split - window_splits) * SPLIT;
    end = min(begin + SPLIT, visible);
  }
  const device uint8_t* rows = is_window ? window : compressed;
  for (uint block = begin; block < end; block += KEYS) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint i = thread_index; i < KEYS * DIMS; i += HEADS * 32) {
      const uint key = block + i / DIMS;
      const int stored = key < end ? KEY_PLACE(key) : -1;
      keys[i] = stored < 0 ? 0 : stored_value<KIND, DIMS, ROPE>(rows + ulong(stored) * row_bytes, i % DIMS);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint key = block; key < min(block + KEYS, end); key++) {
      if (KEY_PLACE(key) < 0) continue;
      const threadgroup float* values = keys + (key - block) * DIMS + lane;
      float product = 0;
      for (uint i = 0; i < DIMS / 32; i++) product += query[i] * values[i * 32];
      const float score = simd_sum(product);
      const float new_top = max(top, score);
      const float kept = exp(top - new_top), share = exp(score - new_top);
      for (uint i = 0; i < DIMS / 32; i++) sum[i] = sum[i] * kept + share * values[i * 32];
      total = total * kept + share;
      top = new_top;
    }
  }
}

if (head < heads) {
  const ulong to = (ulong(row) * heads + head) * splits + split;
  for (uint i = 0; i < DIMS / 32; i++) parts[to * DIMS + i * 32 + lane] = sum[i];
  if (lane == 0) {
    tops[to] = top;
    totals[to] = total;
  }
}
