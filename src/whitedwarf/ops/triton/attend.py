"""Attention over the window rows and compressed rows of all spans (fact sheet 2.3); stores new window rows, too.

A query's keys are one list, its window's rows and then the compressed ones, each an address; a program decodes some of
them into operands once for all its heads, scores them, and adds them up with an online softmax: a row is key and value.
Twin: ops/twins/attention.py. Three ways by the number of queries:

* few (< 16): parts of 32 keys by 16 heads fill the device with one query; numbers are sums of two bf16, exact to 1e-5;
* some (< 96): parts of 192 keys by 64 heads, numbers are one bf16 (e4m3 codes times their scale are exact anyway);
* many: all keys of a query in one program. Otherwise a second launch joins the parts in order.

How long parts are follows from a query's own number of keys, so its result does not depend on other queries.

Rows of 711 bytes lie at any address: numbers are read as aligned words, two for each, and shifted together. That is
2 loads and 4 operations for 4 codes, against 4 loads of a byte; decoding is about 30 instructions for 4 numbers.

Flash, H200 at 4.3 TB/s, 640 keys (128 + 512 picked; 455 KB a query). One query: 80 programs, about 4 us, and a join of
20 parts (2.6 MB, in L2) 2 us. 32 queries: 128 programs of 3 tiles of 64 keys, 3.5 us each (about 2900 instructions a
thread and tile), 12 us, and 16 MB of parts twice, 8 us. Prefill of 2048: 155 tiles an SM, about 600 us; 172 GFLOP would
be 0.3 ms of tensor cores; reading is nothing beside it. A ratio-128 layer 8k deep has 192 keys: a third of that.
"""

# ruff: noqa: RUF005  Triton compiles sums of tuples, but no unpacking
# mypy: disable-error-code="assignment, misc"

from itertools import accumulate
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from whitedwarf.ops.base import RowFormat, RowKind
from whitedwarf.ops.triton.interpretation import block
from whitedwarf.ops.triton.operands import operand, remainder, rounded
from whitedwarf.ops.triton.packing import F16, F32, KINDS, PACKED_KV, PACKED_KV_F16
from whitedwarf.ops.triton.span_table import WINDOW, SpanTable
from whitedwarf.ops.triton.specimen import Specimen

FEW_ROWS, MANY_ROWS = 16, block(96, 16)
FEW_KEYS, SOME_KEYS = 32, 192  # keys of a part, if MAX_PARTS of them are enough
MAX_PARTS = 32
NUM_PARTS = tl.constexpr(MAX_PARTS)
FEW_DIMS, MANY_DIMS = 64, 128  # dims at once: more numbers do not fit into the registers beside the outputs
NUM_PARTS = tl.constexpr(MAX_PARTS)
LOG2_E = 1.4426950408889634
PER_NATURAL = tl.constexpr(LOG2_E)


