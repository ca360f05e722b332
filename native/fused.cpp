#include "fused.h"

#include <algorithm>
#include <memory>
#include <numeric>

namespace whitedwarf {

namespace {

constexpr int64_t kFewRows = 8;  // more have work enough for a region each, and kernels of their own

std::unique_ptr<float[]> unset_floats(int64_t count) { return std::make_unique_for_overwrite<float[]>(size_t(count)); }

// x in the forms that several weights want: as it is, or as integers for granules of 16 and 32.
class Forms {
public:
    Forms(Kernels& kernels, const float* x, int64_t rows, bool quality)
        : kernels_(kernels), x_(x), rows_(rows), quality_(quality) {}

    const Activations& of(const MatrixView& w) {
        const int granule = quality_ ? 0 : w.layout->granule;
        for (const auto& form : forms_)
            if (form.integers.granule == granule) return form;
        forms_.push_back(kernels_.prepare(x_, rows_, w, quality_, scratch()[forms_.size()]));
        return forms_.back();
    }

private:
    static Scratch* scratch() {
        thread_local Scratch buffers[3];
        return buffers;
    }

    Kernels& kernels_;
    const float* x_;
    int64_t rows_;
    bool quality_;
    std::vector<Activations> forms_;
};

int64_t num_tiles(const MatrixView& w) { return (w.rows + kTileRows - 1) / kTileRows; }

void few_linears(Kernels& kernels, const float* x, int64_t rows, const std::vector<Product>& products, bool quality) {
    Forms forms(kernels, x, rows, quality);
    std::vector<Activations> inputs;
    std::vector<int64_t> begins;  // of each product's tiles
    int64_t tiles = 0, scratch_bytes = 0;
    for (const Product& product : products) {
        inputs.push_back(forms.of(product.w));
        begins.push_back(tiles);
        tiles += num_tiles(product.w);
        scratch_bytes = std::max(scratch_bytes, kernels.level().scratch_bytes(product.w.cols));
    }
    int32_t list[kFewRows];
    std::iota(list, list + rows, 0);
    kernels.reserve_thread_scratch(scratch_bytes);
    kernels.pool().split(tiles, [&](int64_t begin, int64_t end, int thread) {
        for (int64_t item = begin; item < end; ++item) {
            const auto i = size_t(std::upper_bound(begins.begin(), begins.end(), item) - begins.begin() - 1);
            const auto& [w, out] = products[i];
            const int64_t row = (item - begins[i]) * kTileRows;
            kernels.multiply_tile(w, 0, row, int(std::min<int64_t>(kTileRows, w.rows - row)), inputs[i], {list, rows},
                                  {out + row, w.rows}, kernels.thread_scratch(thread));
        }
    });
}

}  // namespace

void linears(Kernels& kernels, const float* x, int64_t rows, const std::vector<Product>& products, bool quality) {
    if (rows <= kFewRows && products.size() > 1) return few_linears(kernels, x, rows, products, quality);
    for (const Product& product : products) kernels.linear(x, rows, product.w, 1, product.out, quality);
}

void grouped_then_linear(Kernels& kernels, const float* x, int64_t rows, const MatrixView& first, int64_t groups,
                         const MatrixView& second, float* out, bool quality) {
    const auto middle = unset_floats(rows * first.rows);
    kernels.linear(x, rows, first, groups, middle.get(), quality);
    kernels.linear(middle.get(), rows, second, 1, out, quality);
}

}  // namespace whitedwarf
