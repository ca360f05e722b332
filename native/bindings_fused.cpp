// Methods of Kernels that do several operations of a layer in one call. Each checks what its parts would check.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <limits>
#include <memory>
#include <optional>

#include "bindings_checks.h"
#include "fused.h"

namespace whitedwarf {
namespace {

using namespace nb::literals;

void check_plain(const char* name, const MatrixView& w, int64_t rows, int64_t cols) {
    require(w.experts == 1 && w.rows == rows && w.cols == cols, name, " must be (", rows, ", ", cols, "); got (",
            w.experts, ", ", w.rows, ", ", w.cols, ")");
}

// Rows times groups are numbered with 32 bits.
void check_pairs(int64_t rows, int64_t groups) {
    require(rows <= std::numeric_limits<int32_t>::max() / groups, "rows times groups must be below 2^31; got ", rows,
            " times ", groups);
}

void linears_rows(Kernels& self, Floats x, std::optional<Floats> norm, double epsilon, nb::list weights, nb::list outs,
                  bool quality) {
    check_ndim("x", x, 2);
    const int64_t rows = int64_t(x.shape(0)), cols = int64_t(x.shape(1));
    check_pairs(rows, 1);
    if (norm) check("norm", *norm, {cols});
    require(nb::len(weights) == nb::len(outs), "weights and outs must be as many; got ", int64_t(nb::len(weights)),
            " and ", int64_t(nb::len(outs)));
    std::vector<Product> products;
    for (size_t i = 0; i < nb::len(weights); ++i) {
        const MatrixView& w = nb::cast<const Matrix&>(weights[i]).view;
        const auto out = nb::cast<FloatsOut>(outs[i], false);
        check_plain("weight", w, w.rows, cols);
        check("out", out, {rows, w.rows});
        products.push_back({w, out.data()});
    }
    run_unlocked(self, [&] {
        if (!norm) return linears(self, x.data(), rows, products, quality);
        const auto normed = std::make_unique_for_overwrite<float[]>(size_t(rows * cols));
        rms_norm(machine(self), x.data(), norm->data(), epsilon, rows, cols, normed.get());
        linears(self, normed.get(), rows, products, quality);
    });
}

void grouped_then_linear_rows(Kernels& self, Floats x, const Matrix& first, int64_t groups, const Matrix& second,
                              FloatsOut out, bool quality) {
    check_ndim("x", x, 2);
    const int64_t rows = int64_t(x.shape(0));
    const MatrixView &w1 = first.view, &w2 = second.view;
    require(w1.experts == 1 && groups >= 1 && w1.rows % groups == 0, "groups must divide first's ", w1.rows,
            " rows; got ", groups);
    check_pairs(rows, groups);
    check("x", x, {rows, groups * w1.cols});
    check_plain("second", w2, w2.rows, w1.rows);
    check("out", out, {rows, w2.rows});
    run_unlocked(self, [&] { grouped_then_linear(self, x.data(), rows, w1, groups, w2, out.data(), quality); });
}

}  // namespace

void bind_fused(nb::class_<Kernels>& kernels) {
    kernels
        .def("linears", linears_rows, "x"_a.noconvert(), "norm"_a.noconvert().none(), "epsilon"_a, "weights"_a,
             "outs"_a, "quality"_a, "linear with each of the weights; where norm is given, of x / rms * norm.")
        .def("grouped_then_linear", grouped_then_linear_rows, "x"_a.noconvert(), "first"_a, "groups"_a, "second"_a,
             "out"_a.noconvert(), "quality"_a, "grouped_linear, then linear.");
}

}  // namespace whitedwarf
