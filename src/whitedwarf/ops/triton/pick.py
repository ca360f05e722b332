"""The indexer's choice of compressed rows (fact sheet 2.5), for all spans of a pass: scores, then the best ones.

The first launch scores blocks of keys against the heads of queries in tensor cores. Packed keys and the queries that
`index_query` made are FP4 numbers times powers of two, so a bf16 product is exact; other kinds are sums of two bf16.
The second finds each query's `top`-th best score digit by digit (four histograms of 256 bins) and writes the rows in
ascending order: those above it, and the first of those equal to it. Twin: ops/twins/index.py.

Flash, H200 at 4.3 TB/s, 8k deep (2048 keys of 68 bytes). One row: 16 programs, 3 us; the choice reads 8 KiB five times
in one program, 5 us. 32 rows: 512 programs, 4 us; 5 us. 128k deep: 32768 keys, 2.2 MiB, 256 programs, 4 us; the choice
walks through 128 KiB five times, 20 us. Prefill of 2048 rows at 8k: 2 G scores of 128 products for 64 heads, 86 GFLOP,
150 us; 2048 choices, 40 us.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from whitedwarf.ops.base import RowFormat, RowKind
from whitedwarf.ops.triton.operands import remainder, rounded
from whitedwarf.ops.triton.packing import F32, KINDS, PACKED_KEY
from whitedwarf.ops.triton.span_table import KEYS, SpanTable
from whitedwarf.ops.triton.specimen import Specimen

SCORE_BYTES = 256 << 20  # more scores than that are made and used slice by slice
BLOCK = 4096  # scores that a choice looks at at a time


def pick(
    table: SpanTable,
    layer: int,
    queries: Tensor,
    weights: Tensor,
    format: RowFormat,
    counts: Tensor,
    most: int,
    top: int,
) -> Tensor:
    """The `top` best keys below each count -> (n, top) int32 ascending, padded with -1; ties go to the lowest row.

    queries (n, heads, d) of `index_query`, weights (n, heads) already scaled; no count is larger than `most`.
    """
    n = len(queries)
    picked = torch.empty((n, top), dtype=torch.int32, device=queries.device)
    step = max(1, min(n, SCORE_BYTES // (4 * most)))
    scores = torch.empty((step, most), dtype=torch.float32, device=queries.device)
    for begin in range(0, n, step):
        end = min(n, begin + step)
        _score(table, layer, queries, weights, format, counts, scores, (begin, end))
        _choose(counts, scores, picked, (begin, end))
    return picked


def _score(
    table: SpanTable,
    layer: int,
    queries: Tensor,
    weights: Tensor,
    format: RowFormat,
    counts: Tensor,
    scores: Tensor,
    slice: tuple[int, int],
) -> None:
    """Scores (rows of the slice, most) of the keys below each count."""
    _, heads, dims = queries.shape
    most = scores.shape[1]
    own_queries = 1 if table.is_decode else 16
    blocks = triton.cdiv(table.longest, own_queries)
    tables = table.starts, table.row_starts, table.bases, table.place(layer, KEYS)
    sizes = {
        "HEADS": heads,
        "HEADS_WIDTH": max(16, triton.next_power_of_2(heads)),
        "DIMS": dims,
        "QUERIES": own_queries,
    }
    kind = {"KIND": KINDS[format.kind], "ROW_BYTES": format.row_bytes, "KEYS": 128}
    grid = (table.num_spans * blocks, triton.cdiv(most, 128))
    numbers = blocks, most, *slice
    _score_keys[grid](queries, weights, counts, scores, *tables, *numbers, **sizes, **kind, num_warps=4, num_stages=1)


def _choose(counts: Tensor, scores: Tensor, picked: Tensor, slice: tuple[int, int]) -> None:
    """The best of each row of the slice."""
    begin, end = slice
    most, top = scores.shape[1], picked.shape[1]
    block = min(BLOCK, triton.next_power_of_2(max(most, 16)))
    sizes = {"TOP": top, "TOP_WIDTH": triton.next_power_of_2(top), "BLOCK": block, "IS_ONE_BLOCK": most <= block}
    _choose_best[(end - begin,)](counts, scores, picked, begin, most, **sizes, num_warps=8)


@triton.jit(do_not_specialize=["place", "blocks", "most", "begin", "end"])
def _score_keys(
    queries,
    weights,
    counts,
    scores,
    starts,
    row_starts,
    bases,
    place,
    blocks,
    most,
    begin,
    end,
    HEADS: tl.constexpr,
    HEADS_WIDTH: tl.constexpr,
    DIMS: tl.constexpr,
    QUERIES: tl.constexpr,
    KIND: tl.constexpr,
    ROW_BYTES: tl.constexpr,
    KEYS: tl.constexpr,
):
    """A block of keys for up to QUERIES queries of a span; counts grow along a span."""
    span, block = tl.program_id(0) // blocks, tl.program_id(0) % blocks
    first = tl.load(row_starts + span) + block * QUERIES
    last = tl.minimum(tl.minimum(first + QUERIES, tl.load(row_starts + span + 1)), end)
    first = tl.maximum(first, begin)
    if first >= last:
        return
    first_key = tl.program_id(1) * KEYS
    num_keys = tl.load(counts + last - 1)
    if first_key >= num_keys:
        return
    key = first_key + tl.arange(0, KEYS)
    safe = tl.minimum(key, num_keys - 1).to(tl.int64)
    address = (tl.load(bases + place + span) + safe * ROW_BYTES)[:, None]
    head, dims = tl.arange(0, HEADS_WIDTH), tl.arange(0, DIMS)
    if KIND == PACKED_KEY:
        k_high = _packed_keys(address, DIMS)
        k_low = k_high
    else:
        if KIND == F32:
            numbers = tl.load(address.to(tl.pointer_type(tl.float32)) + dims[None, :])
        else:
            numbers = tl.load(address.to(tl.pointer_type(tl.float16)) + dims[None, :]).to(tl.float32)
        k_high = rounded(numbers)
        k_low = remainder(numbers, k_high)
    for i in range(last - first):
        row = first + i
        places = (row.to(tl.int64) * HEADS + head[:, None]) * DIMS + dims[None, :]
        q = tl.load(queries + places, mask=head[:, None] < HEADS, other=0.0)
        weight = tl.load(weights + row * HEADS + head, mask=head < HEADS, other=0.0)
        q_high = rounded(q)
        products = tl.zeros((KEYS, HEADS_WIDTH), tl.float32)
        if KIND != PACKED_KEY:
            products = tl.dot(k_high, tl.trans(remainder(q, q_high)), products)
            products = tl.dot(k_low, tl.trans(q_high), products)
        products = tl.dot(k_high, tl.trans(q_high), products)
        own = tl.sum(tl.maximum(products, 0.0) * weight[None, :], axis=1)
        count = tl.load(counts + row)
        tl.store(scores + (row - begin).to(tl.int64) * most + key, own, mask=key < count)


@triton.jit
def _packed_keys(address, DIMS: tl.constexpr):
    """(KEYS, DIMS) of packed keys, as operands: e2m1 shifted is a half whose exponent is 14 less. Two at a time."""
    index = tl.arange(0, DIMS // 8)[None, :]
    words = tl.load(address.to(tl.pointer_type(tl.uint32)) + index)
    block = address.to(tl.pointer_type(tl.uint8)) + DIMS // 2 + index // 4
    factor = (tl.minimum(tl.load(block).to(tl.int32) + 14, 255) << 23).to(tl.float32, bitcast=True)
    v0, v4 = _two_numbers(words, factor)
    v1, v5 = _two_numbers(words >> 4, factor)
    v2, v6 = _two_numbers(words >> 8, factor)
    v3, v7 = _two_numbers(words >> 12, factor)
    even = tl.join(tl.join(v0, v4), tl.join(v2, v6))
    odd = tl.join(tl.join(v1, v5), tl.join(v3, v7))
    return tl.reshape(tl.join(even, odd), (address.shape[0], DIMS))


@triton.jit
def _two_numbers(words, factor):
    """The lowest nibbles of both halves of each word."""
    halves = ((words & 0x00070007) << 9) | ((words & 0x00080008) << 12)
    low = halves.to(tl.uint16).to(tl.float16, bitcast=True).to(tl.float32)
    high = (halves >> 16).to(tl.uint16).to(tl.float16, bitcast=True).to(tl.float32)
    return rounded(low * factor), rounded(high * factor)


@triton.jit(do_not_specialize=["begin", "most"])
def _choose_best(
    counts,
    scores,
    picked,
    begin,
    most,
    TOP: tl.constexpr,
    TOP_WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    IS_ONE_BLOCK: tl.constexpr,
):
    """A row."""
    row = tl.program_id(0)
    count = tl.load(counts + begin + row)
    out = picked + (begin + row).to(tl.int64) * TOP
    scores += row.to(tl.int64) * most
    if count <= TOP:
        column = tl.arange(0, TOP_WIDTH)
        tl.store(out + column, tl.where(column < count, column, -1), mask=column < TOP)
        return
    threshold = tl.zeros((), tl.uint32)
    wanted = tl.zeros((), tl.int32) + TOP
    digit = tl.arange(0, 256)
    for i in tl.static_range(4):
        found = tl.zeros((256,), tl.int32)
        for first in range(0, BLOCK if IS_ONE_BLOCK else count, BLOCK):
            place = first + tl.arange(0, BLOCK)
            order = _order(scores, place, count)
            is_candidate = place < count
            if i > 0:
                is_candidate = is_candidate & ((order >> (32 - 8 * i)) == threshold)
            found += tl.histogram(((order >> (24 - 8 * i)) & 0xFF).to(tl.int32), 256, mask=is_candidate)
        above = tl.sum(found, axis=0) - tl.cumsum(found, axis=0)  # candidates whose digit is larger
        own = tl.sum((above >= wanted).to(tl.int32), axis=0)
        wanted -= tl.sum(tl.where(digit == own, above, 0), axis=0)
        threshold = (threshold << 8) | own.to(tl.uint32)
    num_equal, num_picked = tl.zeros((), tl.int32), tl.zeros((), tl.int32)
    for first in range(0, BLOCK if IS_ONE_BLOCK else count, BLOCK):
        place = first + tl.arange(0, BLOCK)
        order = _order(scores, place, count)
        is_equal = ((order == threshold) & (place < count)).to(tl.int32)
        rank = num_equal + tl.cumsum(is_equal, axis=0)
        is_picked = (((order > threshold) & (place < count)) | ((is_equal == 1) & (rank <= wanted))).to(tl.int32)
        to = num_picked + tl.cumsum(is_picked, axis=0) - 1
        tl.store(out + to, place, mask=is_picked == 1)
        num_equal += tl.sum(is_equal, axis=0)
        num_picked += tl.sum(is_picked, axis=0)


@triton.jit
def _order(scores, place, count):
    """Scores as uint32 in the same order; -0 is 0."""
    bits = (tl.load(scores + place, mask=place < count, other=0.0) + 0.0).to(tl.int32, bitcast=True)
    return (bits ^ ((bits >> 31) | -0x80000000)).to(tl.uint32, bitcast=True)


_SCORE = dict.fromkeys(("queries", "weights", "scores"), "*fp32") | {"bases": "*i64"}
_SCORE |= dict.fromkeys(("counts", "starts", "row_starts"), "*i32")
_SCORE |= dict.fromkeys(("place", "blocks", "most", "begin", "end"), "i32")
_HEADS = {"HEADS": 64, "HEADS_WIDTH": 64, "DIMS": 128, "KEYS": 128}
_PACKED = {"KIND": KINDS[RowKind.PACKED_KEY], "ROW_BYTES": 68}
_HALVES = {"KIND": KINDS[RowKind.F16], "ROW_BYTES": 256}
_BEST = {"counts": "*i32", "scores": "*fp32", "picked": "*i32", "begin": "i32", "most": "i32"}
_TOP = {"TOP": 512, "TOP_WIDTH": 512, "BLOCK": BLOCK}
SPECIMENS = (
    Specimen("pick score decode", _score_keys, _SCORE, _HEADS | _PACKED | {"QUERIES": 1}, num_stages=1),
    Specimen("pick score many", _score_keys, _SCORE, _HEADS | _PACKED | {"QUERIES": 16}, num_stages=1),
    Specimen("pick score f16", _score_keys, _SCORE, _HEADS | _HALVES | {"QUERIES": 16}, num_stages=1, is_hot=False),
    Specimen("pick choose short", _choose_best, _BEST, _TOP | {"IS_ONE_BLOCK": True}, num_warps=8),
    Specimen("pick choose long", _choose_best, _BEST, _TOP | {"IS_ONE_BLOCK": False}, num_warps=8),
)
