"""The experts of many rows (n >= 16), by tensor cores: decoding many sequences, and prefill.

Pairs of a row and an expert are sorted by expert (picks.py); a program takes a block of pairs of one expert and a tile
of its outputs, spells the weights once for all of them, and gathers the rows of x it needs. The shared expert is
further blocks of the same launches. Hidden values stay in bf16, in the order of the blocks; the outputs of each pair go
to their own place, and a last launch adds them up in the order of the picks, then the shared one. Seven launches,
whatever was picked, and nothing is asked of the device.

What it costs on an H200: of 32 rows of Flash about 136 experts a layer are read, 960 MB: 224 microseconds at 4.3 TB/s;
spelling them takes about 9 instructions a weight, 3.4e9 weights: 1.1 ms at one instruction a lane and cycle on
132 x 128 lanes, so arithmetic bounds it. A chunk of 2048 rows multiplies 7 experts of 2.5e7 weights a row, 7.2e11
operations a layer: 1.5 ms at half of 990 TFLOPS, beside 3 ms for spelling 6.4e9 weights.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from whitedwarf.gguf.types import GgmlType
from whitedwarf.ops.triton.blocks import POINTERS, kernel_planes, planes_of
from whitedwarf.ops.triton.dots import chunk_columns
from whitedwarf.ops.triton.experts_few import swiglu
from whitedwarf.ops.triton.interpretation import block
from whitedwarf.ops.triton.operands import rounded
from whitedwarf.ops.triton.picks import SortedPicks, sort_picks
from whitedwarf.ops.triton.rounded_rows import OPERAND, rounded_rows
from whitedwarf.ops.triton.shared_memory import LARGE, shared_memory
from whitedwarf.ops.triton.specimen import Specimen, Type
from whitedwarf.ops.triton.tiles import load_tile, multiplied, spell, tile_columns, tile_sums
from whitedwarf.ops.twins.products import Block

MOST_ROWS = 2048  # of x at once: the outputs of their pairs are 235 MB
_SUMMED = block(1024, 4096)


@triton.jit
def _gate_and_up(
    GATE: tl.constexpr,
    UP: tl.constexpr,
    gate,
    up,
    limit,
    shares,
    x_at,
    mask,
    out,
    first_out,
    HIDDEN: tl.constexpr,
    WIDTH: tl.constexpr,
    BN: tl.constexpr,
    BM: tl.constexpr,
    BK: tl.constexpr,
    IS_LEFT: tl.constexpr,
):
    """Hidden values of rows of x at pointers x_at (BM, 1), for BN outputs, to pointers out (BM, 1)."""
    GATE_T: tl.constexpr = BK // chunk_columns(GATE)
    UP_T: tl.constexpr = BK // chunk_columns(UP)
    ks, outs, last = tl.arange(0, BK), first_out + tl.arange(0, BN), HIDDEN - 1
    gates = tl.zeros([BN, BM] if IS_LEFT else [BM, BN], tl.float32)
    ups = gates
    gate_raw = load_tile(GATE, gate, first_out, last, BN, 0, GATE_T, WIDTH)
    up_raw = load_tile(UP, up, first_out, last, BN, 0, UP_T, WIDTH)
    for step in tl.range(0, WIDTH // BK):
        following = tl.minimum(step + 1, WIDTH // BK - 1)
        xs = tl.load(x_at + (step * BK + ks)[None, :], mask=mask, other=0.0)
        w = spell(GATE, gate_raw, gate[2], step * GATE_T, GATE_T)
        gate_raw = load_tile(GATE, gate, first_out, last, BN, following * GATE_T, GATE_T, WIDTH)
        gates = multiplied(xs, w, gates, IS_LEFT)
        w = spell(UP, up_raw, up[2], step * UP_T, UP_T)
        up_raw = load_tile(UP, up, first_out, last, BN, following * UP_T, UP_T, WIDTH)
        ups = multiplied(xs, w, ups, IS_LEFT)
    values = swiglu(gates, ups, limit)
    if IS_LEFT:
        values = tl.trans(values)
    tl.store(out + outs[None, :], rounded(values * shares[:, None]), mask=mask & (outs < HIDDEN)[None, :])


@triton.jit
def hidden_tiles_kernel(
    x,
    order,
    block_places,
    block_firsts,
    ends,
    shares,
    gate,
    up,
    limit,
    shared_gate,
    shared_up,
    shared_limit,
    hidden,
    n,
    pairs,
    blocks,
    shared_blocks,
    KINDS: tl.constexpr,
    SHARED_KINDS: tl.constexpr,
    K: tl.constexpr,
    HIDDEN: tl.constexpr,
    SHARED_HIDDEN: tl.constexpr,
    WIDTH: tl.constexpr,
    BN: tl.constexpr,
    BM: tl.constexpr,
    BK: tl.constexpr,
    SHARED_BK: tl.constexpr,
    IS_LEFT: tl.constexpr,
):
    tile, own = tl.program_id(0) // blocks, tl.program_id(0) % blocks
    if own < shared_blocks:
        if tile * BN < SHARED_HIDDEN:
            rows = own * BM + tl.arange(0, BM)
            mask = (rows < n)[:, None]
            out = hidden + pairs * HIDDEN + rows[:, None] * SHARED_HIDDEN
            ones = tl.full([BM], 1.0, tl.float32)
            _gate_and_up(
                SHARED_KINDS[0],
                SHARED_KINDS[1],
                shared_gate,
                shared_up,
                shared_limit,
                ones,
                x + rows[:, None] * WIDTH,
                mask,
                out,
                tile * BN,
                SHARED_HIDDEN,
                WIDTH,
                BN,
                BM,
                SHARED_BK,
                IS_LEFT,
            )
    else:
        place = tl.load(block_places + own - shared_blocks)
        if (place >= 0) & (tile * BN < HIDDEN):
            positions = tl.load(block_firsts + own - shared_blocks) + tl.arange(0, BM)
            is_row = positions < tl.load(ends + place)
            pair = tl.load(order + positions, mask=is_row, other=0)
            mine = planes_of(KINDS[0], gate, place, HIDDEN * WIDTH), planes_of(KINDS[1], up, place, HIDDEN * WIDTH)
            _gate_and_up(
                KINDS[0],
                KINDS[1],
                mine[0],
                mine[1],
                limit,
                tl.load(shares + pair),
                x + (pair // K)[:, None] * WIDTH,
                is_row[:, None],
                hidden + positions[:, None] * HIDDEN,
                tile * BN,
                HIDDEN,
                WIDTH,
                BN,
                BM,
                BK,
                IS_LEFT,
            )


@triton.jit
def down_tiles_kernel(
    hidden,
    order,
    block_places,
    block_firsts,
    ends,
    down,
    shared_down,
    outputs,
    n,
    pairs,
    blocks,
    shared_blocks,
    KIND: tl.constexpr,
    SHARED_KIND: tl.constexpr,
    HIDDEN: tl.constexpr,
    SHARED_HIDDEN: tl.constexpr,
    WIDTH: tl.constexpr,
    BN: tl.constexpr,
    BM: tl.constexpr,
    BK: tl.constexpr,
    SHARED_BK: tl.constexpr,
    IS_LEFT: tl.constexpr,
):
    tile, own = tl.program_id(0) // blocks, tl.program_id(0) % blocks
    outs, last = tile * BN + tl.arange(0, BN), WIDTH - 1
    if own < shared_blocks:
        rows = own * BM + tl.arange(0, BM)
        mask = (rows < n)[:, None]
        x_at = hidden + pairs * HIDDEN + rows[:, None] * SHARED_HIDDEN
        steps: tl.constexpr = SHARED_HIDDEN // SHARED_BK
        sums = tile_sums(
            SHARED_KIND, shared_down, tile * BN, last, x_at, mask, 0, steps, SHARED_HIDDEN, BN, BM, SHARED_BK, IS_LEFT
        )
        tl.store(outputs + (pairs + rows)[:, None] * WIDTH + outs[None, :], sums, mask=mask & (outs < WIDTH)[None, :])
    else:
        place = tl.load(block_places + own - shared_blocks)
        if place >= 0:
            positions = tl.load(block_firsts + own - shared_blocks) + tl.arange(0, BM)
            is_row = positions < tl.load(ends + place)
            pair = tl.load(order + positions, mask=is_row, other=0)
            mine = planes_of(KIND, down, place, HIDDEN * WIDTH)
            x_at, mask = hidden + positions[:, None] * HIDDEN, is_row[:, None]
            sums = tile_sums(KIND, mine, tile * BN, last, x_at, mask, 0, HIDDEN // BK, HIDDEN, BN, BM, BK, IS_LEFT)
            tl.store(outputs + pair[:, None] * WIDTH + outs[None, :], sums, mask=mask & (outs < WIDTH)[None, :])


@triton.jit
def sum_pairs_kernel(
    outputs, out, pairs, K: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, HAS_SHARED: tl.constexpr
):
    row = tl.program_id(0)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = columns < WIDTH
    total = tl.zeros([BLOCK], tl.float32)
    for i in tl.static_range(K):
        total += tl.load(outputs + (row * K + i) * WIDTH + columns, mask=mask, other=0.0)
    if HAS_SHARED:
        total += tl.load(outputs + (pairs + row) * WIDTH + columns, mask=mask, other=0.0)
    tl.store(out + row * WIDTH + columns, total, mask=mask)


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes of blocks and tiles."""

    rows: int  # pairs of a block
    hidden_outputs: int  # of a tile
    outputs: int
    is_left: bool
    num_warps: int
    num_stages: int


