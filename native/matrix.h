// A weight matrix, or a stack of them (one per expert), as it lies in the file or each where it happens to lie. Owns
// nothing.
#pragma once

#include "blocks.h"

namespace whitedwarf {

// How many pieces of `each` make up `total`; the last may be smaller.
static inline int64_t pieces(int64_t total, int64_t each) { return (total + each - 1) / each; }

struct MatrixView {
    const Layout* layout;
    const uint8_t* data;  // null where `apart` says where they lie
    int64_t experts;      // 1 for a plain matrix
    int64_t rows;
    int64_t cols;
    const uint8_t* const* apart = nullptr;  // (experts,): each expert's matrix, null where it is not here

    int64_t row_bytes() const { return cols / layout->block * layout->bytes; }
    int64_t matrix_bytes() const { return rows * row_bytes(); }
    const uint8_t* row(int64_t expert, int64_t index) const {
        return (apart ? apart[expert] : data + expert * matrix_bytes()) + index * row_bytes();
    }
    int64_t size_bytes() const { return experts * matrix_bytes(); }
};

}  // namespace whitedwarf
