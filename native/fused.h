// Operations that follow each other in every layer, as one call: what each is made of stays in its own file, and so does
// every result. They save what a call costs (Python, checks, the interpreter lock, waking the threads), which is most of
// a small model's token.
#pragma once

#include <vector>

#include "kernels.h"

namespace whitedwarf {

struct Product {
    MatrixView w;
    float* out;  // (rows, w.rows)
};

// out = x w^T for each product; x (rows, cols), the same cols for all. Few rows meet all weights in one parallel region.
void linears(Kernels& kernels, const float* x, int64_t rows, const std::vector<Product>& products, bool quality);

// x (rows, groups * first.cols) through both matrices (2.3): first in groups, then the second over what they gave.
void grouped_then_linear(Kernels& kernels, const float* x, int64_t rows, const MatrixView& first, int64_t groups,
                         const MatrixView& second, float* out, bool quality);

}  // namespace whitedwarf
