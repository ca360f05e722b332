"""Attention over packed rows at the amx level: near the reference and the other levels, same bits in any company."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ops.cases import CPU, LEVELS, REFERENCE, Draw, assert_close, assert_same_bits, exact
from ops.test_cpu_attention import picked_rows
from whitedwarf.ops.base import RowFormat, RowKind, Rows, Visible
from whitedwarf.ops.cpu import CpuOps
from whitedwarf.ops.rows import decode_rows

pytestmark = pytest.mark.skipif("amx" not in LEVELS, reason="needs a processor with AMX")
PACKED = (RowKind.PACKED_KV, RowKind.PACKED_KV_F16)
SHAPES = ((64, 32), (128, 64), (192, 32), (512, 64))  # dims, rope
BOUND = 2e-6  # three terms hold what a float does; 1.2e-6 is the most that was seen of floats


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32 - 1), st.integers(1, 9), st.sampled_from([1, 3, 15, 16, 17, 31, 32, 33, 64, 70]),
    st.sampled_from(SHAPES), st.sampled_from(PACKED), st.sampled_from([1, 31, 128]), st.integers(1, 300),
    st.sampled_from(["none", "counts", "picked"]),
)  # fmt: skip
def test_attention_is_near_the_reference_and_the_other_levels(seed, n, heads, shape, kind, length, num_rows, seen):
    draw, format = Draw.seeded(seed), RowFormat(kind, *shape)
    start = int(draw.rng.integers(0, 200))
    first = int(draw.rng.integers(0, max(1, start - length + 2)))
    window = draw.rows(start + n - first, format, first)
    positions = np.arange(start, start + n, dtype=np.int32)
    compressed, counts = None, None
    if seen != "none":
        counts = np.sort(draw.rng.integers(0, num_rows + 1, n)).astype(np.int32)
        compressed = draw.rows(num_rows, format)
    visible = Visible(positions, length, counts, picked_rows(draw, counts, 150) if seen == "picked" else None)
    queries, sinks, turns = draw.floats(n, heads, shape[0]), draw.floats(heads), draw.turns(n, shape[1])
    out = CPU["amx"].attention(queries, window, compressed, visible, sinks, turns)
    expected = REFERENCE.attention(exact(queries), window, compressed, visible, exact(sinks), exact(turns))
    assert_close(out, expected, BOUND)
    assert_close(out, exact(CPU["scalar"].attention(queries, window, compressed, visible, sinks, turns)), BOUND)


@pytest.mark.parametrize("heads", [5, 33, 64])
def test_neither_company_nor_cuts_nor_threads_change_a_bit(heads):
    draw, format, n = Draw.seeded(1), RowFormat(RowKind.PACKED_KV, 128, 64), 13
    window, compressed = draw.rows(300, format), draw.rows(900, format)
    positions = np.arange(300 - n, 300, dtype=np.int32)
    counts = np.arange(900 - n, 900, dtype=np.int32)
    picked = picked_rows(draw, counts, 400)
    queries, sinks, turns = draw.floats(n, heads, 128), draw.floats(heads), draw.turns(n, 64)

    def attend(threads: int, size: int) -> np.ndarray:
        ops, out = CpuOps(threads=threads, level="amx"), []
        for start in range(0, n, size):
            rows = slice(start, start + size)
            visible = Visible(positions[rows], 128, counts[rows], picked[rows])
            out.append(ops.attention(queries[rows], window, compressed, visible, sinks, turns[rows]))
        return np.concatenate(out)

    whole = attend(1, n)
    for threads, size in ((1, 1), (1, 5), (2, 1), (2, 3), (3, 2), (3, n), (7, 1)):
        assert_same_bits(attend(threads, size), whole)


def test_a_head_does_not_see_its_neighbours():
    draw, format = Draw.seeded(2), RowFormat(RowKind.PACKED_KV, 512, 64)
    window, visible = draw.rows(128, format), Visible(np.array([127], np.int32), 128)
    queries, sinks, turns = draw.floats(1, 64, 512), draw.floats(64), draw.turns(1, 64)
    whole = CPU["amx"].attention(queries, window, None, visible, sinks, turns).reshape(64, 512)
    for heads in (slice(0, 1), slice(63, 64), slice(20, 57)):
        part = CPU["amx"].attention(np.ascontiguousarray(queries[:, heads]), window, None, visible, sinks[heads], turns)
        assert_same_bits(part.reshape(-1, 512), whole[heads])


@pytest.mark.parametrize("scale", [0, 9, 10, 127, 246, 247, 255])
def test_every_code_has_its_value_at_every_scale(scale):
    """One key, and a sink that takes nothing: the output is the row."""
    format = RowFormat(RowKind.PACKED_KV, 288, 32)
    data = np.concatenate([np.arange(256, dtype=np.uint8), np.full(4, scale, np.uint8), np.zeros(128, np.uint8)])
    data[[127, 255]] = 0  # the two codes that are never written
    data[260:] = Draw.seeded(3).floats(32).view(np.uint8)
    rows = Rows(format, data[None], 0)
    turns = np.zeros((1, 16, 2), np.float32)
    turns[..., 0] = 1
    queries, sinks = np.zeros((1, 2, 288), np.float32), np.full(2, -200, np.float32)
    out = CPU["amx"].attention(queries, rows, None, Visible(np.zeros(1, np.int32), 1), sinks, turns)
    with np.errstate(over="ignore"):
        expected = decode_rows(data[None], format, np.float32)[0]
    expected[np.abs(expected) < 2.0**-126] = 0  # tiles know no smaller numbers
    if not np.isfinite(expected).all():
        expected[:] = np.nan  # the score of such a row is no number either
    for head in out.reshape(2, 288):
        np.testing.assert_array_equal(head, expected)


@pytest.mark.parametrize("size", [1e-3, 30, 1e4])
def test_scores_of_any_size_neither_overflow_nor_vanish(size):
    draw, format = Draw.seeded(9), RowFormat(RowKind.PACKED_KV, 64, 32)
    window, compressed = draw.rows(40, format), draw.rows(300, format)
    visible = Visible(np.array([39, 39], np.int32), 32, np.array([300, 65], np.int32))
    queries, sinks = draw.floats(2, 4, 64) * np.float32(size), draw.floats(4) * np.float32(size)
    turns = draw.turns(2, 32)
    out = CPU["amx"].attention(queries, window, compressed, visible, sinks, turns)
    expected = REFERENCE.attention(exact(queries), window, compressed, visible, exact(sinks), exact(turns))
    assert_close(out, expected, 1e-5 * max(1, size / 30))