def attend(
    table: SpanTable,
    layer: int,
    queries: Tensor,
    rows: Tensor,
    format: RowFormat,
    positions: Tensor,
    window: int,
    counts: Tensor | None,
    picked: Tensor | None,
    most: int,
    sinks: Tensor,
    turns: Tensor,
) -> Tensor:
    """(n, H, d), new rows (n, row_bytes) -> (n, H d): softmax with sinks, rotary tail turned back.

    FEW_ROWS queries and more are used as bf16, so they may come as such: it saves a pass over them.
    counts (n,): compressed rows visible, `most` at most; picked (n, k): those of them that are read, ascending.
    """
    n, heads, dims = queries.shape
    is_few, is_many = n < FEW_ROWS, n >= MANY_ROWS
    top = 0 if picked is None else picked.shape[1]
    pooled = 0 if counts is None else min(most, top) if top else most
    part_keys = FEW_KEYS if is_few else SOME_KEYS
    parts = 1 if is_many else min(MAX_PARTS, triton.cdiv(window + pooled, part_keys))
    out = torch.empty((n, heads * dims), dtype=torch.float32, device=queries.device)
    sums = out if is_many else torch.empty((n, parts, heads, dims), dtype=torch.float32, device=queries.device)
    tops = torch.empty((n, parts, heads, 2), dtype=torch.float32, device=queries.device)
    if not is_few and queries.dtype is not torch.bfloat16:
        queries = queries.to(torch.bfloat16)
    tables = table.starts, table.row_starts, table.span_of_row, table.fresh, table.bases
    place = table.place(layer, WINDOW), table.num_spans
    seen = positions, positions if counts is None else counts, positions if picked is None else picked
    both = {"HEADS": heads, "DIMS": dims, "ROPE": format.rope_dims, "PART_KEYS": part_keys}
    both |= {"WINDOW": window, "TOP": top, "HAS_COUNTS": counts is not None}
    sizes = _program_sizes(heads, is_few, _is_wide(queries.device)) | {"IS_WHOLE": is_many}
    sizes |= _row_sizes(format, FEW_DIMS if is_few else MANY_DIMS)
    grid = (n, parts, triton.cdiv(heads, sizes["OWN_HEADS"]))
    inputs = queries, rows, *seen, sinks, turns, sums, tops
    _attend[grid](*inputs, *tables, *place, dims**-0.5 * LOG2_E, **both, **sizes, num_warps=8, num_stages=1)
    if not is_many:
        widths = {"PARTS_WIDTH": max(8, triton.next_power_of_2(parts)), "WIDTH": triton.next_power_of_2(dims)}
        joined_heads = block(1, 8)
        _join[(n, triton.cdiv(heads, joined_heads))](
            sums, tops, *seen[:2], sinks, turns, out, parts, **both, **widths, OWN_HEADS=joined_heads, num_warps=4
        )
    return out


def _program_sizes(heads: int, is_few: bool, is_wide: bool) -> dict[str, Any]:
    """How many heads and keys at a time: 16 heads are the least that tensor cores take, 64 what Hopper's like best."""
    own = max(16, triton.next_power_of_2(heads))
    if is_few or not is_wide:
        return {"OWN_HEADS": min(16, own), "KEYS": 32, "IS_PRECISE": is_few}
    return {"OWN_HEADS": min(64, own), "KEYS": 64, "IS_PRECISE": False}


def _is_wide(device: torch.device) -> bool:
    """Whether 64 heads fit into one program: that takes 128 KiB of shared memory, and Hopper's way of multiplying."""
    if device.type != "cuda":
        return True  # interpreted: as where it is fast
    return torch.version.hip is None and torch.cuda.get_device_capability(device)[0] == 9


