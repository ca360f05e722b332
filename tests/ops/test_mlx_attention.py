"""Attention of the MLX twins over every kind of stored row, against the reference in float64."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ops.cases import KV_KINDS, REFERENCE, Draw, assert_close, assert_same_bits, exact
from ops.mlx_cases import MLX
from ops.test_cpu_attention import picked_rows
from whitedwarf.ops.base import RowFormat, RowKind, Rows, Visible

pytestmark = pytest.mark.mlx


@settings(max_examples=40)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 40),
    st.integers(1, 20),
    st.sampled_from([64, 128]),
    st.sampled_from([16, 32, 64]),
    st.sampled_from([16, 32, 100]),
    st.sampled_from(KV_KINDS),
    st.sampled_from(["none", "counts", "picked"]),
)
def test_attention(seed, n, heads, dims, rope, length, kind, seen):
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
    out = MLX.attention(queries, window, compressed, visible, sinks, turns)
    expected = REFERENCE.attention(exact(queries), window, compressed, visible, exact(sinks), exact(turns))
    assert_close(out, expected)


@pytest.mark.parametrize("size", [1e-3, 30, 1e4])
def test_scores_of_any_size_neither_overflow_nor_vanish(size):
    draw, format = Draw.seeded(9), RowFormat(RowKind.F32, 64, 16)
    window, compressed = draw.rows(40, format), draw.rows(200, format)
    visible = Visible(np.array([39, 39], np.int32), 32, np.array([200, 65], np.int32))
    queries, sinks = draw.floats(2, 4, 64) * np.float32(size), draw.floats(4) * np.float32(size)
    turns = draw.turns(2, 16)
    out = MLX.attention(queries, window, compressed, visible, sinks, turns)
    expected = REFERENCE.attention(exact(queries), window, compressed, visible, exact(sinks), exact(turns))
    # a score of size s is rounded by s * 2^-24, and its share by as much relatively
    assert_close(out, expected, 1e-5 * max(1, size / 30))


def test_neither_the_offset_of_the_window_nor_more_rows_change_a_bit():
    draw, format = Draw.seeded(10), RowFormat(RowKind.PACKED_KV, 128, 64)
    window, compressed = draw.rows(300, format), draw.rows(150, format)
    visible = Visible(np.arange(290, 300, dtype=np.int32), 100, np.arange(60, 70, dtype=np.int32))
    queries, sinks, turns = draw.floats(10, 6, 128), draw.floats(6), draw.turns(10, 64)
    whole = MLX.attention(queries, window, compressed, visible, sinks, turns)
    for first, num_rows in ((1, 70), (64, 128), (163, 129)):
        part, pooled = Rows(format, window.data[first:], first), Rows(format, compressed.data[:num_rows], 0)
        assert_same_bits(MLX.attention(queries, part, pooled, visible, sinks, turns), whole)


def test_without_any_compressed_row_the_window_is_all_there_is():
    draw, format = Draw.seeded(14), RowFormat(RowKind.PACKED_KV, 128, 64)
    window, none = draw.rows(3, format), Rows(format, np.empty((0, format.row_bytes), np.uint8), 0)
    queries, sinks, turns = draw.floats(2, 3, 128), draw.floats(3), draw.turns(2, 64)
    visible = Visible(np.array([1, 2], np.int32), 32)
    counted = replace(visible, counts=np.zeros(2, np.int32))
    expected = MLX.attention(queries, window, None, visible, sinks, turns)
    assert_same_bits(MLX.attention(queries, window, none, counted, sinks, turns), expected)


def test_a_query_s_result_has_the_same_bits_in_any_company():
    draw, format = Draw.seeded(13), RowFormat(RowKind.PACKED_KV, 64, 16)
    window, compressed = draw.rows(60, format), draw.rows(15, format)
    counts = np.arange(1, 61, dtype=np.int32) // 4
    visible = Visible(np.arange(60, dtype=np.int32), 32, counts, picked_rows(draw, counts, 10))
    queries, sinks, turns = draw.floats(60, 3, 64), draw.floats(3), draw.turns(60, 16)
    whole = MLX.attention(queries, window, compressed, visible, sinks, turns)
    for rows in (slice(0, 1), slice(13, 50), slice(40, 60)):
        part = MLX.attention(queries[rows], window, compressed, visible.of(rows), sinks, turns[rows])
        assert_same_bits(part, whole[rows])


def test_all_rows_picked_is_the_same_as_all_rows_counted():
    draw, format = Draw.seeded(11), RowFormat(RowKind.PACKED_KV_F16, 128, 64)
    window, compressed = draw.rows(30, format), draw.rows(70, format)
    counts = np.array([64, 70], np.int32)
    visible = Visible(np.array([28, 29], np.int32), 16, counts)
    picked = replace(visible, picked=picked_rows(draw, counts, 90))
    inputs = draw.floats(2, 3, 128), window, compressed
    rest = draw.floats(3), draw.turns(2, 64)
    assert_close(MLX.attention(*inputs, visible, *rest), exact(MLX.attention(*inputs, picked, *rest)), 1e-6)
