// Rows of the TOP highest scores below each count -> picked (n, TOP) ascending, padded with -1 (2.5).
//
// scores (n, width); counts (n). The TOP-th highest is found a byte of its bits at a time, by counting; of those equal to
// it the lowest rows are taken. grid: (n), THREADS each; threadgroup: THREADS.

const uint lane = thread_index_in_simdgroup, simd_index = simdgroup_index_in_threadgroup;
const uint thread_index = thread_index_in_threadgroup, row = threadgroup_position_in_grid.x;
const uint count = min(uint(counts[row]), uint(scores_shape[1]));
const device float* own = scores + ulong(row) * scores_shape[1];
threadgroup atomic_uint found[256];
threadgroup uint partial[32];
threadgroup uint choice[2];  // the byte found last, and how many are still needed from among those that have it

if (count <= TOP) {
  for (uint i = thread_index; i < TOP; i += THREADS) picked[ulong(row) * TOP + i] = i < count ? int(i) : -1;
  return;
}

uint threshold = 0, known = 0, needed = TOP;
for (int shift = 24; shift >= 0; shift -= 8) {
  for (uint i = thread_index; i < 256; i += THREADS) atomic_store_explicit(&found[i], 0, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint i = thread_index; i < count; i += THREADS) {
    const uint key = ordered(own[i]);
    if ((key & known) == threshold) atomic_fetch_add_explicit(&found[(key >> shift) & 255], 1, memory_order_relaxed);
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (thread_index == 0) {
    uint byte = 255, above = 0;
    for (; byte > 0; byte--) {
      const uint here = atomic_load_explicit(&found[byte], memory_order_relaxed);
      if (above + here >= needed) break;
      above += here;
    }
    choice[0] = byte;
    choice[1] = needed - above;
  }
  threadgroup_barrier(mem_flags::mem_threadgroup);
  threshold |= choice[0] << shift;
  known |= 255u << shift;
  needed = choice[1];
}

uint taken = 0, equal_seen = 0;
for (uint begin = 0; begin < count; begin += THREADS) {
  const uint i = begin + thread_index;
  const uint key = i < count ? ordered(own[i]) : 0;
  const bool is_equal = i < count && key == threshold;
  const uint2 equal = place_in_group(is_equal, partial, lane, simd_index, THREADS / 32);
  const bool is_chosen = i < count && (key > threshold || (is_equal && equal_seen + equal.x < needed));
  const uint2 chosen = place_in_group(is_chosen, partial, lane, simd_index, THREADS / 32);
  if (is_chosen) picked[ulong(row) * TOP + taken + chosen.x] = int(i);
  equal_seen += equal.y;
  taken += chosen.y;
}
