"""Compressed rows: ops/mlx_twins/pool.py, on Metal: one kernel pools the windows, one makes stored rows of them."""

import mlx.core as mx

from whitedwarf.ops.base import Groups, RowFormat
from whitedwarf.ops.metal.launch import Call, Source, launch, text, tiles
from whitedwarf.ops.metal.rows import kv_rows
from whitedwarf.ops.mlx_twins.pool import OVERLAPPING_RATIO

THREADS = 64


def compress(
    values: mx.array,
    gates: mx.array,
    first: int,
    groups: Groups,
    ape: mx.array,
    norm: mx.array,
    turns: mx.array,
    epsilon: float,
    format: RowFormat,
) -> mx.array:
    """Pool the windows of `groups` into stored rows (groups, row_bytes); see Ops.compress."""
    count, dims = groups.end - groups.first, norm.shape[0]
    if count == 0:
        return mx.zeros((0, format.row_bytes), mx.uint8)
    place = mx.array([groups.first * groups.ratio - first, groups.first], mx.int32)
    constants = {"RATIO": groups.ratio, "OVERLAP": int(groups.ratio == OVERLAPPING_RATIO), "THREADS": THREADS}
    source = Source("pool", ("values", "gates", "ape", "place"), ("pooled",), text("pool"), text("sums"))
    grid = tiles(dims, THREADS) * THREADS, count, 1
    call = Call([values, gates, ape, place], [(count, dims)], grid, (THREADS, 1, 1), constants)
    return kv_rows(launch(source, call)[0], norm, turns, epsilon, format)
