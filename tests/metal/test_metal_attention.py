"""Attention on Metal, run on the CPU, against the reference in float64."""

from dataclasses import replace

import numpy as np
import pytest

from metal.cases import kernels, needs_compiler, on_mlx  # noqa: F401
from ops.cases import KV_KINDS, REFERENCE, Draw, assert_close, assert_same_bits, exact
from ops.test_cpu_attention import picked_rows
from whitedwarf.ops.base import RowFormat, RowKind, Rows, Visible
from whitedwarf.ops.metal.attention import attention

pytestmark = [pytest.mark.mlx, needs_compiler]


def run(queries, window: Rows, compressed: Rows | None, visible: Visible, sinks, turns) -> np.ndarray:
    optional = [None if x is None else on_mlx(x) for x in (visible.counts, visible.picked)]
    rows = None if compressed is None else on_mlx(compressed.data)
    queries, data, positions, sinks, turns = map(on_mlx, (queries, window.data, visible.positions, sinks, turns))
    seen = positions, visible.window, *optional
    return np.array(attention(queries, data, window.first, rows, window.format, *seen, sinks, turns))


@pytest.mark.parametrize(
    ("kind", "n", "seen"),
    [
        *((kind, 2, "counts") for kind in KV_KINDS),
        (RowKind.PACKED_KV, 1, "none"),
        (RowKind.PACKED_KV, 2, "picked"),
        (RowKind.PACKED_KV, 17, "counts"),
    ],
)
def test_attention(kernels, kind, n, seen):  # noqa: F811
    draw, format = Draw.seeded(n), RowFormat(kind, 96, 16)  # a block of 64, and one of 16
    start, length, heads = 30, 70, 9
    window = draw.rows(start + n, format)
    compressed, counts = None, None
    if seen != "none":
        counts = np.arange(81 - n, 81, dtype=np.int32)
        compressed = draw.rows(85, format)
    picked = picked_rows(draw, counts, 66) if seen == "picked" else None
    visible = Visible(np.arange(start, start + n, dtype=np.int32), length, counts, picked)
    queries, sinks, turns = draw.floats(n, heads, 96), draw.floats(heads), draw.turns(n, 16)
    expected = REFERENCE.attention(exact(queries), window, compressed, visible, exact(sinks), exact(turns))
    assert_close(run(queries, window, compressed, visible, sinks, turns), expected)
    assert kernels.launched == ["attention_part", "attention_join"]


def test_every_code_and_scale_is_read_like_the_reference_reads_it(kernels):  # noqa: F811
    """One key, of weight one where the sink has none: what comes out is the row."""
    format = RowFormat(RowKind.PACKED_KV, 96, 16)
    rows = np.zeros((2, format.row_bytes), np.uint8)
    rows[0, :80] = np.arange(80)
    rows[1, :80] = np.arange(80, 160)
    rows[:, :80][rows[:, :80] & 127 == 127] = 0
    rows[:, 80:82] = [[127, 120], [130, 1]]
    rows[:, 82:] = Draw.seeded(1).floats(2, 16).view(np.uint8)
    window, turns = Rows(format, rows, 5), np.zeros((2, 8, 2), np.float32)
    turns[..., 0] = 1
    visible = Visible(np.array([5, 6], np.int32), 1)
    sinks = np.full(1, -1e30, np.float32)
    out = run(np.zeros((2, 1, 96), np.float32), window, None, visible, sinks, turns)
    np.testing.assert_array_equal(out, REFERENCE.decode_rows(window))


def test_without_any_compressed_row_the_window_is_all_there_is(kernels):  # noqa: F811
    draw, format = Draw.seeded(14), RowFormat(RowKind.PACKED_KV, 96, 16)
    window, none = draw.rows(3, format), Rows(format, np.empty((0, format.row_bytes), np.uint8), 0)
    queries, sinks, turns = draw.floats(2, 3, 96), draw.floats(3), draw.turns(2, 16)
    visible = Visible(np.array([1, 2], np.int32), 32)
    counted = replace(visible, counts=np.zeros(2, np.int32))
    expected = run(queries, window, None, visible, sinks, turns)
    assert_same_bits(run(queries, window, none, counted, sinks, turns), expected)


def test_a_query_s_result_has_the_same_bits_in_any_company_of_few(kernels):  # noqa: F811
    draw, format = Draw.seeded(13), RowFormat(RowKind.PACKED_KV, 96, 16)
    window, compressed = draw.rows(60, format), draw.rows(90, format)
    counts = np.array([10, 64, 65, 90], np.int32)
    visible = Visible(np.array([3, 20, 58, 59], np.int32), 32, counts)
    queries, sinks, turns = draw.floats(4, 3, 96), draw.floats(3), draw.turns(4, 16)
    whole = run(queries, window, compressed, visible, sinks, turns)
    for rows, num_rows in ((slice(0, 1), 12), (slice(1, 3), 90)):
        pooled = Rows(format, compressed.data[:num_rows], 0)
        assert_same_bits(run(queries[rows], window, pooled, visible.of(rows), sinks, turns[rows]), whole[rows])
