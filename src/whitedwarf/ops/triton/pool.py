"""Windows of tokens pooled into stored rows (fact sheet 2.4), for all spans of a pass at once.

One program a window: eight tokens at a time, an online softmax in each channel, then the row's norm, turn and rounding.
Inputs of an open window come from its sequence's stores, or from the batch's arrays where they are new. In a decode one
program a span stores the new inputs, and goes on only if its window closes: one launch. Twin: ops/twins/pool.py.

Flash, H200 at 4.3 TB/s. A decode that closes nothing copies 8 KiB a span: a launch's 2 us. Closing a ratio-4 window
reads 32 KiB: 3 us. A ratio-128 one reads 512 KiB through one SM: about 12 us, once in 128 tokens. Prefill of 2048:
512 ratio-4 windows, 16 MiB, 5 us; 16 ratio-128 windows, side by side 12 us.
"""

# ruff: noqa: RUF005  Triton compiles sums of tuples, but no unpacking
# mypy: disable-error-code="assignment, misc"

import triton
import triton.language as tl
from torch import Tensor

from whitedwarf.ops.base import RowFormat, RowKind
from whitedwarf.ops.triton.append import append
from whitedwarf.ops.triton.packing import format_constants, store_row, turned
from whitedwarf.ops.triton.span_table import SpanTable, row_address
from whitedwarf.ops.triton.specimen import Specimen


def pool(
    table: SpanTable,
    layer: int,
    store_base: int,
    values: Tensor,
    gates: Tensor,
    ape: Tensor,
    norm: Tensor,
    turns: Tensor,
    epsilon: float,
    ratio: int,
    format: RowFormat,
) -> None:
    """Store values and gates (n, c d) behind their spans' earlier ones, and append a row for each window that closes.

    store_base: 1, the rows that attention reads, or 4, the index keys (span_table.py: values, gates, rows).
    turns: (windows, rope/2, 2) at the first positions of the windows, span after span.
    """
    if not table.is_decode:
        append(table, layer, store_base, values)
        append(table, layer, store_base + 1, gates)
    most_windows = triton.cdiv(table.longest, ratio)
    tables = table.starts, table.row_starts, table.fresh, table.closed[ratio], table.bases
    own = table.place(layer, store_base), table.num_spans, epsilon
    sizes = {"RATIO": ratio, "HALVES": 2 if ratio == 4 else 1, "STORES": table.is_decode, **format_constants(format)}
    grid = (table.num_spans, most_windows)
    _pool[grid](values, gates, ape, norm, turns, *tables, *own, **sizes, num_warps=4)


