"""Attention of the native backend over every kind of stored row, against the reference in float64."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ops.cases import CPU, KV_KINDS, LEVELS, REFERENCE, Draw, assert_close, exact
from whitedwarf.ops.base import RowFormat, RowKind, Rows, Visible

levels = st.sampled_from(LEVELS)


def assert_like_reference(level, queries, window, compressed, visible, sinks, turns):
    out = CPU[level].attention(queries, window, compressed, visible, sinks, turns)
    expected = REFERENCE.attention(exact(queries), window, compressed, visible, exact(sinks), exact(turns))
    assert_close(out, expected)


def picked_rows(draw: Draw, counts: np.ndarray, top: int) -> np.ndarray:
    """Ascending random rows below each count, padded with -1."""
    picked = np.full((len(counts), top), -1, np.int32)
    for row, count in zip(picked, counts, strict=True):
        size = min(top, int(count))
        row[:size] = np.sort(draw.rng.choice(int(count), size, replace=False))
    return picked


@settings(max_examples=60, deadline=None)
@given(
    levels,
    st.integers(0, 2**32 - 1),
    st.integers(1, 20),
    st.integers(1, 64),
    st.sampled_from([64, 128, 256]),
    st.sampled_from([16, 32, 64]),
    st.sampled_from([16, 32, 128]),
    st.sampled_from(KV_KINDS),
    st.sampled_from(["none", "counts", "picked"]),
)
def test_attention(level, seed, n, heads, dims, rope, length, kind, seen):
    draw, format = Draw.seeded(seed), RowFormat(kind, dims, rope)
    start = int(draw.rng.integers(0, 300))
    first = int(draw.rng.integers(0, max(1, start - length + 2)))
    window = draw.rows(start + n - first, format, first)
    positions = np.arange(start, start + n, dtype=np.int32)
    compressed, counts = None, None
    if seen != "none":
        counts = np.sort(draw.rng.integers(0, 150, n)).astype(np.int32)
        compressed = draw.rows(150, format)
    visible = Visible(positions, length, counts, picked_rows(draw, counts, 40) if seen == "picked" else None)
    queries, sinks, turns = draw.floats(n, heads, dims), draw.floats(heads), draw.turns(n, rope)
    assert_like_reference(level, queries, window, compressed, visible, sinks, turns)


@pytest.mark.parametrize("level", LEVELS)
def test_attention_of_a_pro_layer(level):
    draw, format = Draw.seeded(7), RowFormat(RowKind.PACKED_KV_F16, 512, 64)
    counts = np.array([1400, 1401], np.int32)
    visible = Visible(np.array([5601, 5605], np.int32), 128, counts, picked_rows(draw, counts, 300))
    window, compressed = draw.rows(200, format, 5450), draw.rows(1401, format)
    queries, sinks, turns = draw.floats(2, 128, 512), draw.floats(128), draw.turns(2, 64)
    assert_like_reference(level, queries, window, compressed, visible, sinks, turns)


@pytest.mark.parametrize("level", LEVELS)
def test_thousands_of_compressed_rows_take_several_rounds(level):
    draw, format = Draw.seeded(8), RowFormat(RowKind.F16, 64, 16)
    visible = Visible(np.array([20], np.int32), 128, np.array([5000], np.int32))
    window, compressed = draw.rows(21, format), draw.rows(5000, format)
    queries, sinks, turns = draw.floats(1, 5, 64), draw.floats(5), draw.turns(1, 16)
    assert_like_reference(level, queries, window, compressed, visible, sinks, turns)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("size", [1e-3, 30, 1e4])
def test_scores_of_any_size_neither_overflow_nor_vanish(level, size):
    draw, format = Draw.seeded(9), RowFormat(RowKind.F32, 64, 16)
    window, compressed = draw.rows(40, format), draw.rows(200, format)
    visible = Visible(np.array([39, 39], np.int32), 32, np.array([200, 65], np.int32))
    queries, sinks = draw.floats(2, 4, 64) * np.float32(size), draw.floats(4) * np.float32(size)
    turns = draw.turns(2, 16)
    out = CPU[level].attention(queries, window, compressed, visible, sinks, turns)
    expected = REFERENCE.attention(exact(queries), window, compressed, visible, exact(sinks), exact(turns))
    # a score of size s is rounded by s * 2^-24, and its share by as much relatively
    assert_close(out, expected, 1e-5 * max(1, size / 30))


@pytest.mark.parametrize("level", LEVELS)
def test_the_offset_of_the_window_changes_no_bit(level):
    draw, format = Draw.seeded(10), RowFormat(RowKind.PACKED_KV_F16, 128, 64)
    window = draw.rows(300, format)
    visible = Visible(np.arange(290, 300, dtype=np.int32), 128)
    queries, sinks, turns = draw.floats(10, 6, 128), draw.floats(6), draw.turns(10, 64)
    whole = CPU[level].attention(queries, window, None, visible, sinks, turns)
    for first in (1, 64, 163):
        part = Rows(format, window.data[first:], first)
        assert (CPU[level].attention(queries, part, None, visible, sinks, turns) == whole).all()


def test_all_rows_picked_is_the_same_as_all_rows_counted():
    draw, format = Draw.seeded(11), RowFormat(RowKind.PACKED_KV_F16, 128, 64)
    window, compressed = draw.rows(30, format), draw.rows(70, format)
    counts = np.array([64, 70], np.int32)
    visible = Visible(np.array([28, 29], np.int32), 16, counts)
    picked = replace(visible, picked=picked_rows(draw, counts, 90))
    inputs = draw.floats(2, 3, 128), window, compressed
    rest = draw.floats(3), draw.turns(2, 64)
    for ops in CPU.values():
        assert (ops.attention(*inputs, visible, *rest) == ops.attention(*inputs, picked, *rest)).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"positions": np.array([29, 30], np.int32)}, "window must hold positions"),
        ({"window": 20}, "window must hold positions"),
        ({"counts": np.array([5, 71], np.int32)}, "counts must be 0 to 70"),
        ({"picked": np.array([[0, 1], [2, 70]], np.int32)}, "picked rows must be"),
        ({"counts": np.array([5], np.int32)}, r"counts must be \(2\)"),
    ],
)
def test_rows_that_are_not_there_are_refused(change, message):
    draw, format = Draw.seeded(12), RowFormat(RowKind.PACKED_KV_F16, 64, 16)
    window, compressed = draw.rows(20, format, 10), draw.rows(70, format)
    visible = Visible(np.array([28, 29], np.int32), 16, np.array([5, 70], np.int32))
    with pytest.raises(ValueError, match=message):
        CPU["scalar"].attention(
            draw.floats(2, 3, 64), window, compressed, replace(visible, **change), draw.floats(3), draw.turns(2, 16)
        )
