// Float products of many activation rows, blocked for the caches: written once, around one register tile per level.
//
// Weights are decoded once per kChunkInputs activation rows, some columns at a time, to where the second cache holds
// them; activations stay in the first one while all weight rows pass. The sums of a pair of rows are the sixteen lanes
// of level.h; between two blocks of columns they wait in memory, so the order of additions is that of one long loop.
// Internal linkage: see blocks.h.
#pragma once

#include "arithmetic.h"

namespace whitedwarf {

constexpr int kPanelColumns = 512;  // columns at a time: 2 KB of a row
constexpr int kPanelInputs = 8;     // activation rows in the first cache
constexpr int kManyInputs = 8;      // fewer activation rows do not repay the decoding

constexpr int64_t kPanelFloats =
    (kFloatTileRows + kPanelInputs) * kPanelColumns + int64_t(kFloatTileRows) * kChunkInputs * kFloatLanes;
constexpr int64_t kPanelBytes = int64_t(sizeof(float)) * kPanelFloats;

static inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int smaller(int a, int b) { return a < b ? a : b; }

// Tile, of internal linkage, has kRows and kInputs, and
//   add(w, x, cols, lanes): kRows weight rows kPanelColumns apart, kInputs activation rows, whole sixteens of columns;
//                           lanes[row][input][16] += products
//   copy(x, cols, to): any number of columns
//   finish(lanes, results): results[input][row] = the tree sums
// Decode is decode(row, first, count, out): columns of one weight row as floats.
template <typename Tile, typename Decode>
class FloatPanels {
public:
    // `scratch` has kPanelBytes.
    FloatPanels(int num_rows, const FloatRows& x, RowList list, Output out, uint8_t* scratch, const Decode& decode)
        : num_rows_(num_rows),
          strips_((num_rows + Tile::kRows - 1) / Tile::kRows),
          x_(x),
          list_(list),
          out_(out),
          weights_(reinterpret_cast<float*>(scratch)),
          inputs_(weights_ + kFloatTileRows * kPanelColumns),
          lanes_(inputs_ + kPanelInputs * kPanelColumns),
          decode_(decode) {}

    void multiply() {
        for (int64_t first = 0; first < list_.count; first += kChunkInputs)
            multiply_chunk(first, int(smaller(int64_t(kChunkInputs), list_.count - first)));
    }

private:
    static constexpr int kTogether = kPanelInputs / Tile::kInputs;  // tiles of activations in the first cache
    static constexpr int kLanes = Tile::kRows * Tile::kInputs * kFloatLanes;  // of one tile

    void multiply_chunk(int64_t first, int inputs) {
        const int tiles = (inputs + Tile::kInputs - 1) / Tile::kInputs;
        // Rows that fill up the last tile repeat the last one; what they give is not stored.
        const float* rows[kChunkInputs];
        for (int i = 0; i < tiles * Tile::kInputs; ++i)
            rows[i] = x_.x + list_.rows[first + smaller(i, inputs - 1)] * x_.cols;
        std::memset(lanes_, 0, sizeof(float) * tiles * strips_ * kLanes);
        for (int64_t k = 0; k < x_.cols; k += kPanelColumns) {
            const int64_t cols = smaller(int64_t(kPanelColumns), x_.cols - k);
            for (int r = 0; r < strips_ * Tile::kRows; ++r)
                decode_(smaller(r, num_rows_ - 1), k, cols, weights_ + r * kPanelColumns);
            add_columns(rows, tiles, k, cols);
        }
        store(first, inputs, tiles);
    }

    // In the order of add_columns.
    float* lanes(int tile, int strip, int tiles) const {
        const int first = tile / kTogether * kTogether, together = smaller(kTogether, tiles - first);
        return lanes_ + (int64_t(first) * strips_ + strip * together + tile - first) * kLanes;
    }

    void add_columns(const float* const* rows, int tiles, int64_t k, int64_t cols) const {
        const int64_t whole = cols / kFloatLanes * kFloatLanes;
        for (int first = 0; first < tiles; first += kTogether) {
            const int end = smaller(first + kTogether, tiles);
            for (int i = first * Tile::kInputs; i < end * Tile::kInputs; ++i)
                Tile::copy(rows[i] + k, cols, inputs_ + (i - first * Tile::kInputs) * kPanelColumns);
            for (int strip = 0; strip < strips_; ++strip)
                for (int tile = first; tile < end; ++tile) {
                    const float* in = inputs_ + (tile - first) * Tile::kInputs * kPanelColumns;
                    const float* w = weights_ + strip * Tile::kRows * kPanelColumns;
                    Tile::add(w, in, whole, lanes(tile, strip, tiles));
                    if (whole < cols) add_rest(w, in, whole, cols, lanes(tile, strip, tiles));
                }
        }
    }

    static void add_rest(const float* w, const float* in, int64_t begin, int64_t end, float* lanes) {
        for (int r = 0; r < Tile::kRows; ++r)
            for (int t = 0; t < Tile::kInputs; ++t, lanes += kFloatLanes)
                for (int64_t k = begin; k < end; ++k) {
                    float& lane = lanes[k - begin];
                    lane = __builtin_fmaf(w[r * kPanelColumns + k], in[t * kPanelColumns + k], lane);
                }
    }

    void store(int64_t first, int inputs, int tiles) const {
        for (int input = 0; input < inputs; input += Tile::kInputs)
            for (int strip = 0; strip < strips_; ++strip) {
                const int row = strip * Tile::kRows;
                const int rows = smaller(num_rows_ - row, Tile::kRows);
                const int count = smaller(inputs - input, Tile::kInputs);
                float results[Tile::kInputs * Tile::kRows];
                Tile::finish(lanes(input / Tile::kInputs, strip, tiles), results);
                for (int t = 0; t < count; ++t)
                    for (int r = 0; r < rows; ++r)
                        out_.data[(first + input + t) * out_.stride + row + r] = results[t * Tile::kRows + r];
            }
    }

    int num_rows_, strips_;
    FloatRows x_;
    RowList list_;
    Output out_;
    float *weights_, *inputs_, *lanes_;
    const Decode& decode_;
};

template <typename Tile, typename Decode>
static inline void multiply_panels(int num_rows, const FloatRows& x, RowList list, Output out, uint8_t* scratch,
                                   const Decode& decode) {
    FloatPanels<Tile, Decode>(num_rows, x, list, out, scratch, decode).multiply();
}

}  // namespace whitedwarf
