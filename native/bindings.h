// What the binding files share. bindings.cpp makes the classes; bindings_attention.cpp adds its methods to Kernels.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <stdexcept>
#include <string>

#include "kernels.h"

namespace whitedwarf {

namespace nb = nanobind;

// Arguments take these with .noconvert(): a wrong dtype or layout is a TypeError, never a silent copy.
using FloatsIn1 = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using FloatsIn2 = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using FloatsOut2 = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using IntsIn1 = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using IntsIn2 = nb::ndarray<const int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using BytesIn1 = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// A weight matrix that keeps its bytes alive.
struct Matrix {
    BytesIn1 bytes;
    MatrixView view;
    nb::tuple shape;
};

// nanobind turns std::invalid_argument into ValueError.
template <typename Array>
void check_shape(const char* name, const Array& array, int64_t rows, int64_t cols) {
    if (int64_t(array.shape(0)) == rows && int64_t(array.shape(1)) == cols) return;
    throw std::invalid_argument(std::string(name) + " must be (" + std::to_string(rows) + ", " + std::to_string(cols) +
                                "); got (" + std::to_string(array.shape(0)) + ", " + std::to_string(array.shape(1)) +
                                ")");
}

// Runs `body` without the GIL and alone in the pool.
template <typename Body>
void run_unlocked(Kernels& kernels, const Body& body) {
    nb::gil_scoped_release released;
    std::lock_guard<std::mutex> alone(kernels.mutex());
    body();
}

void bind_attention(nb::class_<Kernels>& kernels);

}  // namespace whitedwarf
