// Matrix products in tiles of 32 weight rows, split over the threads.
#include <algorithm>
#include <numeric>

#include "kernels.h"

namespace whitedwarf {
namespace {

void clear_last_superblock(const IntegerRows& x, int64_t row) {
    for (int8_t* values : {x.q, x.columns})
        std::fill_n(values + row * x.pitch() + x.padded - kSuperblock, kSuperblock, int8_t(0));
    // A level may use 16 entries per superblock or one per granule: the last superblock's, either way.
    for (int64_t s = (x.padded - kSuperblock) / x.granule; s < x.padded / 16; ++s) {
        x.scales[row * x.stride() + s] = x.sums[row * x.stride() + s] = 0.0f;
        x.offsets[row * x.stride() + s] = 0;
    }
}

// How a product is cut into work items.
struct Cut {
    int64_t height;  // weight rows
    int64_t inputs;  // activation rows

    Cut(int64_t weight_rows, int64_t activation_rows, bool is_float, int threads)
        : height(kTileRows), inputs(std::max<int64_t>(activation_rows, 1)) {
        // With few activation rows there is no tile to build, so small matrices may be cut finer.
        while (activation_rows <= 2 && height > 4 && weight_rows < height * threads * 4) height /= 2;
        if (!is_float || activation_rows < kChunkInputs / 4) return;
        height = kFloatTileRows;
        inputs = kChunkInputs;
        while (inputs > kChunkInputs / 4 && pieces(weight_rows, height) * pieces(activation_rows, inputs) < threads * 4)
            inputs /= 2;
    }
};

}  // namespace

void Kernels::reserve_thread_scratch(int64_t bytes) {
    for (auto& scratch : scratch_) scratch.reserve(bytes);
}

IntegerRows Kernels::reserve_integers(Scratch& scratch, int64_t rows, int64_t cols, int granule) {
    IntegerRows result{nullptr, nullptr, nullptr, nullptr, nullptr, padded_columns(cols), granule};
    const int64_t values = aligned(rows * result.pitch());
    const int64_t each = aligned(rows * result.stride() * int64_t(sizeof(float)));
    uint8_t* at = scratch.reserve(2 * values + 3 * each);
    result.columns = reinterpret_cast<int8_t*>(at);
    result.q = reinterpret_cast<int8_t*>(at += values);
    result.scales = reinterpret_cast<float*>(at + values);
    result.sums = reinterpret_cast<float*>(at + values + each);
    result.offsets = reinterpret_cast<int32_t*>(at + values + 2 * each);
    for (int64_t row = 0; cols < result.padded && row < rows; ++row) clear_last_superblock(result, row);
    return result;
}

void Kernels::quantise(const float* x, int64_t rows, int64_t cols, const IntegerRows& out) {
    pool_.split(rows, [&](int64_t begin, int64_t end, int) {
        for (int64_t row = begin; row < end; ++row) level_.quantise(x + row * cols, 0, cols, out, row);
    });
}

void Kernels::quantise_in_order(const float* x, int64_t rows, int64_t cols, int8_t* q, float* scales) {
    const IntegerRows target = reserve_integers(input_, 1, cols, kActivationBlock);
    for (int64_t row = 0; row < rows; ++row) {
        kScalar.quantise(x + row * cols, 0, cols, target, 0);
        std::copy_n(target.q, cols, q + row * cols);
        std::copy_n(target.scales, cols / kActivationBlock, scales + row * (cols / kActivationBlock));
    }
}

Activations Kernels::prepare(const float* x, int64_t rows, const MatrixView& w, bool quality, Scratch& scratch) {
    Activations result{{x, w.cols}, {}};
    if (quality || w.layout->granule == 0) return result;
    result.integers = reserve_integers(scratch, rows, w.cols, w.layout->granule);
    quantise(x, rows, w.cols, result.integers);
    return result;
}

void Kernels::multiply_tile(const MatrixView& w, int64_t expert, int64_t first_row, int num_rows, const Activations& x,
                            RowList list, Output out, uint8_t* scratch) const {
    const uint8_t* weights = w.row(expert, first_row);
    if (x.integers.granule)
        level_.multiply(*w.layout, weights, w.row_bytes(), num_rows, w.cols, x.integers, list, out, scratch);
    else
        level_.multiply_float(*w.layout, weights, w.row_bytes(), num_rows, x.floats, list, out, scratch);
}

void Kernels::linear(const float* x, int64_t rows, const MatrixView& w, int64_t groups, float* out, bool quality) {
    const Activations input = prepare(x, rows * groups, w, quality, input_);
    const int64_t group_rows = w.rows / groups;
    const Cut cut(w.rows, rows, input.integers.granule == 0, pool_.threads());
    const int64_t tiles = pieces(group_rows, cut.height), chunks = pieces(rows, cut.inputs);
    // Row r of x, group g, is row r * groups + g of `input`.
    auto* lists = reinterpret_cast<int32_t*>(lists_.reserve(rows * groups * int64_t(sizeof(int32_t))));
    for (int64_t g = 0; g < groups; ++g)
        for (int64_t r = 0; r < rows; ++r) lists[g * rows + r] = int32_t(r * groups + g);
    reserve_thread_scratch(level_.scratch_bytes(w.cols));
    pool_.split(groups * chunks * tiles, [&](int64_t begin, int64_t end, int thread) {
        for (int64_t item = begin; item < end; ++item) {
            const int64_t group = item / (chunks * tiles), first = item / tiles % chunks * cut.inputs;
            const int64_t row = item % tiles * cut.height;
            const int num_rows = int(std::min(cut.height, group_rows - row));
            const RowList list{lists + group * rows + first, std::min(cut.inputs, rows - first)};
            multiply_tile(w, 0, group * group_rows + row, num_rows, input, list,
                          {out + first * w.rows + group * group_rows + row, w.rows}, thread_scratch(thread));
        }
    });
}

void Kernels::decode_rows(const MatrixView& w, const int32_t* ids, int64_t count, float* out) {
    reserve_thread_scratch(level_.scratch_bytes(w.cols));
    pool_.split(count, [&](int64_t begin, int64_t end, int thread) {
        for (int64_t i = begin; i < end; ++i)
            level_.decode(*w.layout, w.row(0, ids ? ids[i] : i), w.cols, out + i * w.cols, thread_scratch(thread));
    });
}

}  // namespace whitedwarf
