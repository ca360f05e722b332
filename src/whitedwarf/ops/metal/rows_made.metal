// Rows normed, their rotary tails turned, and stored: x (rows, DIMS) -> rows (rows, DIMS) of floats, or bytes.
//
// norm (DIMS); turns (n, ROPE / 2, 2), each for rows / n rows one after the other; epsilon (1); size (1): DIMS^-1/2.
// NORM: 0 none, 1 without weights, 2 with them. KIND: as in rows.metal, and 4: packed keys, which are rotated first.
// DECODED: what the stored row would be read as, instead. A simdgroup makes a row, each lane every 32nd value.
// grid: (rows), a simdgroup each; threadgroup: 32.

const uint lane = thread_index_in_simdgroup, row = threadgroup_position_in_grid.x;
const uint rows_of_turn = x_shape[0] / turns_shape[0];
const int plain = DIMS - ROPE;
float v[DIMS / 32];
float squares = 0;
for (uint i = 0; i < DIMS / 32; i++) {
  v[i] = x[ulong(row) * DIMS + i * 32 + lane];
  squares += v[i] * v[i];
}
if (NORM) {
  const float inverse = 1.0f / sqrt(simd_sum(squares) / DIMS + epsilon[0]);
  for (uint i = 0; i < DIMS / 32; i++) v[i] = v[i] * inverse * (NORM == 2 ? norm[i * 32 + lane] : 1.0f);
}

for (uint i = 0; i < DIMS / 32; i++) {
  const int column = i * 32 + lane;
  const float other = simd_shuffle_xor(v[i], ushort(1));
  if (column < plain) continue;
  const ulong pair = ulong(row / rows_of_turn) * (ROPE / 2) + uint(column - plain) / 2;
  const float cosine = turns[2 * pair], sine = turns[2 * pair + 1];
  v[i] = column % 2 ? other * sine + v[i] * cosine : v[i] * cosine - other * sine;
}

if (KIND < 2) {
  for (uint i = 0; i < DIMS / 32; i++) rows[ulong(row) * DIMS + i * 32 + lane] = v[i];
}

if (KIND == 4) {
  for (uint stride = 1; stride < 32; stride *= 2)
    for (uint i = 0; i < DIMS / 32; i++) {
      const float other = simd_shuffle_xor(v[i], ushort(stride));
      v[i] = lane & stride ? other - v[i] : v[i] + other;
    }
  for (uint stride = 1; stride < DIMS / 32; stride *= 2)
    for (uint i = 0; i < DIMS / 32; i++)
      if (!(i & stride)) {
        const float low = v[i], high = v[i + stride];
        v[i] = low + high;
        v[i + stride] = low - high;
      }
  const ulong first = ulong(row) * (DIMS / 2 + DIMS / 32);
  for (uint i = 0; i < DIMS / 32; i++) {
    const float value = v[i] * size[0];
    const int exponent = power_of_two_above(largest(magnitude_bits(value), SMALLEST_KEY) * SIXTH);
    const float scaled = clamp(scaled_down(value, exponent), -6.0f, 6.0f);
    const uint code = code_of(scaled, 0, 1) | sign_of(value) << 3;
    const uint other = simd_shuffle_xor(code, ushort(1));
    if (DECODED) {
      rows[ulong(row) * DIMS + i * 32 + lane] = from_e2m1(code, exponent);
    } else {
      if (lane % 2 == 0) rows[first + (i * 32 + lane) / 2] = code | other << 4;
      if (lane == 0) rows[first + DIMS / 2 + i] = exponent + 127;
    }
  }
}

if (KIND == 2 || KIND == 3) {
  const uint blocks = (plain + 63) / 64, tail_bytes = KIND == 2 ? 4 : 2;
  const ulong first = ulong(row) * (plain + blocks + tail_bytes * ROPE);
  for (uint block = 0; block < blocks; block++) {
    uint magnitudes = 0;
    for (uint i = 2 * block; i < min(2 * block + 2, uint(DIMS / 32)); i++)
      if (int(i * 32 + lane) < plain) magnitudes = max(magnitudes, magnitude_bits(v[i]));
    const int exponent = power_of_two_above(largest(magnitudes, 1e-4f) * (1.0f / 448.0f));
    for (uint i = 2 * block; i < min(2 * block + 2, uint(DIMS / 32)); i++)
      if (int(i * 32 + lane) < plain) rows[first + i * 32 + lane] = e4m3(v[i], exponent);
    if (lane == 0) rows[first + plain + block] = exponent + 127;
  }
  for (uint i = 0; i < DIMS / 32; i++) {
    const int column = i * 32 + lane;
    if (column < plain) continue;
    const uint bits = KIND == 2 ? as_type<uint>(v[i]) : uint(as_type<ushort>(half(v[i])));
    const ulong to = first + plain + blocks + tail_bytes * uint(column - plain);
    for (uint byte = 0; byte < tail_bytes; byte++) rows[to + byte] = (bits >> (8 * byte)) & 255;
  }
}
