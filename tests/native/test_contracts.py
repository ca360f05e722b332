"""What the native module refuses, and with which words."""

import os
import threading
import time

import numpy as np
import pytest

from native.weights import random_rows, random_weights
from whitedwarf._native import Kernels, Matrix
from whitedwarf.gguf.types import GgmlType

KERNELS = Kernels(1)
WEIGHTS = random_weights(np.random.default_rng(1), GgmlType.Q8_0, (6, 64))
X = random_rows(np.random.default_rng(2), 3, 64)
OUT = np.empty((3, 6), np.float32)


def test_the_best_level_is_the_automatic_one():
    assert KERNELS.level == Kernels.available_levels()[-1]
    assert Kernels.available_levels()[0] == "scalar"


def test_an_unknown_level_lists_what_there_is():
    with pytest.raises(ValueError, match=r"sse9 is not available.*auto or one of: scalar"):
        Kernels(1, "sse9")


def test_zero_threads_means_all_usable_cores():
    assert Kernels(0).threads == len(os.sched_getaffinity(0))


def test_a_negative_number_of_threads_is_refused():
    with pytest.raises(ValueError, match="threads"):
        Kernels(-1)


@pytest.mark.parametrize(
    ("x", "out", "message"),
    [
        (X[:, :32].copy(), OUT, r"x must be \(3, 64\); got \(3, 32\)"),
        (X, np.empty((3, 5), np.float32), r"out must be \(3, 6\); got \(3, 5\)"),
        (X, np.empty((2, 6), np.float32), r"out must be \(3, 6\); got \(2, 6\)"),
    ],
)
def test_wrong_shapes_are_named(x, out, message):
    with pytest.raises(ValueError, match=message):
        KERNELS.linear(x, WEIGHTS.matrix, out, False)


@pytest.mark.parametrize("x", [X.astype(np.float64), X[:, ::-1], X.tolist(), X[0]])
def test_nothing_is_converted_silently(x):
    with pytest.raises(TypeError):
        KERNELS.linear(x, WEIGHTS.matrix, OUT, False)


def test_a_read_only_out_is_refused():
    out = np.empty((3, 6), np.float32)
    out.flags.writeable = False
    with pytest.raises(TypeError):
        KERNELS.linear(X, WEIGHTS.matrix, out, False)


def test_read_only_inputs_are_welcome():
    data = WEIGHTS.data.copy()
    data.flags.writeable = False
    x = X.copy()
    x.flags.writeable = False
    KERNELS.linear(x, Matrix(data, int(GgmlType.Q8_0), (6, 64)), OUT, False)


@pytest.mark.parametrize(
    ("type", "shape", "message"),
    [
        (GgmlType.Q8_0, (6, 65), "Q8_0 rows come in blocks of 32; got 65"),
        (GgmlType.Q8_0, (7, 64), "takes 476 bytes; got 408"),
        (GgmlType.Q8_0, (6,), "got 1 dimensions"),
        (GgmlType.Q8_0, (0, 64), "dimensions are 1 to"),
        (GgmlType.Q8_0, (2**31 - 1, 2**31 - 1, 2**31 - 32), "too many bytes"),
        (GgmlType.I32, (6, 17), "no kernels for GGUF type 26"),
    ],
)
def test_matrices_that_cannot_be_are_refused(type, shape, message):
    with pytest.raises(ValueError, match=message):
        Matrix(WEIGHTS.data, int(type), shape)


def test_a_matrix_keeps_its_bytes_alive():
    data = WEIGHTS.data.copy()
    matrix = Matrix(data, int(GgmlType.Q8_0), (6, 64))
    expected, got = np.empty_like(OUT), np.empty_like(OUT)
    KERNELS.linear(X, matrix, expected, False)
    del data
    np.full(1 << 16, 255, np.uint8)
    KERNELS.linear(X, matrix, got, False)
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("bad", [-1, 6])
def test_ids_outside_the_table_are_refused(bad):
    with pytest.raises(ValueError, match=f"ids must be 0 to 5; got {bad}"):
        KERNELS.embed(WEIGHTS.matrix, np.array([0, bad], np.int32), np.empty((2, 64), np.float32))


def test_a_stack_of_experts_is_no_linear_layer():
    stack = random_weights(np.random.default_rng(3), GgmlType.Q8_0, (2, 3, 64))
    with pytest.raises(ValueError, match="w must be one matrix; got 2 experts"):
        KERNELS.linear(X, stack.matrix, np.empty((3, 3), np.float32), False)


def test_groups_must_divide_the_rows():
    with pytest.raises(ValueError, match="groups must divide w's 6 rows; got 4"):
        KERNELS.grouped_linear(X, WEIGHTS.matrix, OUT, 4, False)


def test_callers_on_two_threads_take_turns():
    kernels = Kernels(2)
    expected = np.empty_like(OUT)
    kernels.linear(X, WEIGHTS.matrix, expected, False)
    results = [np.empty_like(OUT) for _ in range(4)]

    def work(out):
        for _ in range(200):
            kernels.linear(X, WEIGHTS.matrix, out, False)

    threads = [threading.Thread(target=work, args=(out,)) for out in results]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for out in results:
        np.testing.assert_array_equal(out, expected)


def test_idle_workers_sleep():
    kernels = Kernels(4)
    kernels.linear(X, WEIGHTS.matrix, OUT, False)
    time.sleep(0.05)
    before = time.process_time()
    time.sleep(0.2)
    assert time.process_time() - before < 0.05
