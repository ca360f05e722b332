"""Queries and stored rows (fact sheet 2.3, 2.5, 2.7): norm, rotary turn and rounding, a launch each.

Promises the bytes of ops/rows.py for the floats it makes; twin: ops/twins/rows.py.

Flash, H200 at 4.3 TB/s. `query` reads and writes 64 x 512 f32 (128 KiB each way) a row: one row is one wave of 64
one-warp programs, about 2 us with its launch; 32 rows 8 MiB, 3 us; 2048 rows 512 MiB, 125 us. `kv_rows` 2 KiB in, 711
bytes out a row: 2 us up to a hundred rows, 3 us for 2048. `index_query` 64 x 128 f32: 2 us; 2048 rows 128 MiB, 31 us
of traffic; the seven stages of the Hadamard transform are shuffles inside a warp.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from whitedwarf.ops.base import RowFormat, RowKind
from whitedwarf.ops.triton.interpretation import block
from whitedwarf.ops.triton.packing import (
    e2m1_codes,
    e2m1_value,
    format_constants,
    fp4_exponents,
    hadamard,
    store_row,
    times_power,
    turned,
)
from whitedwarf.ops.triton.specimen import Specimen


def query(x: Tensor, heads: int, turns: Tensor, epsilon: float, dtype: torch.dtype = torch.float32) -> Tensor:
    """(n, H d) -> (n, H, d): weightless RMS norm per head, then the rotary tail turned.

    As bf16 where `attend` would round them anyway: it halves what is written and read.
    """
    n, dims = len(x), x.shape[1] // heads
    out = torch.empty((n, heads, dims), dtype=dtype, device=x.device)
    per_program = block(1, 8)
    grid = (n, triton.cdiv(heads, per_program))
    width = triton.next_power_of_2(dims)
    sizes = {"HEADS": heads, "DIMS": dims, "ROPE": 2 * turns.shape[1], "WIDTH": width, "BLOCK": per_program}
    _query[grid](x, turns, out, epsilon, **sizes, num_warps=1)
    return out


def kv_rows(x: Tensor, norm: Tensor, turns: Tensor, epsilon: float, format: RowFormat) -> Tensor:
    """(n, d) -> stored rows (n, row_bytes): RMSNorm, rotary tail turned, rounded as the format says."""
    out = torch.empty((len(x), format.row_bytes), dtype=torch.uint8, device=x.device)
    _kv_rows[(len(x),)](x, norm, turns, out, epsilon, **format_constants(format), num_warps=4)
    return out


def index_query(x: Tensor, heads: int, turns: Tensor, format: RowFormat) -> Tensor:
    """(n, heads d) -> (n, heads, d): rotary tail turned; Hadamard and FP4 rounding if the keys are packed."""
    n, dims = len(x), x.shape[1] // heads
    out = torch.empty((n, heads, dims), dtype=torch.float32, device=x.device)
    per_program = block(1, 8)
    grid = (n, triton.cdiv(heads, per_program))
    sizes = {"HEADS": heads, "DIMS": dims, "ROPE": 2 * turns.shape[1], "WIDTH": triton.next_power_of_2(dims)}
    is_packed = format.kind is RowKind.PACKED_KEY
    _index_query[grid](x, turns, out, **sizes, BLOCK=per_program, IS_PACKED=is_packed, num_warps=1)
    return out


@triton.jit
def _query(
    x,
    turns,
    out,
    epsilon,
    HEADS: tl.constexpr,
    DIMS: tl.constexpr,
    ROPE: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """BLOCK heads of a row."""
    row, dims = tl.program_id(0).to(tl.int64), tl.arange(0, WIDTH)[None, :]
    head = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[:, None]
    is_own = (head < HEADS) & (dims < DIMS)
    place = (row * HEADS + head) * DIMS
    values = tl.load(x + place + dims, mask=is_own, other=0.0)
    partners = tl.load(x + place + (dims ^ 1), mask=is_own & (dims >= DIMS - ROPE), other=0.0)
    inverse = 1 / tl.sqrt(tl.sum(values * values, axis=1) / DIMS + epsilon)[:, None]
    result = turned(values * inverse, partners * inverse, turns + row * ROPE, dims, DIMS, ROPE, 1)
    tl.store(out + place + dims, result, mask=is_own)


@triton.jit
def _kv_rows(
    x,
    norm,
    turns,
    out,
    epsilon,
    KIND: tl.constexpr,
    DIMS: tl.constexpr,
    ROPE: tl.constexpr,
    ROW_BYTES: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """A row."""
    row, dims = tl.program_id(0).to(tl.int64), tl.arange(0, WIDTH)
    partner_dims, is_tail = dims ^ 1, (dims >= DIMS - ROPE) & (dims < DIMS)
    values = tl.load(x + row * DIMS + dims, mask=dims < DIMS, other=0.0)
    partners = tl.load(x + row * DIMS + partner_dims, mask=is_tail, other=0.0)
    inverse = 1 / tl.sqrt(tl.sum(values * values, axis=0) / DIMS + epsilon)
    values *= inverse * tl.load(norm + dims, mask=dims < DIMS, other=0.0)
    partners *= inverse * tl.load(norm + partner_dims, mask=is_tail, other=0.0)
    y = turned(values, partners, turns + row * ROPE, dims, DIMS, ROPE, 1)
    store_row(y, out + row * ROW_BYTES, dims, KIND, DIMS, ROPE, WIDTH)


@triton.jit
def _index_query(
    x,
    turns,
    out,
    HEADS: tl.constexpr,
    DIMS: tl.constexpr,
    ROPE: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    IS_PACKED: tl.constexpr,
):
    """BLOCK heads of a row."""
    row, dims = tl.program_id(0).to(tl.int64), tl.arange(0, WIDTH)[None, :]
    head = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[:, None]
    is_own = (head < HEADS) & (dims < DIMS)
    place = (row * HEADS + head) * DIMS
    values = tl.load(x + place + dims, mask=is_own, other=0.0)
    partners = tl.load(x + place + (dims ^ 1), mask=is_own & (dims >= DIMS - ROPE), other=0.0)
    y = turned(values, partners, turns + row * ROPE, dims, DIMS, ROPE, 1)
    if IS_PACKED:
        blocks = tl.reshape(hadamard(y, BLOCK, DIMS), (BLOCK, DIMS // 32, 32))
        exponent = fp4_exponents(blocks)
        is_number = tl.where(exponent == 128, float("nan"), 1.0)
        exponent = exponent[:, :, None]
        rounded = e2m1_value(e2m1_codes(times_power(blocks, -exponent)))
        scaled = times_power(rounded, exponent) * is_number[:, :, None]
        y = tl.reshape(scaled, (BLOCK, DIMS))
    tl.store(out + place + dims, y, mask=is_own)


_ROWS = {"x": "*fp32", "turns": "*fp32", "out": "*fp32"}
_KV = {"x": "*fp32", "norm": "*fp32", "turns": "*fp32", "out": "*u8", "epsilon": "fp32"}
_QUERY = {"HEADS": 64, "DIMS": 512, "ROPE": 64, "WIDTH": 512, "BLOCK": 1}
_INDEX = {"HEADS": 64, "DIMS": 128, "ROPE": 64, "WIDTH": 128, "BLOCK": 1, "IS_PACKED": True}
SPECIMENS = (
    Specimen("query", _query, _ROWS | {"epsilon": "fp32"}, _QUERY, num_warps=1),
    Specimen("kv_rows packed", _kv_rows, _KV, format_constants(RowFormat(RowKind.PACKED_KV, 512, 64))),
    Specimen("kv_rows f16", _kv_rows, _KV, format_constants(RowFormat(RowKind.F16, 512, 64)), is_hot=False),
    Specimen("index_query packed", _index_query, _ROWS, _INDEX, num_warps=1),
)
