"""The shim that runs Metal kernels on the CPU finds what is wrong with them."""

import numpy as np
import pytest

from metal.cases import mx, needs_compiler, on_mlx, shim  # noqa: F401
from metal.shim import has_clang
from whitedwarf.ops.metal.launch import Call, Source, launch

pytestmark = [pytest.mark.mlx, needs_compiler]
HEADER = """
#include <metal_stdlib>
using namespace metal;
inline float first_of(const device float* values) { return values[0]; }
"""
REVERSED = """
threadgroup float shared[64];
const uint i = thread_index_in_threadgroup;
shared[i] = x[i];
BARRIER
y[i] = shared[63 - i];
"""


def run(body: str, x: np.ndarray, threads: int = 64) -> np.ndarray:
    source = Source("trial", ("x",), ("y",), body, HEADER)
    call = Call([on_mlx(x.astype(np.float32))], [(64,)], (threads, 1, 1), (threads, 1, 1), {})
    return np.array(launch(source, call)[0])


def test_threads_meet_at_barriers(shim):  # noqa: F811
    body = REVERSED.replace("BARRIER", "threadgroup_barrier(mem_flags::mem_threadgroup);")
    np.testing.assert_array_equal(run(body, np.arange(64)), np.arange(64)[::-1])


def test_a_forgotten_barrier_reads_what_is_no_number(shim):  # noqa: F811
    assert np.isnan(run(REVERSED.replace("BARRIER", ""), np.arange(64))).sum() >= 32


def test_lanes_of_a_simdgroup_exchange_values(shim):  # noqa: F811
    body = "const uint i = thread_index_in_threadgroup; y[i] = simd_sum(x[i]) + simd_shuffle_xor(x[i], ushort(1));"
    expected = np.repeat([496.0, 1520.0], 32) + (np.arange(64) ^ 1)
    np.testing.assert_array_equal(run(body, np.arange(64)), expected)


def test_writing_behind_an_output_is_told(shim):  # noqa: F811
    with pytest.raises(AssertionError, match="trial writes behind its output y"):
        run("const uint i = thread_index_in_threadgroup; y[i + 1] = x[i];", np.arange(64))


@pytest.mark.skipif(not has_clang(), reason="no clang++ to check address spaces with")
def test_a_small_input_passed_on_as_one_in_device_memory_is_refused(shim):  # noqa: F811
    body = "y[thread_index_in_threadgroup] = first_of(x);"
    assert (run(body, np.arange(8)) == 0).all()
    with pytest.raises(AssertionError, match="no matching function for call to 'first_of'"):
        run(body, np.arange(7))  # MLX passes less than eight numbers as constant


def test_what_mlx_writes_around_a_kernel_is_what_is_run(shim):  # noqa: F811
    run("y[thread_index_in_threadgroup] = x[0] + x_shape[0];", np.arange(9))
    [text] = shim._texts.values()
    assert "[[kernel]] void custom_kernel_trial" in text
    assert "const constant int* x_shape [[buffer(1)]]" in text
