// The operations of a layer that touch what sequences remember, over all spans of a pass at once: rows go into the
// sequences' own buffers here, so that nothing but a call per layer is left to do outside.
//
// A span's results are those of the operation alone (operations.h): the company changes who computes them, never what.
// The buffers belong to the caller, who made room for the pass (model/rows.py says how they are kept).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "operations.h"
#include "scratch.h"

namespace whitedwarf {

// Rows first .. of a sequence as they lie in memory.
struct Held {
    const uint8_t* data;
    int64_t first;
    int64_t count;
};

// The newest rows of a sequence: row 0 of the buffer stands for `first`, and all before the next position are held. More
// rows at once than the slack between `keep` and `capacity` are joined with the old ones outside, and their end is kept.
struct Newest {
    uint8_t* data;
    int64_t capacity;
    int64_t keep;
    int64_t first;
    int64_t row_bytes;

    // Puts rows at `index`. The result lies in the buffer or in `joined`. Throws std::invalid_argument without room.
    Held put(int64_t index, const uint8_t* rows, int64_t num_rows, Scratch& joined);
};

// Rows that are only appended.
struct Appended {
    uint8_t* data;
    int64_t capacity;
    int64_t row_bytes;
};

struct PooledBuffers {
    Newest values, gates;
    Appended rows;
};

struct LayerBuffers {
    Newest window;
    std::optional<PooledBuffers> pools[2];  // what attention reads, what the indexer scores
};

// One sequence's buffers, all layers.
using Buffers = std::vector<LayerBuffers>;

// Rows [row, row + count) of the batch are a sequence's tokens from position `start` on.
struct Span {
    Buffers* buffers;
    int64_t row;
    int64_t count;
    int64_t start;

    int64_t end() const { return start + count; }
};

struct SpanPool {
    const float* values;  // (n, width) of all spans
    const float* gates;   // (n, width)
    int64_t width;
    int ratio;
    const float* ape;
    const float* norm;
    const float* turns;  // (windows, half, 2), span after span
    int half;
    double epsilon;
    RowFormat format;
};
void pool_spans(const Machine& machine, const std::vector<Span>& spans, int layer, int pool, const SpanPool& in);

// `pick` is of all rows of the batch; its keys are left out.
void pick_spans(const Machine& machine, const std::vector<Span>& spans, int layer, RowFormat format,
                const IndexPick& pick);

// `attention` is of all rows of the batch; its window and compressed rows are left out. `rows` are the new ones (n,
// row_bytes). Where counts or picked rows are given, the layer keeps compressed ones.
void attend_spans(const Machine& machine, const std::vector<Span>& spans, int layer, RowFormat format,
                  const uint8_t* rows, const Attention& attention);

}  // namespace whitedwarf
