"""Methods of Kernels beside the matrix products: what they refuse, and with which words."""

import threading

import numpy as np
import pytest

from whitedwarf._native import Kernels

KERNELS = Kernels(1)
F32, F16, PACKED_KV, PACKED_KEY, PACKED_KV_F16 = (Kernels.RowFormat(kind, 64, 16) for kind in range(5))


def floats(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def rows(count: int, format: Kernels.RowFormat) -> np.ndarray:
    return np.zeros((count, format.row_bytes), np.uint8)


def test_rows_have_the_bytes_of_the_fact_sheet():
    assert Kernels.RowFormat(2, 512, 64).row_bytes == 711
    assert Kernels.RowFormat(4, 512, 64).row_bytes == 583
    assert Kernels.RowFormat(3, 128, 64).row_bytes == 68


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((5, 64, 16), "row kind must be 0 to 4"),
        ((0, 0, 0), "dims must be 1 to 4096"),
        ((2, 64, 15), "rope_dims must be even"),
        ((2, 64, 66), "rope_dims must be even and at most 64"),
        ((3, 96, 16), "packed keys have a power of two of dims"),
        ((3, 16, 16), "packed keys have a power of two of dims"),
    ],
)
def test_impossible_formats_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Kernels.RowFormat(*arguments)


@pytest.mark.parametrize(
    ("x", "weight", "out"),
    [
        (np.ones((2, 8)), floats(8), floats(2, 8)),
        (floats(2, 16)[:, ::2], floats(8), floats(2, 8)),
        (floats(8, 2).T, floats(8), floats(2, 8)),
        (floats(2, 8), floats(8), np.ones((2, 8))),
    ],
)
def test_other_dtypes_and_layouts_are_never_converted(x, weight, out):
    with pytest.raises(TypeError):
        KERNELS.rms_norm(x, weight, 1e-6, out)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: KERNELS.rms_norm(floats(8), floats(8), 1e-6, floats(8)), "x must have 2 dimensions"),
        (lambda: KERNELS.rms_norm(floats(2, 8), floats(7), 1e-6, floats(2, 8)), r"weight must be \(8\); got \(7\)"),
        (lambda: KERNELS.rms_norm(floats(2, 8), floats(8), 1e-6, floats(3, 8)), r"out must be \(2, 8\); got \(3, 8\)"),
        (
            lambda: KERNELS.hyper_out(floats(2, 9, 8), floats(2, 8), floats(2, 9), floats(2, 9, 9), floats(2, 9, 8)),
            "streams must be 1 to 8; got 9",
        ),
        (lambda: KERNELS.query(floats(2, 130), 2, floats(2, 40, 2), 1e-6, floats(2, 2, 65)), "turns must turn at most"),
        (lambda: KERNELS.query(floats(2, 131), 2, floats(2, 8, 2), 1e-6, floats(2, 2, 65)), "x must be"),
        (lambda: KERNELS.query(floats(3, 64), 1, floats(2, 8, 2), 1e-6, floats(2, 1, 64)), "x must be"),
        (lambda: KERNELS.encode_rows(floats(2, 63), F32, rows(2, F32)), r"x must be \(2, 64\); got \(2, 63\)"),
        (lambda: KERNELS.encode_rows(floats(2, 64), F16, rows(2, F32)), r"out must be \(2, 128\)"),
        (
            lambda: KERNELS.decode_rows(rows(2, F32), PACKED_KV_F16, floats(2, 64)),
            r"data must be \(2, 81\)",
        ),
        (
            lambda: KERNELS.index_query(floats(1, 48), 1, floats(1, 8, 2), True, floats(1, 1, 48)),
            "queries beside packed keys have a power of two",
        ),
        (
            lambda: KERNELS.index_pick(
                floats(1, 2, 32), floats(1, 2), rows(3, F32), F32, np.ones(1, np.int32), np.ones((1, 2), np.int32)
            ),
            r"queries must be \(1, 2, 64\)",
        ),
        (
            lambda: KERNELS.route(
                floats(1, 4), None, None, np.zeros(1, np.int32), 1.0, True, np.zeros((1, 5), np.int32), floats(1, 5)
            ),
            "experts used must be 1 to 4; got 5",
        ),
        (
            lambda: KERNELS.route(
                floats(1, 4),
                None,
                np.full((9, 2), 4, np.int32),
                np.zeros(1, np.int32),
                1.0,
                True,
                np.zeros((1, 2), np.int32),
                floats(1, 2),
            ),
            "table entries must be 0 to 3; got 4",
        ),
    ],
)
def test_wrong_shapes_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def attend(window_first: int = 0, compressed_first: int = 0, **arrays: np.ndarray | None) -> None:
    """One query at position 0 over one row of the window and one picked row, unless told otherwise."""
    positions, picked = np.zeros(1, np.int32), arrays.pop("picked", np.zeros((1, 1), np.int32))
    KERNELS.attention(
        floats(1, 2, 64), rows(1, F16), F16, window_first, rows(1, F16), F16, compressed_first,
        arrays.pop("positions", positions), 128, arrays.pop("counts", None), picked,
        floats(2), floats(1, 8, 2), floats(1, 128),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: KERNELS.query(np.ones((), np.float32), 1, floats(1, 0, 2), 1e-6, floats(1, 1, 1)), "x must be"),
        (lambda: KERNELS.query(floats(1, 64), 1 << 32, floats(1, 8, 2), 1e-6, floats(1, 1, 64)), "heads must be"),
        (
            lambda: KERNELS.hyper_out(
                floats(0, (1 << 32) + 4, 0), floats(0, 0), floats(0, 4), floats(0, 4, 4), floats(0, 4, 0)
            ),
            "streams must be 1 to 8",
        ),
        (lambda: attend(window_first=2**63 - 1), "first must be 0 to 2"),
        (lambda: attend(compressed_first=-1), "first must be 0 to 2"),
        (lambda: attend(positions=np.ones(1, np.int32)), "window must hold positions 0 to 1; it holds 0 to 0"),
        (lambda: attend(positions=np.full(1, -1, np.int32)), "window must hold positions"),
        (lambda: attend(picked=np.ones((1, 1), np.int32)), "picked rows must be 0 to 0 or -1; got 1"),
        (lambda: attend(picked=None, counts=np.full(1, 2, np.int32)), "counts must be 0 to 1; got 2"),
    ],
)
def test_numbers_that_would_lead_outside_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(("first", "first_group"), [(0, 2**62), (2**63 - 1, 0), (-1, 0), (0, -1), (4, 0), (0, 1)])
def test_groups_outside_the_values_are_refused(first, first_group):
    values, out = floats(4, 64), rows(1, F16)
    with pytest.raises(ValueError, match=r"first must be 0|end_group must be 0|groups must be 0|values must cover"):
        KERNELS.compress(
            values, values, first, first_group, first_group + 1, 4, values, floats(64), floats(1, 8, 2), 1e-6, F16, out
        )


@pytest.mark.parametrize("name", ["counts", "picked"])
def test_optional_arrays_are_not_converted_either(name):
    with pytest.raises(TypeError):
        attend(**{name: np.zeros((1, 1) if name == "picked" else 1, np.int64)})


def test_attention_without_counts_or_picks_of_its_compressed_rows_is_refused():
    with pytest.raises(ValueError, match="compressed rows need counts or picked rows"):
        KERNELS.attention(
            floats(1, 2, 64), rows(1, F16), F16, 0, rows(1, F16), F16, 0, np.zeros(1, np.int32), 128, None, None,
            floats(2), floats(1, 8, 2), floats(1, 128),
        )  # fmt: skip


def test_two_python_threads_may_share_the_kernels():
    kernels, x = Kernels(2), np.random.default_rng(0).standard_normal((300, 4096)).astype(np.float32)
    outs = [np.zeros_like(x) for _ in range(4)]
    threads = [threading.Thread(target=kernels.rms_norm, args=(x, floats(4096), 1e-6, out)) for out in outs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((out == outs[0]).all() for out in outs)
    assert outs[0].any()
