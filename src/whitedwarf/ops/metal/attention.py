"""Attention over stored rows: ops/mlx_twins/attention.py, on Metal.

For few queries the keys are cut into parts, so that many threadgroups share the work, and joined after; for many, each
query's keys are one part. Rows are decoded where they are used, for several heads at once.
"""

from functools import cache

import mlx.core as mx

from whitedwarf.ops.base import RowFormat, RowKind
from whitedwarf.ops.metal.launch import SIMD_WIDTH, Call, Source, launch, text, tiles
from whitedwarf.ops.mlx_twins import attention as twins

MANY_QUERIES = 16
SPLIT = 64  # keys of a part
HEADS, KEYS = 8, 8  # of a threadgroup, at a time
LARGEST_DIMS = 512  # KEYS rows of floats fit into a threadgroup's memory
KINDS = {RowKind.F32: 0, RowKind.F16: 1, RowKind.PACKED_KV: 2, RowKind.PACKED_KV_F16: 3}
WINDOW_ONLY, COUNTED, PICKED = 0, 1, 2


def attention(
    queries: mx.array,
    window: mx.array,
    first: int,
    compressed: mx.array | None,
    format: RowFormat,
    positions: mx.array,
    length: int,
    counts: mx.array | None,
    picked: mx.array | None,
    sinks: mx.array,
    turns: mx.array,
) -> mx.array:
    """(n, H, d) -> (n, H d); see the twin."""
    if format.dims % SIMD_WIDTH or format.dims > LARGEST_DIMS or format.kind not in KINDS:
        rest = compressed, format, positions, length, counts, picked, sinks, turns
        return twins.attention(queries, window, first, *rest)
    n, heads, width = queries.shape
    seen, num_pooled = _seen(compressed, counts, picked)
    split = SPLIT if n < MANY_QUERIES else 0
    splits = tiles(length, split) + tiles(num_pooled, split) if split else 1
    place = mx.array([first, length], mx.int32)
    nothing = mx.zeros((1, 1), mx.int32)
    visible = positions, positions if counts is None else counts, nothing if picked is None else picked
    inputs = queries, window, compressed if seen else window, place, *visible
    shape = {"DIMS": width, "ROPE": format.rope_dims}
    constants = {"KIND": KINDS[format.kind], "SEEN": seen, "SPLIT": split, "HEADS": HEADS, "KEYS": KEYS} | shape
    group = HEADS * SIMD_WIDTH
    shapes = [(n, heads, splits, width), (n, heads, splits), (n, heads, splits)]
    grid = tiles(heads, HEADS) * group, n, splits
    parts = launch(_part(), Call(inputs, shapes, grid, (group, 1, 1), constants, [mx.float32] * 3))
    join = Call([*parts, sinks, turns], [(n, heads * width)], (heads * SIMD_WIDTH, n, 1), (SIMD_WIDTH, 1, 1), shape)
    return launch(_join(), join)[0]


def _seen(compressed: mx.array | None, counts: mx.array | None, picked: mx.array | None) -> tuple[int, int]:
    """What a query sees beside its window, and at most how many rows."""
    if compressed is None or counts is None or compressed.shape[0] == 0:
        return WINDOW_ONLY, 0
    return (COUNTED, compressed.shape[0]) if picked is None else (PICKED, picked.shape[1])


@cache
def _part() -> Source:
    inputs = "queries", "window", "compressed", "place", "positions", "counts", "picked"
    return Source("attention_part", inputs, ("parts", "tops", "totals"), text("attention_part"), text("rows"))


@cache
def _join() -> Source:
    inputs = "parts", "tops", "totals", "sinks", "turns"
    return Source("attention_join", inputs, ("y",), text("attention_join"), text("rows"))
