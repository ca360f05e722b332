// What the AVX-512 files call in each other.
#pragma once

#include "level.h"

namespace whitedwarf::avx512 {

// One weight row in the order of superblock.h, scales and mins per 16 columns; padding has scale zero.
void unpack(Type type, const uint8_t* row, int64_t cols, Unpacked out);

void quantise(const float* x, int64_t first, int64_t count, const IntegerRows& out, int64_t row);
void quantise_twice(const float* x, int64_t first, int64_t count, const IntegerRows& out, int64_t row);  // and columns

// Up to so many activation rows go straight from the blocks: faster than tiles and than AMX, from cache and from memory,
// for every format (docs/log.md).
constexpr int64_t kFewRows = 8;

// Integer products: any number of activation rows; many of them through an interleaved tile.
void multiply(const Layout& layout, const uint8_t* weights, int64_t row_bytes, int num_rows, int64_t cols,
              const IntegerRows& x, RowList list, Output out, uint8_t* scratch);
void multiply_tile(const Layout& layout, const uint8_t* weights, int64_t row_bytes, int num_rows, int64_t cols,
                   const IntegerRows& x, RowList list, Output out, uint8_t* scratch);
int64_t tile_scratch_bytes(int64_t padded);

// Float products and weights as floats.
void multiply_float(const Layout& layout, const uint8_t* weights, int64_t row_bytes, int num_rows, const FloatRows& x,
                    RowList list, Output out, uint8_t* scratch);
void decode(const Layout& layout, const uint8_t* weights, int64_t cols, float* out, uint8_t* scratch);
int64_t float_scratch_bytes(int64_t cols);

void swiglu(const float* g, const float* u, int64_t count, float limit, float weight, float* h);

}  // namespace whitedwarf::avx512
