"""Picks of experts sorted by expert, on the device: which pairs of a row and an expert a tile of rows takes.

Three launches: ranks of the pairs of a chunk among those with the same place; where each place and each chunk begins;
then the pairs in their order, and the blocks of at most `block_rows` pairs of one place. Equal places stay in the order
of the pairs, so the result is the same every time. The grid of what works on blocks is as large as the worst case:
there are never more than `most_blocks`, and those too many have place -1.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from whitedwarf.ops.triton.interpretation import block
from whitedwarf.ops.triton.specimen import Specimen

CHUNK = block(256, 1024)  # pairs
BLOCKS = block(32, 256)  # whose places a program finds


@triton.jit(do_not_specialize=["pairs"])
def ranks_kernel(
    picked,
    slots,
    places,
    ranks,
    counts,
    pairs,
    NUM_PLACES: tl.constexpr,
    BINS: tl.constexpr,
    CHUNK: tl.constexpr,
    HAS_SLOTS: tl.constexpr,
):
    own = tl.arange(0, CHUNK)
    at = tl.program_id(0) * CHUNK + own
    place = tl.load(picked + at, mask=at < pairs, other=0)
    if HAS_SLOTS:
        place = tl.load(slots + place)
    place = tl.where(at < pairs, place, NUM_PLACES)
    is_before = (place[:, None] == place[None, :]) & (own[:, None] > own[None, :])
    tl.store(places + at, place, mask=at < pairs)
    tl.store(ranks + at, tl.sum(is_before.to(tl.int32), axis=1), mask=at < pairs)
    tl.store(counts + tl.program_id(0) * BINS + tl.arange(0, BINS), tl.histogram(place, BINS, mask=at < pairs))


@triton.jit
def starts_kernel(
    counts, starts, ends, block_ends, chunks, NUM_PLACES: tl.constexpr, BINS: tl.constexpr, BM: tl.constexpr
):
    bins = tl.arange(0, BINS)
    running = tl.zeros([BINS], tl.int32)
    for chunk in tl.range(0, chunks):
        here = counts + chunk * BINS + bins
        count = tl.load(here)
        tl.store(here, running)  # now: how many there are in earlier chunks
        running += count
    totals = tl.where(bins < NUM_PLACES, running, 0)
    place_ends = tl.cumsum(totals, axis=0)
    tl.store(starts + bins, place_ends - totals)
    tl.store(ends + bins, place_ends)
    tl.store(block_ends + bins, tl.cumsum((totals + BM - 1) // BM, axis=0))


@triton.jit(do_not_specialize=["pairs", "chunks"])
def order_kernel(
    places,
    ranks,
    counts,
    starts,
    ends,
    block_ends,
    order,
    block_places,
    block_firsts,
    pairs,
    chunks,
    NUM_PLACES: tl.constexpr,
    BINS: tl.constexpr,
    BM: tl.constexpr,
    CHUNK: tl.constexpr,
    BLOCKS: tl.constexpr,
):
    program = tl.program_id(0)
    if program < chunks:
        at = program * CHUNK + tl.arange(0, CHUNK)
        mask = at < pairs
        place = tl.load(places + at, mask=mask, other=0)
        position = tl.load(starts + place) + tl.load(counts + program * BINS + place)
        tl.store(order + position + tl.load(ranks + at, mask=mask, other=0), at, mask=mask)
    else:
        blocks = (program - chunks) * BLOCKS + tl.arange(0, BLOCKS)
        bins = tl.arange(0, BINS)
        owner = tl.sum((tl.load(block_ends + bins)[None, :] <= blocks[:, None]).to(tl.int32), axis=1)
        held = tl.minimum(owner, NUM_PLACES - 1)
        start = tl.load(starts + held)
        own_blocks = (tl.load(ends + held) - start + BM - 1) // BM
        within = blocks - (tl.load(block_ends + held) - own_blocks)
        tl.store(block_places + blocks, tl.where(owner < NUM_PLACES, owner, -1))
        tl.store(block_firsts + blocks, start + within * BM)


@dataclass(frozen=True, slots=True)
class SortedPicks:
    """Pairs by place: block b, of place p = places[b], is order[firsts[b] : min(firsts[b] + block_rows, ends[p])]."""

    order: Tensor  # (pairs,) int32: pair = row * k + pick
    places: Tensor  # (most_blocks or more,) int32; -1 = no block
    firsts: Tensor  # the same
    ends: Tensor  # (number of places or more,) int32: the end of each in `order`
    most_blocks: int
    block_rows: int


def sort_picks(picked: Tensor, slots: Tensor | None, num_places: int, block_rows: int) -> SortedPicks:
    """Sort picks (n, k) int32 of experts, which lie at `slots` (E,) or at their own numbers, below num_places."""
    pairs, bins = picked.numel(), triton.next_power_of_2(num_places + 1)
    chunks = -(-pairs // CHUNK)
    most_blocks = min(pairs, pairs // block_rows + num_places)
    tables = -(-most_blocks // BLOCKS)
    space = torch.empty(3 * pairs + (chunks + 3) * bins + 2 * tables * BLOCKS, dtype=torch.int32, device=picked.device)
    sizes = (pairs, pairs, pairs, chunks * bins, bins, bins, bins, tables * BLOCKS, tables * BLOCKS)
    places, ranks, order, counts, starts, ends, block_ends, block_places, block_firsts = space.split(sizes)
    given = picked if slots is None else slots
    common = {"NUM_PLACES": num_places, "BINS": bins}
    ranks_kernel[(chunks,)](
        picked, given, places, ranks, counts, pairs, CHUNK=CHUNK, HAS_SLOTS=slots is not None, num_warps=8, **common
    )
    starts_kernel[(1,)](counts, starts, ends, block_ends, chunks, BM=block_rows, **common)
    order_kernel[(chunks + tables,)](
        places,
        ranks,
        counts,
        starts,
        ends,
        block_ends,
        order,
        block_places,
        block_firsts,
        pairs,
        chunks,
        BM=block_rows,
        CHUNK=CHUNK,
        BLOCKS=BLOCKS,
        **common,
    )
    return SortedPicks(order, block_places, block_firsts, ends, most_blocks, block_rows)


_COMMON = {"NUM_PLACES": 256, "BINS": 512}
_INTEGERS = ("places", "ranks", "counts", "starts", "ends", "block_ends", "order", "block_places", "block_firsts")
SPECIMENS = (
    Specimen(
        "picks ranks",
        ranks_kernel,
        {"picked": "*i32", "slots": "*i32", "places": "*i32", "ranks": "*i32", "counts": "*i32", "pairs": "i32"},
        _COMMON | {"CHUNK": 256, "HAS_SLOTS": True},
        num_warps=8,
        unaligned=frozenset({"ranks", "counts"}),
    ),
    Specimen(
        "picks starts",
        starts_kernel,
        {"counts": "*i32", "starts": "*i32", "ends": "*i32", "block_ends": "*i32", "chunks": "i32"},
        _COMMON | {"BM": 64},
        unaligned=frozenset({"counts"}),
    ),
    Specimen(
        "picks order",
        order_kernel,
        dict.fromkeys(_INTEGERS, "*i32") | {"pairs": "i32", "chunks": "i32"},
        _COMMON | {"BM": 64, "CHUNK": 256, "BLOCKS": 32},
        unaligned=frozenset(_INTEGERS),
        is_hot=False,
    ),
)
