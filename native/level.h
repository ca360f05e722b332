// The table of kernels one CPU level provides (scalar, avx2, avx512, amx, neon), and the arithmetic they all promise.
//
// Promise: every level gives the same bits. The order of every sum is fixed here; the scalar level is the
// specification.
//
// Integer product of a weight row w and an activation row x, both padded with zero scales to whole superblocks:
//   for each granule s (16 or 32 columns):  P = sum of code * q, exact in int32
//     acc[s mod lanes] = fma(float(P), w.scale[s] * x.scale[s], acc[s mod lanes])         lanes = 256 / granule
//     acc[s mod lanes] = fma(-w.min[s], x.sum[s], acc[s mod lanes])                       formats with mins only
//   result = tree sum of the lanes: halves added until one is left (i + i + lanes/2).
// Float product: acc[k mod 16] = fma(w[k], x[k], acc[k mod 16]), then the same tree.
// A result therefore depends on its own two rows only: not on the batch, the tile or the thread that met them.
#pragma once

#include "blocks.h"

namespace whitedwarf {

constexpr int kTileRows = 32;  // weight rows in one tile; also one activation block of the next product
constexpr int kFloatTileRows = 64;  // weight rows in one tile of float products ...
constexpr int kChunkInputs = 96;    // ... and the activation rows that it meets in the second cache

// Integer form of one weight row: codes are signed bytes, unsigned for formats with mins.
// (AVX-512 has its own order and offset, avx512/superblock.h; only its own kernels see those.)
struct Unpacked {
    uint8_t* codes;  // (padded columns,)
    float* scales;   // (padded columns / granule,), with room for padded columns / 16
    float* mins;     // likewise; untouched when the format has none
};

// Activations as int8 with one scale per 32 values, one row after the other, padded to whole superblocks. Scales are
// repeated per granule of the weights that will meet them. Made and read by one level, which may order them its way.
struct IntegerRows {
    int8_t* q;         // (rows, pitch()), `padded` of them used
    int8_t* columns;   // likewise: the same in the order of the columns, for a level that wants both
    float* scales;     // (rows, stride()), padded / 16 or padded / granule of them used, as the level likes
    float* sums;       // likewise: scale * sum of the granule's q, for mins
    int32_t* offsets;  // likewise: what the level's integer sums start from, if it offsets its codes
    int64_t padded;    // columns with padding
    int granule;

    // Never a function of its own: the linker might keep one level's copy for all (blocks.h).
    // One cache line more than needed: rows 4096 bytes apart would share the sets of the nearest cache.
    [[gnu::always_inline]] int64_t pitch() const { return padded + 64; }
    [[gnu::always_inline]] int64_t stride() const { return padded / 16 + 16; }
    [[gnu::always_inline]] int64_t granules() const { return padded / granule; }
};

struct FloatRows {
    const float* x;  // (rows, cols)
    int64_t cols;
};

// One tile of results: out[i * stride + r] for the i-th listed activation row and the r-th weight row.
struct Output {
    float* data;
    int64_t stride;
};

// Which activation rows a tile is multiplied with.
struct RowList {
    const int32_t* rows;
    int64_t count;
};

struct Level {
    const char* name;

    // Columns [first, first + count) of one row, whole blocks of 32, to integers. The caller has zeroed the row's last
    // superblock if it is not full.
    // d = amax / 127, q = round-half-even(x / d); blocks below the smallest normal d are zero; a block with inf or NaN
    // gets d = NaN and q = 0, so that what it touches is NaN.
    void (*quantise)(const float* x, int64_t first, int64_t count, const IntegerRows& out, int64_t row);

    // Weight rows [0, num_rows) of `row_bytes` each, times the listed activations. num_rows <= kTileRows, of floats
    // kFloatTileRows.
    void (*multiply)(const Layout& layout, const uint8_t* weights, int64_t row_bytes, int num_rows, int64_t cols,
                     const IntegerRows& x, RowList list, Output out, uint8_t* scratch);
    void (*multiply_float)(const Layout& layout, const uint8_t* weights, int64_t row_bytes, int num_rows,
                           const FloatRows& x, RowList list, Output out, uint8_t* scratch);
    int64_t (*scratch_bytes)(int64_t cols);  // for either, 64-byte aligned

    // One weight row to float32; scratch as above.
    void (*decode)(const Layout& layout, const uint8_t* weights, int64_t cols, float* out, uint8_t* scratch);

    // h = silu(min(g, limit)) * clamp(u, -limit, limit) * weight
    void (*swiglu)(const float* g, const float* u, int64_t count, float limit, float weight, float* h);
};

extern const Level kScalar;
#if defined(__x86_64__) || defined(_M_X64)
extern const Level kAvx2;
extern const Level kAvx512;
extern const Level kAmx;  // only where WHITEDWARF_AMX is defined: the compiler has to know the tiles
#elif defined(__aarch64__) || defined(_M_ARM64)
extern const Level kNeon;
#endif

// Scalar unpackers, also used by the faster levels for formats they have no own code for.
using Unpack = void (*)(const uint8_t* row, int64_t cols, Unpacked out);
Unpack scalar_unpack(Type type);

}  // namespace whitedwarf