@triton.jit(do_not_specialize=["place", "num_spans"])
def _pool(
    values,
    gates,
    ape,
    norm,
    turns,
    starts,
    row_starts,
    fresh,
    closed,
    bases,
    place,
    num_spans,
    epsilon,
    RATIO: tl.constexpr,
    HALVES: tl.constexpr,
    STORES: tl.constexpr,
    KIND: tl.constexpr,
    DIMS: tl.constexpr,
    ROPE: tl.constexpr,
    ROW_BYTES: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """A window of a span; program 0 of a decode's span stores its new inputs, too."""
    span, window = tl.program_id(0), tl.program_id(1)
    start, first_row = tl.load(starts + span), tl.load(row_starts + span)
    end = start + tl.load(row_starts + span + 1) - first_row
    bases += place + span
    old_values, old_gates = tl.load(bases), tl.load(bases + num_spans)
    if STORES:
        column = tl.arange(0, HALVES * WIDTH)
        is_column = column < tl.where(tl.load(fresh + span) > start, HALVES * DIMS, 0)
        own, new = first_row.to(tl.int64) * (HALVES * DIMS), start.to(tl.int64) * (4 * HALVES * DIMS)
        to_values = (old_values + new).to(tl.pointer_type(tl.float32))
        to_gates = (old_gates + new).to(tl.pointer_type(tl.float32))
        tl.store(to_values + column, tl.load(values + own + column, mask=is_column), mask=is_column)
        tl.store(to_gates + column, tl.load(gates + own + column, mask=is_column), mask=is_column)
    group = start // RATIO + window
    if group < end // RATIO:
        dims = tl.arange(0, WIDTH)
        partner_dims, is_tail = dims ^ 1, (dims >= DIMS - ROPE) & (dims < DIMS)
        sources = values, gates, old_values, old_gates
        where = start, first_row, group
        x = _pooled(sources, where, ape, dims, dims < DIMS, RATIO, HALVES, DIMS, WIDTH)
        partners = _pooled(sources, where, ape, partner_dims, is_tail, RATIO, HALVES, DIMS, WIDTH)
        inverse = 1 / tl.sqrt(tl.sum(x * x, axis=0) / DIMS + epsilon)
        x *= inverse * tl.load(norm + dims, mask=dims < DIMS, other=0.0)
        partners *= inverse * tl.load(norm + partner_dims, mask=is_tail, other=0.0)
        own_turns = turns + (tl.load(closed + span) + window).to(tl.int64) * ROPE
        out = tl.load(bases + 2 * num_spans) + group.to(tl.int64) * ROW_BYTES
        y = turned(x, partners, own_turns, dims, DIMS, ROPE, 1)
        store_row(y, out.to(tl.pointer_type(tl.uint8)), dims, KIND, DIMS, ROPE, WIDTH)


@triton.jit
def _pooled(
    sources,
    where,
    ape,
    dims,
    is_own,
    RATIO: tl.constexpr,
    HALVES: tl.constexpr,
    DIMS: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """Gated averages (WIDTH,) of channels `dims` over a window; with two halves, over the window before it, too."""
    values, gates, old_values, old_gates = sources
    start, first_row, group = where
    tokens: tl.constexpr = HALVES * RATIO
    first = (group + 1) * RATIO - tokens
    at_once: tl.constexpr = 8 if tokens % 8 == 0 else tokens
    row_bytes: tl.constexpr = 4 * HALVES * DIMS
    top = tl.full((WIDTH,), float("-inf"), tl.float32)
    whole, total = tl.zeros((WIDTH,), tl.float32), tl.zeros((WIDTH,), tl.float32)
    for begin in range(0, tokens, at_once):
        own_gates, own_values, best = (), (), top
        for i in tl.static_range(at_once):
            token = begin + i
            position = first + token
            # the first half of the channels is for the window before, the second for a window's own tokens
            column = dims + tl.where(token >= tokens - RATIO, (HALVES - 1) * DIMS, 0)
            is_there = is_own & (dims >= tl.where(position >= 0, 0, WIDTH))
            gate = row_address(gates, old_gates, position, start, first_row, row_bytes)
            value = row_address(values, old_values, position, start, first_row, row_bytes)
            g = tl.load(gate.to(tl.pointer_type(tl.float32)) + column, mask=is_there, other=float("-inf"))
            v = tl.load(value.to(tl.pointer_type(tl.float32)) + column, mask=is_there, other=0.0)
            g += tl.load(ape + (token % RATIO) * (HALVES * DIMS) + column, mask=is_own, other=0.0)
            best = tl.maximum(best, g)
            own_gates, own_values = own_gates + (g,), own_values + (v,)
        best = tl.where(is_own, best, 0.0)
        shrunk = tl.exp(top - best)
        whole, total, top = whole * shrunk, total * shrunk, best
        for i in tl.static_range(at_once):
            share = tl.exp(own_gates[i] - best)
            whole += share
            total += share * own_values[i]
    return total / tl.where(is_own, whole, 1.0)


_TABLES = dict.fromkeys(("starts", "row_starts", "fresh", "closed"), "*i32")
_TABLES |= {"bases": "*i64", "place": "i32", "num_spans": "i32", "epsilon": "fp32"}
_INPUTS = dict.fromkeys(("values", "gates", "ape", "norm", "turns"), "*fp32") | _TABLES
_ROW = format_constants(RowFormat(RowKind.PACKED_KV, 512, 64))
_KEY = format_constants(RowFormat(RowKind.PACKED_KEY, 128, 64))
_FOUR, _MANY = {"RATIO": 4, "HALVES": 2}, {"RATIO": 128, "HALVES": 1}
SPECIMENS = (
    Specimen("pool rows 4 decode", _pool, _INPUTS, _ROW | _FOUR | {"STORES": True}),
    Specimen("pool keys 4 decode", _pool, _INPUTS, _KEY | _FOUR | {"STORES": True}),
    Specimen("pool rows 128 decode", _pool, _INPUTS, _ROW | _MANY | {"STORES": True}),
    Specimen("pool rows 4", _pool, _INPUTS, _ROW | _FOUR | {"STORES": False}),
    Specimen("pool rows 128", _pool, _INPUTS, _ROW | _MANY | {"STORES": False}),
)
