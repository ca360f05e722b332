// What the binding files share. bindings.cpp makes the classes; bindings_experts.cpp, bindings_attention.cpp,
// bindings_spans.cpp, bindings_fused.cpp and bindings_quantize.cpp add methods to Kernels; bindings_text.cpp and
// bindings_segments.cpp make what has nothing to do with them.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <unistd.h>

#include <exception>
#include <stdexcept>
#include <string>
#include <vector>
#if defined(__GLIBCXX__)
#include <cxxabi.h>
#endif

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

// The matrices of experts that lie apart: some are here, others are not. Keeps alive what is here.
struct ScatteredMatrix {
    MatrixView view;
    nb::tuple shape;
    std::vector<const uint8_t*> apart;  // by expert, null = not here
    std::vector<BytesIn1> bytes;        // by expert
    int num_users = 0;                  // calls that are reading it, counted under the GIL
};

// What a GGUF type and a shape, (rows, cols) or (experts, rows, cols), say of a matrix whose bytes are elsewhere.
MatrixView matrix_view(int type, const nb::tuple& shape);

// nanobind turns std::invalid_argument into ValueError.
template <typename Array>
void check_shape(const char* name, const Array& array, int64_t rows, int64_t cols) {
    if (int64_t(array.shape(0)) == rows && int64_t(array.shape(1)) == cols) return;
    throw std::invalid_argument(std::string(name) + " must be (" + std::to_string(rows) + ", " + std::to_string(cols) +
                                "); got (" + std::to_string(array.shape(0)) + ", " + std::to_string(array.shape(1)) +
                                ")");
}

// Takes the GIL back. A thread that comes back after the interpreter has gone is ended by Python, and unwinding through
// C++ would end the process with it: such a thread sleeps instead, as every thread does from Python 3.14 on.
inline void take_gil(PyThreadState* state) {
#if defined(__GLIBCXX__)
    try {
        PyEval_RestoreThread(state);
    } catch (abi::__forced_unwind&) {
        for (;;) pause();
    }
#else
    PyEval_RestoreThread(state);
#endif
}

// Runs `body` without the GIL.
template <typename Body>
void without_gil(const Body& body) {
    std::exception_ptr failure;
    PyThreadState* state = PyEval_SaveThread();
    try {
        body();
    } catch (...) {
        failure = std::current_exception();
    }
    take_gil(state);
    if (failure) std::rethrow_exception(failure);
}

// Runs `body` without the GIL and alone in the pool.
template <typename Body>
void run_unlocked(Kernels& kernels, const Body& body) {
    if (kernels.pool().has_lost_threads())
        throw std::runtime_error(
            "these Kernels were made before this process was forked, and their threads stayed behind; make new ones");
    without_gil([&] {
        std::lock_guard<std::mutex> alone(kernels.mutex());
        body();
    });
}

void bind_experts(nb::module_& module, nb::class_<Kernels>& kernels);
void bind_attention(nb::class_<Kernels>& kernels);
void bind_spans(nb::class_<Kernels>& kernels);
void bind_fused(nb::class_<Kernels>& kernels);
void bind_peaks(nb::class_<Kernels>& kernels);
void bind_quantize(nb::class_<Kernels>& kernels);
void bind_text(nb::module_& module);
void bind_segments(nb::module_& module);

}  // namespace whitedwarf
