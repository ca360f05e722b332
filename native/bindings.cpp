// The Python module: Matrix and Kernels. Checks every shape, then works without the GIL.
#include "bindings.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <limits>

namespace whitedwarf {
namespace {

using namespace nb::literals;

std::string text(int64_t value) { return std::to_string(value); }

std::vector<int64_t> dimensions(const nb::tuple& shape) {
    std::vector<int64_t> result;
    for (auto item : shape) result.push_back(nb::cast<int64_t>(item));
    if (result.size() == 2) result.insert(result.begin(), 1);
    if (result.size() != 3)
        throw std::invalid_argument("a Matrix is (rows, cols) or (experts, rows, cols); got " +
                                    text(int64_t(nb::len(shape))) + " dimensions");
    for (int64_t size : result)
        if (size < 1 || size > std::numeric_limits<int32_t>::max())
            throw std::invalid_argument("a Matrix's dimensions are 1 to 2^31 - 1; got " + text(size));
    return result;
}

void make_matrix(Matrix* self, BytesIn1 data, int type, nb::tuple shape) {
    MatrixView view = matrix_view(type, shape);
    if (view.size_bytes() != int64_t(data.shape(0)))
        throw std::invalid_argument(std::string(view.layout->name) + " matrix of this shape takes " +
                                    text(view.size_bytes()) + " bytes; got " + text(int64_t(data.shape(0))));
    view.data = data.data();
    new (self) Matrix{std::move(data), view, std::move(shape)};
}

const Level& find_level(const std::string& name) {
    const auto levels = available_levels();
    if (name == "auto") return *levels.back();
    std::string names;
    for (const Level* level : levels) {
        if (name == level->name) return *level;
        names += std::string(names.empty() ? "" : ", ") + level->name;
    }
    throw std::invalid_argument("level " + name + " is not available on this CPU; choose auto or one of: " + names);
}

void make_kernels(Kernels* self, int threads, const std::string& level) {
    if (threads < 0 || threads > 1024)
        throw std::invalid_argument("threads is 0 (all cores) to 1024; got " + text(threads));
    new (self) Kernels(threads ? threads : usable_cores(), find_level(level));
}

void check_plain(const char* name, const Matrix& w) {
    if (w.view.experts != 1)
        throw std::invalid_argument(std::string(name) + " must be one matrix; got " + text(w.view.experts) +
                                    " experts");
}

void check_ids(const int32_t* ids, int64_t count, int64_t limit) {
    for (int64_t i = 0; i < count; ++i)
        if (ids[i] < 0 || ids[i] >= limit)
            throw std::invalid_argument("ids must be 0 to " + text(limit - 1) + "; got " + text(ids[i]));
}

// Rows are numbered with 32 bits.
void check_pairs(const char* what, int64_t rows, int64_t each) {
    if (rows > std::numeric_limits<int32_t>::max() / each)
        throw std::invalid_argument(std::string("rows times ") + what + " must be below 2^31; got " + text(rows) +
                                    " times " + text(each));
}

void grouped_linear(Kernels& self, FloatsIn2 x, const Matrix& w, FloatsOut2 out, int64_t groups, bool quality) {
    check_plain("w", w);
    if (groups < 1 || w.view.rows % groups)
        throw std::invalid_argument("groups must divide w's " + text(w.view.rows) + " rows; got " + text(groups));
    const int64_t rows = int64_t(x.shape(0));
    check_shape("x", x, rows, groups * w.view.cols);
    check_pairs("groups", rows, groups);
    check_shape("out", out, rows, w.view.rows);
    run_unlocked(self, [&] { self.linear(x.data(), rows, w.view, groups, out.data(), quality); });
}

void linear(Kernels& self, FloatsIn2 x, const Matrix& w, FloatsOut2 out, bool quality) {
    grouped_linear(self, std::move(x), w, std::move(out), 1, quality);
}

void embed(Kernels& self, const Matrix& w, IntsIn1 ids, FloatsOut2 out) {
    check_plain("w", w);
    const int64_t count = int64_t(ids.shape(0));
    check_shape("out", out, count, w.view.cols);
    check_ids(ids.data(), count, w.view.rows);
    run_unlocked(self, [&] { self.decode_rows(w.view, ids.data(), count, out.data()); });
}

void dequantize(Kernels& self, const Matrix& w, FloatsOut2 out) {
    const int64_t rows = w.view.experts * w.view.rows;
    check_shape("out", out, rows, w.view.cols);
    run_unlocked(self, [&] { self.decode_rows(w.view, nullptr, rows, out.data()); });
}

void quantize_activations(Kernels& self, FloatsIn2 x, nb::ndarray<int8_t, nb::ndim<2>, nb::c_contig, nb::device::cpu> q,
                          FloatsOut2 scales) {
    const int64_t rows = int64_t(x.shape(0)), cols = int64_t(x.shape(1));
    if (cols % kActivationBlock) throw std::invalid_argument("x must have a multiple of 32 columns; got " + text(cols));
    check_shape("q", q, rows, cols);
    check_shape("scales", scales, rows, cols / kActivationBlock);
    run_unlocked(self, [&] { self.quantise_in_order(x.data(), rows, cols, q.data(), scales.data()); });
}

uint64_t read_all(Kernels& self, BytesIn1 bytes) {
    uint64_t result = 0;
    run_unlocked(self, [&] { result = self.read_all(bytes.data(), int64_t(bytes.shape(0))); });
    return result;
}

std::vector<std::string> level_names() {
    std::vector<std::string> names;
    for (const Level* level : available_levels()) names.emplace_back(level->name);
    return names;
}

}  // namespace

MatrixView matrix_view(int type, const nb::tuple& shape) {
    const int index = layout_index(type);
    if (index < 0) throw std::invalid_argument("no kernels for GGUF type " + text(type));
    const auto sizes = dimensions(shape);
    const Layout& layout = kLayouts[index];
    if (sizes[2] % layout.block)
        throw std::invalid_argument(std::string(layout.name) + " rows come in blocks of " + text(layout.block) +
                                    "; got " + text(sizes[2]) + " columns");
    const MatrixView view{&layout, nullptr, sizes[0], sizes[1], sizes[2]};
    // In double: three large dimensions can overflow 64 bits.
    if (double(sizes[0]) * double(sizes[1]) * double(view.row_bytes()) > 9e18)
        throw std::invalid_argument(std::string(layout.name) + " matrix of this shape takes too many bytes");
    return view;
}

NB_MODULE(_native, module) {
    nb::set_leak_warnings(false);  // Kernels kept by a module until the interpreter ends are nobody's mistake
    module.doc() = "Matrix products on GGUF weights (native/level.h states the arithmetic).";

    nb::class_<Matrix>(module, "Matrix", "Weights as they lie in the file: (rows, cols) or (experts, rows, cols).")
        .def("__init__", make_matrix, "data"_a.noconvert(), "type"_a, "shape"_a)
        .def_prop_ro("type", [](const Matrix& self) { return int(self.view.layout->type); })
        .def_prop_ro("shape", [](const Matrix& self) { return self.shape; });

    nb::class_<Kernels> kernels(module, "Kernels", "A thread pool and the kernels of one CPU level.");
    kernels.def("__init__", make_kernels, "threads"_a = 0, "level"_a = "auto")
        .def_static("available_levels", level_names, "Levels this CPU can run, best last.")
        .def_prop_ro("level", [](const Kernels& self) { return std::string(self.level().name); })
        .def_prop_ro("threads", [](Kernels& self) { return self.pool().threads(); })
        .def("linear", linear, "x"_a.noconvert(), "w"_a, "out"_a.noconvert(), "quality"_a,
             "out = x w^T; x (n, in), w (out, in), out (n, out).")
        .def("grouped_linear", grouped_linear, "x"_a.noconvert(), "w"_a, "out"_a.noconvert(), "groups"_a, "quality"_a,
             "Group g's rows of w with group g's columns of x; x (n, groups * in), w (groups * out, in).")
        .def("embed", embed, "w"_a, "ids"_a.noconvert(), "out"_a.noconvert(), "Rows of w as float32.")
        .def("dequantize", dequantize, "w"_a, "out"_a.noconvert(), "All rows of w as float32.")
        .def("quantize_activations", quantize_activations, "x"_a.noconvert(), "q"_a.noconvert(), "scales"_a.noconvert(),
             "The int8 form of activations, in order: blocks of 32, scale = amax / 127.");
    kernels.def("read_all", read_all, "bytes"_a.noconvert(),
                "Read every byte with all threads; returns the xor of its 8-byte words (a tail below 8 is left out).");
    bind_experts(module, kernels);
    bind_attention(kernels);
    bind_spans(kernels);
    bind_fused(kernels);
    bind_peaks(kernels);
    bind_quantize(kernels);
    bind_text(module);
    bind_segments(module);
}

}  // namespace whitedwarf
