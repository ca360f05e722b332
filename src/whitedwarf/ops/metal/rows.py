"""Rows normed, turned and stored: ops/mlx_twins/rows.py, on Metal, where one kernel makes a row from its floats."""

from functools import cache
from typing import Any

import mlx.core as mx
import numpy as np

from whitedwarf.ops.base import RowFormat, RowKind
from whitedwarf.ops.metal.launch import SIMD_WIDTH, Call, Source, launch, number, text
from whitedwarf.ops.mlx_twins import rows as twins

NO_NORM, WEIGHTLESS, WEIGHTED = 0, 1, 2
KINDS = {RowKind.F32: 0, RowKind.F16: 1, RowKind.PACKED_KV: 2, RowKind.PACKED_KV_F16: 3, RowKind.PACKED_KEY: 4}
LARGEST_DIMS = 1024


def query(x: mx.array, heads: int, turns: mx.array, epsilon: float) -> mx.array:
    """(n, H d) -> (n, H, d): weightless RMS norm per head, then the rotary tail turned."""
    n, width = x.shape[0], x.shape[1] // heads
    format = RowFormat(RowKind.F32, width, 2 * turns.shape[1])
    if not fits(format):
        return twins.query(x, heads, turns, epsilon)
    return _made(x.reshape(-1, width), None, turns, epsilon, format, WEIGHTLESS).reshape(n, heads, width)


def kv_rows(x: mx.array, norm: mx.array, turns: mx.array, epsilon: float, format: RowFormat) -> mx.array:
    """(n, d) -> stored rows (n, row_bytes)."""
    if not fits(format) or 2 * turns.shape[1] != format.rope_dims:
        return twins.kv_rows(x, norm, turns, epsilon, format)
    return _made(x, norm, turns, epsilon, format, WEIGHTED).view(mx.uint8)


def index_query(x: mx.array, heads: int, turns: mx.array, format: RowFormat) -> mx.array:
    """(n, heads d) -> (n, heads, d): turned; rotated and rounded if the keys are packed."""
    if not fits(format) or 2 * turns.shape[1] != format.rope_dims:
        return twins.index_query(x, heads, turns, format)
    if format.kind is not RowKind.PACKED_KEY:
        format = RowFormat(RowKind.F32, format.dims, format.rope_dims)
    made = _made(x.reshape(-1, format.dims), None, turns, 0.0, format, NO_NORM, decoded=True)
    return made.reshape(x.shape[0], heads, format.dims)


def fits(format: RowFormat) -> bool:
    """Whether the kernel can make such rows."""
    is_power = format.dims & (format.dims - 1) == 0
    are_lanes_full = format.dims % SIMD_WIDTH == 0 and 0 < format.dims <= LARGEST_DIMS
    return are_lanes_full and format.rope_dims > 0 and (format.kind is not RowKind.PACKED_KEY or is_power)


def _made(
    x: mx.array,
    norm: mx.array | None,
    turns: mx.array,
    epsilon: float,
    format: RowFormat,
    normed: int,
    decoded: bool = False,
) -> mx.array:
    count, width, dtype = x.shape[0], format.dims, _dtype(format, decoded)
    if count == 0:
        return mx.zeros((0, format.row_bytes if dtype == mx.uint8 else width), dtype)
    inputs = [x, turns if norm is None else norm, turns, number(epsilon), number(float(np.float32(width**-0.5)))]
    constants = {"DIMS": width, "ROPE": format.rope_dims, "KIND": KINDS[format.kind]}
    constants |= {"NORM": normed, "DECODED": int(decoded)}
    shape = count, format.row_bytes if dtype == mx.uint8 else width
    call = Call(inputs, [shape], (count * SIMD_WIDTH, 1, 1), (SIMD_WIDTH, 1, 1), constants, [dtype])
    return launch(_source(), call)[0]


def _dtype(format: RowFormat, decoded: bool) -> Any:
    """Of what the kernel writes: floats can be viewed as bytes after."""
    if decoded or format.kind is RowKind.F32:
        return mx.float32
    return mx.float16 if format.kind is RowKind.F16 else mx.uint8


@cache
def _source() -> Source:
    sixth, smallest = (np.float32(x).view(np.uint32) for x in (1 / twins.E2M1_MAX, twins.E2M1_MAX * 2.0**-126))
    exact = f"#define SIXTH as_type<float>({sixth}u)\n#define SMALLEST_KEY as_type<float>({smallest}u)\n"
    inputs = "x", "norm", "turns", "epsilon", "size"
    return Source("rows_made", inputs, ("rows",), exact + text("rows_made"), text("rounding"))
