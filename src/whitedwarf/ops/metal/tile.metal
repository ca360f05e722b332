// 32 by 32 sums that a simdgroup keeps in its registers, as four by four matrices of 8 by 8.

constant constexpr uint STRIDE = 36;  // floats from row to row of a tile's inputs: 32, and 4 against bank conflicts

struct Tile {
  simdgroup_float8x8 parts[4][4];
};

inline Tile empty_tile() {
  Tile tile;
  for (uint i = 0; i < 4; i++)
    for (uint j = 0; j < 4; j++) tile.parts[i][j] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
  return tile;
}

// sums += inputs (32, 32) by weights (32, 32), whose rows are the outputs.
inline void add_products(thread Tile& sums, const threadgroup float* inputs, const threadgroup float* weights) {
  for (uint k = 0; k < 32; k += 8) {
    simdgroup_float8x8 rows[4];
    for (uint i = 0; i < 4; i++) simdgroup_load(rows[i], inputs + i * 8 * STRIDE + k, STRIDE);
    for (uint j = 0; j < 4; j++) {
      simdgroup_float8x8 columns;
      simdgroup_load(columns, weights + j * 8 * STRIDE + k, STRIDE, ulong2(0, 0), true);
      for (uint i = 0; i < 4; i++)
        simdgroup_multiply_accumulate(sums.parts[i][j], rows[i], columns, sums.parts[i][j]);
    }
  }
}

inline void store_tile(thread Tile& sums, threadgroup float* to, ulong stride) {
  for (uint i = 0; i < 4; i++)
    for (uint j = 0; j < 4; j++) simdgroup_store(sums.parts[i][j], to + i * 8 * stride + j * 8, stride);
}
