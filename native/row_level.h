// The table of row kernels one CPU level provides: everything of a layer that is not a plain matmul.
//
// Promise: every level gives the same bits, but for attention over packed rows at the amx level (amx/attention.h). The
// order of every sum is fixed here; the scalar level is the definition.
//   dot product     acc[k mod 16] = fma(a[k], b[k], acc[k mod 16]), then halves added until one is left
//   weighted sum    out[k] = fma(share, row[k], out[k]), rows in their order
//   sum of squares  acc[k mod 8] += double(x[k])^2, then halves added
// A row's result therefore depends on that row only: not on the batch, the tile or the thread that met it.
#pragma once

#include <cstdint>

#include "rows.h"

namespace whitedwarf {

constexpr int kFloatKeys = 64;    // keys that attention in floats takes at once; softmax is rescaled between such blocks
constexpr int kAttendKeys = 128;  // the most that any takes

struct StoredRow {
    const RowFormat* format;
    const uint8_t* bytes;
};

// Heads of one query that attention works on, and how far they have come.
struct Heads {
    const float* queries;   // (count, dims)
    uint8_t* taken;         // query_bytes for a level's own forms of them and of `out`
    int count;
    float* top;  // (count,) largest score so far, or so
    float* sum;  // (count,) sum of exp(score - top)
    float* out;  // (count, dims) sum of exp(score - top) * key, unless the level has it elsewhere until it is finished
};

// Attention over rows of one shape, `format` that of the window. Queries and keys are read in forms of the level's own,
// made once and met often; both lie 64-byte aligned. dims is a multiple of 16.
struct AttendKernels {
    int head_unit;   // heads that it takes at once; threads share a query by multiples of it
    int block_keys;  // keys that it takes at once, at most kAttendKeys; they count from a query's own first key

    // Zero heads.out, or what the level has in its place; form the queries. query_bytes: 0 where floats serve.
    int64_t (*query_bytes)(int heads, const RowFormat& format);
    void (*start)(const Heads& heads, const RowFormat& format);

    // A block of at most block_keys keys.
    int64_t (*block_bytes)(const RowFormat& format);
    void (*take_keys)(const StoredRow* rows, int num_keys, const RowFormat& format, uint8_t* block);

    // Take a block into every head. scores: (count, block_keys) of scratch.
    void (*attend)(const Heads& heads, const uint8_t* block, int num_keys, const RowFormat& format, float scale,
                   float* scores);

    // heads.out, times 1 / heads.sum.
    void (*finish)(const Heads& heads, const RowFormat& format);
};

// One index query, beside packed keys as exact integers: blocks of 32 with power-of-two scales.
struct IndexQuery {
    const float* values;   // (heads, dims)
    const float* weights;  // (heads,)
    int heads;
    int dims;
    const int8_t* codes;  // (heads, dims) twice the e2m1 values; per 8 dims the even ones, then the odd ones; or null
    const float* scales;  // (heads, dims / 32), a quarter of the powers of two (both factors are doubled)
    const int32_t* sums;  // (heads, dims / 32): sum of the codes, for levels that offset the keys' side

    // The same with one scale for all of a head's blocks, where they lie near each other (index_query.h); or null.
    const int8_t* aligned;         // (heads, dims), up to 96
    const float* factors;          // (heads,): weight times scale
    const int32_t* aligned_sums;   // (heads,)
};

// Consecutive positions of one window that pooling reads; rows lie `stride` values apart.
struct PoolWindow {
    const float* values;
    const float* gates;
    const float* ape;
    int64_t stride;  // of values and gates, and of ape
    int count;
};

struct RowLevel {
    const char* name;

    void (*decode_row)(const RowFormat& format, const uint8_t* row, float* out);

    // What an index query becomes beside packed keys: rotated and rounded to FP4, in place.
    void (*round_like_keys)(float* x, int dims);

    double (*sum_squares)(const float* x, int64_t count);

    // x / rms * weight (null = 1), then the last 2 * half values turned pairwise by (cos, sin); rounded at the end.
    void (*norm_turn)(const float* x, const float* weight, const float* turns, int64_t dims, int half, double epsilon,
                      float* out);

    // out = sum over s of pre[s] * streams[s]
    void (*mix_streams)(const float* streams, const float* pre, int num_streams, int64_t dims, float* out);

    // out[k] = post[k] * output + sum over j of combination[j][k] * streams[j]; at most 8 streams, out may be streams
    void (*spread_streams)(const float* streams, const float* output, const float* post, const float* combination,
                           int num_streams, int64_t dims, float* out);

    // Per channel: softmax of gate + ape over the rows of all windows, weighted sum of the values.
    void (*pool_rows)(const PoolWindow* windows, int num_windows, int64_t dims, float* out);

    // What attention over rows of these formats runs on.
    const AttendKernels& (*attend_kernels)(const RowFormat& window, const RowFormat& compressed);

    // scores[k] = sum over heads of weight * max(0, query . key): of float keys (num_keys, dims) ...
    void (*score_floats)(const IndexQuery& query, const float* keys, int64_t num_keys, float* scores);
    // ... and of packed keys `stride` bytes apart, exact up to the sums over blocks and heads.
    void (*score_packed)(const IndexQuery& query, const uint8_t* keys, int64_t stride, int64_t num_keys, float* scores);
    // The same of several queries that have codes; query q's go to scores + q * pitch.
    void (*score_block)(const IndexQuery* queries, int num_queries, const uint8_t* keys, int64_t stride,
                        int64_t num_keys, float* scores, int64_t pitch);

    // The numbers of the best `top` < count of the scores, ascending; of equal ones the lowest. Overwrites the scores.
    void (*pick_best)(float* scores, int64_t count, int64_t top, int32_t* out);
};

extern const RowLevel kScalarRows;
#if defined(__x86_64__) || defined(_M_X64)
extern const RowLevel kAvx2Rows;
extern const RowLevel kAvx512Rows;
const RowLevel& amx_rows();  // those of avx512, but for attention over packed rows and index scores
#elif defined(__aarch64__) || defined(_M_ARM64)
extern const RowLevel kNeonRows;
#endif

// The row kernels beside the matmul kernels of that name.
const RowLevel& row_level(const char* name);

}  // namespace whitedwarf