def plan(pairs: int, num_places: int, widest: int, shared_bytes: int) -> Plan:
    """By how many pairs an expert has on the average; a row's result depends on it in the last bits at most.

    `widest` is the largest number of columns of a step, all of whose tiles must fit into shared memory.
    """
    average = pairs / num_places
    rows = next((rows for rows, most in ((16, 8), (32, 24), (64, 48)) if average <= most), 128)
    is_left, stages = rows < 64, 3
    while stages > 1 and shared_bytes < 2 * widest * (128 + stages * rows):
        stages -= 1
    outputs = block(64, 512) if is_left else block(128, 512)
    return Plan(rows, block(64, 256), outputs, is_left, 4 if is_left else 8, stages)


def experts_many(
    x: Tensor, picked: Tensor, shares: Tensor, routed: Block, shared: Block | None, slots: Tensor | None
) -> Tensor:
    """As `experts` of the twins (ops/twins/products.py)."""
    out = torch.empty_like(x)
    for first in range(0, len(x), MOST_ROWS):
        rows = slice(first, first + MOST_ROWS)
        _experts(x[rows], picked[rows], shares[rows], routed, shared, slots, out[rows])
    return out


def _experts(
    x: Tensor,
    picked: Tensor,
    shares: Tensor,
    routed: Block,
    shared: Block | None,
    slots: Tensor | None,
    out: Tensor,
) -> None:
    n, k = picked.shape
    num_places, hidden_width, width = routed.gate.shape
    also = routed if shared is None else shared
    types = [weight.type for own in (routed, also) for weight in (own.gate, own.up, own.down)]
    how = plan(n * k, num_places, tile_columns(width, *types), shared_memory(x.device))
    picks = sort_picks(picked, slots, num_places, how.rows)
    shared_blocks = 0 if shared is None else -(-n // how.rows)
    shared_width = also.gate.shape[-2]
    hidden = torch.empty(n * (k * hidden_width + shared_width), dtype=OPERAND, device=x.device)
    outputs = torch.empty((n * (k + 1) if shared else n * k, width), dtype=torch.float32, device=x.device)
    common = _launch_options(how) | {"HIDDEN": hidden_width, "SHARED_HIDDEN": shared_width, "WIDTH": width}
    blocks = shared_blocks + picks.most_blocks
    widest = max(hidden_width, shared_width)
    hidden_tiles_kernel[(blocks * -(-widest // how.hidden_outputs),)](
        rounded_rows(x, None, 0.0),
        *_tables(picks),
        shares,
        kernel_planes(routed.gate),
        kernel_planes(routed.up),
        float(routed.limit),
        kernel_planes(also.gate),
        kernel_planes(also.up),
        float(also.limit),
        hidden,
        n,
        n * k,
        blocks,
        shared_blocks,
        KINDS=(int(routed.gate.type), int(routed.up.type)),
        SHARED_KINDS=(int(also.gate.type), int(also.up.type)),
        K=k,
        BN=how.hidden_outputs,
        BK=tile_columns(width, routed.gate.type, routed.up.type),
        SHARED_BK=tile_columns(width, also.gate.type, also.up.type),
        **common,
    )
    down_tiles_kernel[(blocks * -(-width // how.outputs),)](
        hidden,
        *_tables(picks),
        kernel_planes(routed.down),
        kernel_planes(also.down),
        outputs,
        n,
        n * k,
        blocks,
        shared_blocks,
        KIND=int(routed.down.type),
        SHARED_KIND=int(also.down.type),
        BN=how.outputs,
        BK=tile_columns(hidden_width, routed.down.type),
        SHARED_BK=tile_columns(shared_width, also.down.type),
        **common,
    )
    sum_pairs_kernel[(n, -(-width // _SUMMED))](
        outputs, out, n * k, K=k, WIDTH=width, BLOCK=_SUMMED, HAS_SHARED=shared is not None
    )


def _tables(picks: SortedPicks) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return picks.order, picks.places, picks.firsts, picks.ends


def _launch_options(how: Plan) -> dict[str, object]:
    return {
        "BM": how.rows,
        "IS_LEFT": how.is_left,
        "num_warps": how.num_warps,
        "num_stages": how.num_stages,
        "enable_fp_fusion": True,
    }


def _specimens(name: str, gate: GgmlType, down: GgmlType, n: int) -> tuple[Specimen, Specimen]:
    how, q8 = plan(6 * n, 256, tile_columns(4096, gate, down), LARGE), GgmlType.Q8_0
    tables: dict[str, Type] = dict.fromkeys(("order", "block_places", "block_firsts", "ends"), "*i32")
    counts: dict[str, Type] = dict.fromkeys(("n", "pairs", "blocks", "shared_blocks"), "i32")
    first: dict[str, Type] = {
        "x": "*bf16",
        "shares": "*fp32",
        "gate": POINTERS[gate],
        "up": POINTERS[gate],
        "limit": "fp32",
        "shared_gate": POINTERS[q8],
        "shared_up": POINTERS[q8],
        "shared_limit": "fp32",
        "hidden": "*bf16",
    }
    second: dict[str, Type] = {
        "hidden": "*bf16",
        "down": POINTERS[down],
        "shared_down": POINTERS[q8],
        "outputs": "*fp32",
    }
    sizes = {"HIDDEN": 2048, "SHARED_HIDDEN": 2048, "WIDTH": 4096, "BM": how.rows, "IS_LEFT": how.is_left}
    hidden_sizes = {
        "KINDS": (int(gate), int(gate)),
        "SHARED_KINDS": (int(q8), int(q8)),
        "K": 6,
        "BN": how.hidden_outputs,
        "BK": tile_columns(4096, gate),
        "SHARED_BK": tile_columns(4096, q8),
    }
    down_sizes = {
        "KIND": int(down),
        "SHARED_KIND": int(q8),
        "BN": how.outputs,
        "BK": tile_columns(2048, down),
        "SHARED_BK": tile_columns(4096, q8),
    }
    unaligned = frozenset(tables)
    options = (how.num_warps, how.num_stages, unaligned)
    return (
        Specimen(
            f"experts many {name} n{n} hidden",
            hidden_tiles_kernel,
            first | tables | counts,
            sizes | hidden_sizes,
            *options,
        ),
        Specimen(
            f"experts many {name} n{n} down", down_tiles_kernel, second | tables | counts, sizes | down_sizes, *options
        ),
    )


SPECIMENS = (
    *_specimens("q2", GgmlType.IQ2_XXS, GgmlType.Q2_K, 32),
    *_specimens("q2", GgmlType.IQ2_XXS, GgmlType.Q2_K, 2048),
    *_specimens("mxfp4", GgmlType.MXFP4, GgmlType.MXFP4, 2048),
    Specimen(
        "experts many sum",
        sum_pairs_kernel,
        {"outputs": "*fp32", "out": "*fp32", "pairs": "i32"},
        {"K": 6, "WIDTH": 4096, "BLOCK": 1024, "HAS_SHARED": True},
    ),
)
