// Checks of arrays' shapes and indices that the binding files share: std::invalid_argument says what was expected.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

#include "bindings.h"
#include "operations.h"

namespace whitedwarf {

template <typename T>
using Array = nb::ndarray<T, nb::c_contig, nb::device::cpu>;
using Floats = Array<const float>;
using FloatsOut = Array<float>;
using Ints = Array<const int32_t>;
using IntsOut = Array<int32_t>;
using Bytes = Array<const uint8_t>;
using BytesOut = Array<uint8_t>;

// A message is put together when it is needed, and only then: these checks stand before every operation of every layer.
inline void add_text(std::string& text, const char* part) { text += part; }
inline void add_text(std::string& text, const std::string& part) { text += part; }
inline void add_text(std::string& text, int64_t part) { text += std::to_string(part); }
template <typename T>
void add_text(std::string& text, const Array<T>& part) {
    text += '(';
    for (size_t i = 0; i < part.ndim(); ++i) text += (i ? ", " : "") + std::to_string(part.shape(i));
    text += ')';
}

template <typename... Parts>
void require(bool holds, const Parts&... parts) {
    if (holds) return;
    std::string text;
    (add_text(text, parts), ...);
    throw std::invalid_argument(text);
}

template <typename T>
bool has_shape(const Array<T>& array, std::initializer_list<int64_t> expected) {
    if (array.ndim() != expected.size()) return false;
    for (size_t i = 0; i < array.ndim(); ++i)
        if (int64_t(array.shape(i)) != expected.begin()[i]) return false;
    return true;
}

template <typename T>
void check(const char* name, const Array<T>& array, std::initializer_list<int64_t> expected) {
    if (has_shape(array, expected)) return;
    std::string text;
    for (int64_t size : expected) text += (text.empty() ? "(" : ", ") + std::to_string(size);
    require(false, name, " must be ", text.c_str(), "); got ", array);
}

template <typename T>
void check_ndim(const char* name, const Array<T>& array, size_t ndim) {
    require(array.ndim() == ndim, name, " must have ", int64_t(ndim), " dimensions; got ", array);
}

inline void check_range(const char* name, const int32_t* values, int64_t count, int64_t low, int64_t high) {
    for (int64_t i = 0; i < count; ++i)
        require(values[i] >= low && values[i] <= high, name, " must be ", low, " to ", high, "; got ", values[i]);
}

// Positions and row numbers are 32 bits wide in arrays; so narrow, sums and products of them fit into 64.
inline void check_position(const char* name, int64_t value) {
    require(value >= 0 && value <= std::numeric_limits<int32_t>::max(), name, " must be 0 to 2^31 - 1; got ", value);
}

constexpr int64_t kMaxHeads = 1 << 16;

inline int checked_heads(int64_t heads) {
    require(heads >= 1 && heads <= kMaxHeads, "heads must be 1 to 65536; got ", heads);
    return int(heads);
}

inline Machine machine(Kernels& kernels) { return {kernels.pool(), row_level(kernels.level().name)}; }

// x is (n, heads * dims) or (n, heads, dims).
inline Query make_query(const Floats& x, int64_t heads, const Floats& turns) {
    check_ndim("turns", turns, 3);
    const int64_t n = int64_t(turns.shape(0)), half = int64_t(turns.shape(1));
    check("turns", turns, {n, half, 2});
    const int num_heads = checked_heads(heads);
    const int64_t dims = n == 0 ? 0 : int64_t(x.size()) / n / heads;
    require(x.ndim() >= 2 && int64_t(x.size()) == n * heads * dims && int64_t(x.shape(0)) == n, "x must be (", n, ", ",
            heads, " * dims); got ", x);
    require(n == 0 || (dims >= 1 && 2 * half <= dims), "turns must turn at most the ", dims, " dims of a head; got ",
            turns);
    return {x.data(), n, num_heads, dims, turns.data(), int(half)};
}

// (n, half, 2) turns for rows of `format`; returns half.
inline int check_turns(const Floats& turns, int64_t n, const RowFormat& format) {
    check_ndim("turns", turns, 3);
    const int64_t half = int64_t(turns.shape(1));
    check("turns", turns, {n, half, 2});
    require(2 * half <= format.dims, "turns must turn at most ", format.dims, " dims; got ", turns);
    return int(half);
}

inline HyperShape hyper_shape(const Floats& streams) {
    check_ndim("streams", streams, 3);
    const int64_t num_streams = int64_t(streams.shape(1));
    require(num_streams >= 1 && num_streams <= kMaxStreams, "streams must be 1 to 8; got ", num_streams);
    return {int64_t(streams.shape(0)), int(num_streams), int64_t(streams.shape(2))};
}

inline HyperProduct hyper_product(Kernels& self, const Floats& streams, const Matrix& mix, int64_t mixes, bool quality) {
    const HyperShape shape = hyper_shape(streams);
    const MatrixView& view = mix.view;
    require(view.experts == 1 && view.rows == mixes && view.cols == shape.num_streams * shape.dims,
            "mix must be (", mixes, ", ", shape.num_streams * shape.dims, "); got (", view.rows, ", ", view.cols, ")");
    return {self, streams.data(), view, quality};
}

}  // namespace whitedwarf
