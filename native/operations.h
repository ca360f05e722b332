// The operations of one layer that are not plain matmuls: what ops/base.py says of each, over pointers.
//
// Arguments are already checked (bindings_attention.cpp). n = rows of the batch; results go into the caller's memory.
// Each is a loop over rows, spread over the threads, around the kernels of one RowLevel.
#pragma once

#include <cstdint>

#include "kernels.h"
#include "row_level.h"

namespace whitedwarf {

// Where operations run: the threads and the kernels.
struct Machine {
    Pool& pool;
    const RowLevel& level;
};

// Stored rows of one sequence.
struct StoredRows {
    RowFormat format;
    const uint8_t* data;
    int64_t count;
    int64_t first;  // what row 0 stands for

    const uint8_t* row(int64_t i) const { return data + i * int64_t(format.row_bytes()); }
};

void rms_norm(const Machine& machine, const float* x, const float* weight, double epsilon, int64_t n, int64_t dims,
              float* out);

// hyper.cpp: the hyper-connections around a sub-layer, and the final mix (fact sheet 2.2, 2.8).
struct HyperShape {
    int64_t n;
    int num_streams;
    int64_t dims;
};
constexpr int kMaxStreams = 8;

// The product that a mix starts from: mix . streams, streams not normed.
struct HyperProduct {
    Kernels& kernels;
    const float* streams;  // (n, S, D)
    const MatrixView& mix;  // (2 S + S S, S D), or (S, S D) of the head
    bool quality;
};

struct HyperIn {
    HyperProduct product;
    const float* base;      // (2 S + S S,)
    const float* scale;     // (3,)
    const float* norm;      // (D,)
    double rms_epsilon;
    double epsilon;
    int iterations;
    float* out;          // (n, D)
    float* post;         // (n, S)
    float* combination;  // (n, S, S)
};
void hyper_in(const Machine& machine, const HyperShape& shape, const HyperIn& in);

// out may be streams.
void hyper_out(const Machine& machine, const HyperShape& shape, const float* streams, const float* output,
               const float* post, const float* combination, float* out);

struct HyperHead {
    HyperProduct product;
    const float* base;  // (S,)
    float scale;
    const float* norm;  // (D,)
    double rms_epsilon;
    double epsilon;
    float* out;  // (n, D)
};
void hyper_head(const Machine& machine, const HyperShape& shape, const HyperHead& head);

// attention.cpp: queries, and attention over stored rows (2.3).
struct Query {
    const float* x;  // (n, heads, dims)
    int64_t n;
    int heads;
    int64_t dims;
    const float* turns;  // (n, half, 2)
    int half;
};
void query(const Machine& machine, const Query& query, double epsilon, float* out);

struct Attention {
    Query queries;  // turns are those of the queries, undone on the output
    StoredRows window;
    StoredRows compressed;  // count 0: none
    const int32_t* positions;  // (n,)
    int64_t window_length;
    const int32_t* counts;  // (n,) or null
    const int32_t* picked;  // (n, num_picked) or null
    int64_t num_picked;
    const float* sinks;  // (heads,)
    float* out;          // (n, heads, dims)
};
void attention(const Machine& machine, const Attention& attention);

// stored.cpp: rows on their way into and out of the cache (2.3, 2.4, 2.7).
struct KvRows {
    const float* x;      // (n, dims)
    int64_t n;
    const float* norm;   // (dims,)
    const float* turns;  // (n, half, 2)
    int half;
    double epsilon;
    RowFormat format;
    uint8_t* out;  // (n, row_bytes)
};
void kv_rows(const Machine& machine, const KvRows& rows);
void encode_rows(const Machine& machine, const RowFormat& format, const float* x, int64_t n, uint8_t* out);
void decode_rows(const Machine& machine, const StoredRows& rows, float* out);

// compress.cpp (2.4).
struct Compress {
    const float* values;  // (m, width) of positions first ..
    const float* gates;   // (m, width)
    int64_t width;        // dims, or 2 dims where windows overlap
    int64_t first;
    int64_t first_group;
    int64_t end_group;
    int ratio;
    const float* ape;    // (ratio, width)
    const float* norm;   // (dims,)
    const float* turns;  // (groups, half, 2)
    int half;
    double epsilon;
    RowFormat format;
    uint8_t* out;  // (groups, row_bytes)
};
void compress(const Machine& machine, const Compress& compress);

// index.cpp: the indexer (2.5).
void index_query(const Machine& machine, const Query& query, bool is_packed, float* out);

struct IndexPick {
    const float* queries;  // (n, heads, dims)
    const float* weights;  // (n, heads)
    int64_t n;
    int heads;
    StoredRows keys;
    const int32_t* counts;  // (n,)
    int64_t top;
    int32_t* out;  // (n, top)
};
void index_pick(const Machine& machine, const IndexPick& pick);

// route.cpp (2.6).
struct Route {
    const float* logits;  // (n, num_experts)
    int64_t n;
    int64_t num_experts;
    const float* bias;     // (num_experts,) or null
    const int32_t* table;  // (vocabulary, num_used) or null
    const int32_t* ids;    // (n,)
    int num_used;
    double scale;
    bool is_normalised;
    int32_t* experts;  // (n, num_used)
    float* weights;    // (n, num_used)
};
void route(const Machine& machine, const Route& route);

}  // namespace whitedwarf