def _row_sizes(format: RowFormat, most_dims: int) -> dict[str, Any]:
    """A row cut into pieces of powers of two, the last of them its rotary tail."""
    plain, rope = format.dims - format.rope_dims, format.rope_dims
    if plain % 16 or rope < 16 or rope & (rope - 1):
        raise ValueError(
            f"expected a multiple of 16 plain dims and a rotary tail of 16, 32, 64, ...; got {plain} and {rope}. "
            "Such a model needs the plain torch backend"
        )
    small = plain % most_dims
    pieces = [most_dims] * (plain // most_dims) + [1 << bit for bit in (6, 5, 4) if small & 1 << bit]
    pieces += [rope]
    return {
        "KIND": KINDS[format.kind],
        "ROW_BYTES": format.row_bytes,
        "ROW_WIDTH": triton.next_power_of_2(format.row_bytes),
        "PIECES": tuple(pieces),
        "OFFSETS": tuple(accumulate(pieces[:-1], initial=0)),
    }


@triton.jit
def _num_keys(position, counts, row, WINDOW: tl.constexpr, TOP: tl.constexpr, HAS_COUNTS: tl.constexpr):
    """Keys that a query sees: of its window, and compressed ones."""
    recent = tl.minimum(position + 1, WINDOW)
    pooled = 0
    if HAS_COUNTS:
        pooled = tl.load(counts + row)
        if TOP > 0:
            pooled = tl.minimum(pooled, TOP)
    return recent, pooled


@triton.jit
def _keys_of_a_part(num_keys, PART_KEYS: tl.constexpr):
    """From a query's own number of keys alone, so that other queries change nothing."""
    return tl.maximum(1, tl.cdiv(num_keys, NUM_PARTS * PART_KEYS)) * PART_KEYS


@triton.jit(do_not_specialize=["place", "num_spans"])
def _attend(
    queries,
    rows,
    positions,
    counts,
    picked,
    sinks,
    turns,
    sums,
    tops,
    starts,
    row_starts,
    span_of_row,
    fresh,
    bases,
    place,
    num_spans,
    scale,
    HEADS: tl.constexpr,
    OWN_HEADS: tl.constexpr,
    ROW_BYTES: tl.constexpr,
    KIND: tl.constexpr,
    DIMS: tl.constexpr,
    ROPE: tl.constexpr,
    KEYS: tl.constexpr,
    PART_KEYS: tl.constexpr,
    WINDOW: tl.constexpr,
    TOP: tl.constexpr,
    HAS_COUNTS: tl.constexpr,
    PIECES: tl.constexpr,
    OFFSETS: tl.constexpr,
    ROW_WIDTH: tl.constexpr,
    IS_WHOLE: tl.constexpr,
    IS_PRECISE: tl.constexpr,
):
    """OWN_HEADS heads of a query over a part of its keys, or over all of them."""
    row, part = tl.program_id(0), tl.program_id(1)
    head = tl.program_id(2) * OWN_HEADS + tl.arange(0, OWN_HEADS)
    span, position = tl.load(span_of_row + row), tl.load(positions + row)
    start, first_row = tl.load(starts + span), tl.load(row_starts + span)
    old_rows = tl.load(bases + place + span)
    own_row = rows.to(tl.int64) + row.to(tl.int64) * ROW_BYTES
    if (part == 0) & (tl.program_id(2) == 0):
        column = tl.arange(0, ROW_WIDTH)
        is_kept = column < tl.where(position < tl.load(fresh + span), ROW_BYTES, 0)
        to = (old_rows + position.to(tl.int64) * ROW_BYTES).to(tl.pointer_type(tl.uint8))
        tl.store(to + column, tl.load(own_row.to(tl.pointer_type(tl.uint8)) + column, mask=is_kept), mask=is_kept)
    recent, pooled = _num_keys(position, counts, row, WINDOW, TOP, HAS_COUNTS)
    own_keys = recent + pooled if IS_WHOLE else _keys_of_a_part(recent + pooled, PART_KEYS)
    begin = part * own_keys
    end = tl.minimum(begin + own_keys, recent + pooled)
    if begin >= end:
        return
    new_rows = rows.to(tl.int64) + (first_row - start).to(tl.int64) * ROW_BYTES  # address that row 0 would have
    pooled_rows = tl.load(bases + place + 3 * num_spans + span)  # ROWS lies 3 stores behind WINDOW
    q_places = queries + (row.to(tl.int64) * HEADS + head[:, None]) * DIMS
    is_head = head[:, None] < HEADS
    plain: tl.constexpr = DIMS - ROPE
    is_exact: tl.constexpr = (KIND == PACKED_KV) | (KIND == PACKED_KV_F16)  # plain numbers are bf16 numbers
    q_high, q_low, outputs = (), (), ()
    for i in tl.static_range(len(PIECES)):
        q_column = OFFSETS[i] + tl.arange(0, PIECES[i])[None, :]
        q = tl.load(q_places + q_column, mask=is_head, other=0.0)
        if IS_PRECISE:
            q_rounded = rounded(q)
            q_low = q_low + (remainder(q, q_rounded),)
        else:
            q_rounded = operand(q)  # as it was loaded: from registers it would be multiplied, and they are few
        q_high = q_high + (q_rounded,)
        outputs = outputs + (tl.full((OWN_HEADS, PIECES[i]), 0.0, tl.float32),)
    top, whole = tl.full((OWN_HEADS,), float("-inf"), tl.float32), tl.zeros((OWN_HEADS,), tl.float32)
    for first in range(begin, end, KEYS):
        key = first + tl.arange(0, KEYS)
        chosen = key - recent
        if TOP > 0:
            chosen = tl.load(picked + row * TOP + chosen, mask=(key >= recent) & (key < end), other=0)
        index = tl.where(key < recent, position + 1 - recent + key, chosen)
        index = tl.where(key < end, index, position)  # some row that is there
        is_new = (key >= end) | ((key < recent) & (index >= start))
        base = tl.where(is_new, new_rows, tl.where(key < recent, old_rows, pooled_rows))
        address = (base + index.to(tl.int64) * ROW_BYTES)[:, None]
        scores = tl.zeros((OWN_HEADS, KEYS), tl.float32)
        k_high, k_low = (), ()
        for i in tl.static_range(len(PIECES)):
            if is_exact and OFFSETS[i] < plain:
                high = _packed_piece(address, OFFSETS[i], PIECES[i], plain)
                low = high
            else:
                numbers = _piece(address, OFFSETS[i], PIECES[i], KIND, DIMS, ROPE)
                high = rounded(numbers)
                low = remainder(numbers, high)
            k_high, k_low = k_high + (high,), k_low + (low,)
            if IS_PRECISE:
                scores = tl.dot(q_low[i], tl.trans(high), scores)
                if not (is_exact and OFFSETS[i] < plain):
                    scores = tl.dot(q_high[i], tl.trans(low), scores)
            scores = tl.dot(q_high[i], tl.trans(high), scores)
        scores = tl.where(key[None, :] < end, scores * scale, float("-inf"))
        best = tl.maximum(top, tl.max(scores, axis=1))
        shrunk = tl.exp2(top - best)
        shares = tl.exp2(scores - best[:, None])
        whole = whole * shrunk + tl.sum(shares, axis=1)
        top = best
        s_high = rounded(shares)
        s_low = remainder(shares, s_high)
        new = ()
        for i in tl.static_range(len(PIECES)):
            output = outputs[i] * shrunk[:, None]
            if IS_PRECISE:
                output = tl.dot(s_low, k_high[i], output)
                if not (is_exact and OFFSETS[i] < plain):
                    output = tl.dot(s_high, k_low[i], output)
            new = new + (tl.dot(s_high, k_high[i], output),)
        outputs = new
    place_of_sums = (row.to(tl.int64) * tl.num_programs(1) + part) * HEADS + head
    if IS_WHOLE:
        sink = tl.load(sinks + head, mask=head < HEADS, other=0.0) * PER_NATURAL
        best = tl.maximum(top, sink)
        shrunk = tl.exp2(top - best)
        factor = (shrunk / (whole * shrunk + tl.exp2(sink - best)))[:, None]
    else:
        factor = 1.0
        tl.store(tops + 2 * place_of_sums, top, mask=head < HEADS)
        tl.store(tops + 2 * place_of_sums + 1, whole, mask=head < HEADS)
    for i in tl.static_range(len(PIECES)):
        output = outputs[i] * factor
        if IS_WHOLE and OFFSETS[i] >= plain:
            pair = tl.arange(0, PIECES[i] // 2)
            turn = turns + row.to(tl.int64) * ROPE + 2 * pair
            output = _turned_back(output, tl.load(turn)[None, :], tl.load(turn + 1)[None, :], OWN_HEADS, PIECES[i])
        column = OFFSETS[i] + tl.arange(0, PIECES[i])[None, :]
        tl.store(sums + place_of_sums[:, None] * DIMS + column, output, mask=is_head)


@triton.jit(do_not_specialize=["parts"])
def _join(
    sums,
    tops,
    positions,
    counts,
    sinks,
    turns,
    out,
    parts,
    HEADS: tl.constexpr,
    DIMS: tl.constexpr,
    ROPE: tl.constexpr,
    PART_KEYS: tl.constexpr,
    WINDOW: tl.constexpr,
    TOP: tl.constexpr,
    HAS_COUNTS: tl.constexpr,
    PARTS_WIDTH: tl.constexpr,
    WIDTH: tl.constexpr,
    OWN_HEADS: tl.constexpr,
):
    """OWN_HEADS heads of a query: their parts in order, and the sink."""
    row = tl.program_id(0)
    head = tl.program_id(1) * OWN_HEADS + tl.arange(0, OWN_HEADS)
    recent, pooled = _num_keys(tl.load(positions + row), counts, row, WINDOW, TOP, HAS_COUNTS)
    num_parts = tl.cdiv(recent + pooled, _keys_of_a_part(recent + pooled, PART_KEYS))
    sink = tl.load(sinks + head, mask=head < HEADS, other=0.0) * PER_NATURAL
    first = (row.to(tl.int64) * (parts * HEADS) + head)[:, None]
    part = tl.arange(0, PARTS_WIDTH)[None, :]
    is_part = (part < num_parts) & (head[:, None] < HEADS)
    top = tl.load(tops + 2 * (first + part * HEADS), mask=is_part, other=float("-inf"))
    best = tl.maximum(tl.max(top, axis=1), sink)
    weights = tl.load(tops + 2 * (first + part * HEADS) + 1, mask=is_part, other=0.0)
    whole = tl.sum(weights * tl.exp2(top - best[:, None]), axis=1) + tl.exp2(sink - best)
    column = tl.arange(0, WIDTH)
    x = tl.zeros((OWN_HEADS, WIDTH), tl.float32)
    for i in tl.static_range(0, PARTS_WIDTH, 8):
        own = i + tl.arange(0, 8)[None, :]
        is_own = (own < num_parts) & (head[:, None] < HEADS)
        share = tl.exp2(tl.load(tops + 2 * (first + own * HEADS), mask=is_own, other=float("-inf")) - best[:, None])
        is_there = is_own[:, :, None] & (column[None, None, :] < DIMS)
        places = (first + own * HEADS)[:, :, None] * DIMS + column[None, None, :]
        x += tl.sum(tl.load(sums + places, mask=is_there, other=0.0) * share[:, :, None], axis=1)
    pair = tl.arange(0, WIDTH // 2) - (DIMS - ROPE) // 2
    is_tail = (pair >= 0) & (pair < ROPE // 2)
    turn = turns + row.to(tl.int64) * ROPE + 2 * pair
    cos, sin = tl.load(turn, mask=is_tail, other=1.0), tl.load(turn + 1, mask=is_tail, other=0.0)
    y = _turned_back(x / whole[:, None], cos[None, :], sin[None, :], OWN_HEADS, WIDTH)
    places_of_heads = (row.to(tl.int64) * HEADS + head)[:, None] * DIMS + column[None, :]
    tl.store(out + places_of_heads, y, mask=(head[:, None] < HEADS) & (column[None, :] < DIMS))


@triton.jit
def _turned_back(x, cos, sin, ROWS: tl.constexpr, SIZE: tl.constexpr):
    """(ROWS, SIZE) by (1, SIZE / 2): pairs turned by the opposite angle."""
    first, second = tl.split(tl.reshape(x, (ROWS, SIZE // 2, 2)))
    return tl.reshape(tl.join(first * cos + second * sin, second * cos - first * sin), (ROWS, SIZE))


@triton.jit
def _words(address, index):
    """The uint32 words at `index` (1, m) from addresses (k, 1) on, which may lie anywhere: two aligned loads each."""
    byte = (address & 3).to(tl.uint32)
    aligned = (address - byte).to(tl.pointer_type(tl.uint32))
    low = tl.load(aligned + index)
    high = tl.load(aligned + tl.minimum(byte, 1).to(tl.int32) + index)  # the same one again where nothing is missing
    shift = byte * 8
    return (low >> shift) | ((high << 1) << (shift ^ 31))


@triton.jit
def _packed_piece(address, OFFSET: tl.constexpr, SIZE: tl.constexpr, PLAIN: tl.constexpr):
    """(KEYS, SIZE) plain numbers of packed rows, as operands: exact, for e4m3 times a power of two is a bf16 number.

    e4m3 shifted is a half, subnormals and all, whose exponent is 8 more; two of them are made at a time.
    """
    index = OFFSET // 4 + tl.arange(0, SIZE // 4)[None, :]
    words = _words(address, index)
    block = (address + PLAIN).to(tl.pointer_type(tl.uint8)) + index // 16
    factor = (tl.minimum(tl.load(block).to(tl.int32) + 8, 255) << 23).to(tl.float32, bitcast=True)
    even = ((words & 0x007F007F) << 7) | ((words & 0x00800080) << 8)
    odd = ((words & 0x7F007F00) >> 1) | (words & 0x80008000)
    first, third = _half(even) * factor, _half(even >> 16) * factor
    second, fourth = _half(odd) * factor, _half(odd >> 16) * factor
    pairs = tl.join(tl.join(first, third), tl.join(second, fourth))
    # rounded last: Triton 3.6 fails where an operand in shared memory comes straight from a reshape
    return rounded(tl.reshape(pairs, (address.shape[0], SIZE)))


@triton.jit
def _half(word):
    """The f16 number in the low half of a word."""
    return word.to(tl.uint16).to(tl.float16, bitcast=True).to(tl.float32)


@triton.jit
def _piece(
    address, OFFSET: tl.constexpr, SIZE: tl.constexpr, KIND: tl.constexpr, DIMS: tl.constexpr, ROPE: tl.constexpr
):
    """(KEYS, SIZE) f32: any numbers of plain rows, or the tail of packed ones."""
    column = tl.arange(0, SIZE)[None, :]
    if KIND == F32:
        numbers = tl.load(address.to(tl.pointer_type(tl.float32)) + OFFSET + column)
    elif KIND == F16:
        numbers = tl.load(address.to(tl.pointer_type(tl.float16)) + OFFSET + column).to(tl.float32)
    else:
        tail = address + (DIMS - ROPE + (DIMS - ROPE + 63) // 64)
        if KIND == PACKED_KV:
            numbers = _words(tail, column).to(tl.float32, bitcast=True)
        else:
            numbers = _half(_words(tail, column // 2) >> ((column % 2) * 16))
    return numbers


def _specimen(
    name: str, is_few: bool, is_many: bool, top: int = 0, kind: RowKind = RowKind.PACKED_KV, is_wide: bool = True
) -> Specimen:
    pointers = dict.fromkeys(("queries", "sinks", "turns", "sums", "tops"), "*fp32") | {"rows": "*u8", "bases": "*i64"}
    pointers |= {} if is_few else {"queries": "*bf16"}
    ints = ("positions", "counts", "picked", "starts", "row_starts", "span_of_row", "fresh")
    signature = pointers | dict.fromkeys(ints, "*i32") | {"place": "i32", "num_spans": "i32", "scale": "fp32"}
    sizes = _program_sizes(64, is_few, is_wide) | {"IS_WHOLE": is_many}
    sizes |= _row_sizes(RowFormat(kind, 512, 64), FEW_DIMS if is_few else MANY_DIMS)
    constants = _BOTH | sizes | {"TOP": top, "PART_KEYS": FEW_KEYS if is_few else SOME_KEYS}
    # where not few, numbers that follow from a thread's place alone are kept in local memory and read again
    return Specimen(name, _attend, signature, constants, num_warps=8, num_stages=1, is_hot=is_few and top > 0)


_BOTH = {"HEADS": 64, "DIMS": 512, "ROPE": 64, "PART_KEYS": FEW_KEYS, "WINDOW": 128, "HAS_COUNTS": True}
_PARTS = dict.fromkeys(("sums", "tops", "sinks", "turns", "out"), "*fp32") | {"positions": "*i32", "counts": "*i32"}
_PARTS |= {"parts": "i32"}
_TWENTY = {"TOP": 512, "PARTS_WIDTH": 32, "WIDTH": 512, "OWN_HEADS": 1}
SPECIMENS = (
    _specimen("attend few picked", True, False, top=512),
    _specimen("attend few counted", True, False),
    _specimen("attend some picked", False, False, top=512),
    _specimen("attend many picked", False, True, top=512),
    _specimen("attend many counted", False, True),
    _specimen("attend many picked, not Hopper", False, True, top=512, is_wide=False),
    _specimen("attend few f16", True, False, kind=RowKind.F16),
    Specimen("attend join 20", _join, _PARTS, _BOTH | _TWENTY),
)
