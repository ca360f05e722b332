"""The experts of few rows (n < 16), in two launches and in f32: decode.

The first makes the hidden values of every pair of a row and an expert it picked, and of every row and the shared
expert; the second multiplies them with `down`. A program of the second adds up all experts of its outputs, in the order
of the picks and then the shared one, so nothing is summed in memory; the loads of two experts are on their way at once.
Weights of an expert that two rows picked are read twice.

Flash at n = 1 reads 28 MB of routed IQ2_XXS, 16.5 MB of Q2_K and 26.7 MB of shared Q8_0 a layer: 16.5 microseconds on
an H200 at 4.3 TB/s. The IQ2_XXS is bound by its 5.5 instructions a weight, not by memory (few_rows.py): about 25 MB in
16 microseconds, so 22 a layer are to be expected.
"""

import math
from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from whitedwarf.gguf.types import GgmlType
from whitedwarf.ops.triton.blocks import POINTERS, kernel_planes, planes_of
from whitedwarf.ops.triton.dots import CHUNK_COLUMNS, chunk_columns, dot
from whitedwarf.ops.triton.interpretation import block
from whitedwarf.ops.triton.specimen import Specimen, Type
from whitedwarf.ops.twins.products import Block

HIDDEN_ROWS = block(2, 256)  # of gate and of up, a program
OUTPUT_ROWS = block(4, 512)


@triton.jit
def _row_sums(
    kind: tl.constexpr,
    planes,
    x,
    first_row,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    R: tl.constexpr,
    WARPS: tl.constexpr,
):
    """Rows of a matrix times the vector at x -> (R, 1)."""
    return tl.sum(_chunk_sums(kind, planes, x, first_row, ROWS, COLUMNS, R, WARPS), axis=2)


@triton.jit
def _chunk_sums(
    kind: tl.constexpr,
    planes,
    x,
    first_row,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    R: tl.constexpr,
    WARPS: tl.constexpr,
):
    """The same, before the sum over the chunks that lie beside each other."""
    T: tl.constexpr = chunks_at_once(kind, COLUMNS, WARPS)
    CHUNKS: tl.constexpr = COLUMNS // chunk_columns(kind)
    total = tl.zeros([R, 1, T], tl.float32)
    if CHUNKS <= 2 * T:
        for first in tl.static_range(0, CHUNKS, T):
            total += dot(kind, planes, first_row, ROWS - 1, R, first, T, x, 1, 1, COLUMNS, x, False, COLUMNS)
    else:
        for first in tl.range(0, CHUNKS, T):
            total += dot(kind, planes, first_row, ROWS - 1, R, first, T, x, 1, 1, COLUMNS, x, False, COLUMNS)
    return total


@triton.constexpr_function
def chunks_at_once(kind: int, columns: int, warps: int) -> int:
    """As many as there are threads, if a row has them."""
    chunks = columns // CHUNK_COLUMNS[GgmlType(kind)]
    return min(32 * warps, chunks & -chunks)


def warps_for(types: Sequence[GgmlType], columns: int) -> int:
    """So many that a row has a chunk for every thread: otherwise x would have to be moved between threads."""
    chunks = [columns // CHUNK_COLUMNS[type] for type in types]
    return max(1, min(4, min(count & -count for count in chunks) // 32))


@triton.jit
def swiglu(gate, up, limit):
    """silu of the gate clamped above, times up clamped on both sides."""
    gate = tl.minimum(gate, limit)
    return gate / (1.0 + tl.exp(-gate)) * tl.minimum(tl.maximum(up, -limit), limit)


@triton.jit
def _hidden(
    GATE: tl.constexpr,
    UP: tl.constexpr,
    gate,
    up,
    limit,
    share,
    x,
    out,
    first_row,
    HIDDEN: tl.constexpr,
    WIDTH: tl.constexpr,
    R: tl.constexpr,
    WARPS: tl.constexpr,
):
    rows = first_row + tl.arange(0, R)
    gates = _row_sums(GATE, gate, x, first_row, HIDDEN, WIDTH, R, WARPS)
    ups = _row_sums(UP, up, x, first_row, HIDDEN, WIDTH, R, WARPS)
    values = swiglu(gates, ups, limit) * share
    tl.store(out + rows[:, None] + tl.zeros([1], tl.int32)[None, :], values, mask=(rows < HIDDEN)[:, None])


@triton.jit(do_not_specialize=["pairs"])
def hidden_kernel(
    x,
    picked,
    shares,
    slots,
    gate,
    up,
    limit,
    shared_gate,
    shared_up,
    shared_limit,
    hidden,
    pairs,
    KINDS: tl.constexpr,
    SHARED_KINDS: tl.constexpr,
    K: tl.constexpr,
    HIDDEN: tl.constexpr,
    SHARED_HIDDEN: tl.constexpr,
    WIDTH: tl.constexpr,
    R: tl.constexpr,
    WARPS: tl.constexpr,
    HAS_SLOTS: tl.constexpr,
    HAS_SHARED: tl.constexpr,
):
    tiles: tl.constexpr = (HIDDEN + R - 1) // R
    program = tl.program_id(0)
    if program < pairs * tiles:
        pair = program // tiles
        place = tl.load(picked + pair)
        if HAS_SLOTS:
            place = tl.load(slots + place)
        mine = planes_of(KINDS[0], gate, place, HIDDEN * WIDTH), planes_of(KINDS[1], up, place, HIDDEN * WIDTH)
        out, first_row = hidden + pair * HIDDEN, program % tiles * R
        share = tl.load(shares + pair)
        xs = x + pair // K * WIDTH
        _hidden(KINDS[0], KINDS[1], mine[0], mine[1], limit, share, xs, out, first_row, HIDDEN, WIDTH, R, WARPS)
    elif HAS_SHARED:
        shared_tiles: tl.constexpr = (SHARED_HIDDEN + R - 1) // R
        row, first_row = (program - pairs * tiles) // shared_tiles, (program - pairs * tiles) % shared_tiles * R
        out = hidden + pairs * HIDDEN + row * SHARED_HIDDEN
        _hidden(
            SHARED_KINDS[0],
            SHARED_KINDS[1],
            shared_gate,
            shared_up,
            shared_limit,
            1.0,
            x + row * WIDTH,
            out,
            first_row,
            SHARED_HIDDEN,
            WIDTH,
            R,
            WARPS,
        )


@triton.jit(do_not_specialize=["pairs"])
def down_kernel(
    hidden,
    picked,
    slots,
    down,
    shared_down,
    out,
    pairs,
    KIND: tl.constexpr,
    SHARED_KIND: tl.constexpr,
    K: tl.constexpr,
    HIDDEN: tl.constexpr,
    SHARED_HIDDEN: tl.constexpr,
    WIDTH: tl.constexpr,
    R: tl.constexpr,
    WARPS: tl.constexpr,
    AT_ONCE: tl.constexpr,
    HAS_SLOTS: tl.constexpr,
    HAS_SHARED: tl.constexpr,
):
    tiles: tl.constexpr = (WIDTH + R - 1) // R
    row, first_row = tl.program_id(0) // tiles, tl.program_id(0) % tiles * R
    rows = first_row + tl.arange(0, R)
    total = tl.zeros([R, 1, chunks_at_once(KIND, HIDDEN, WARPS)], tl.float32)
    for first in tl.range(0, K, AT_ONCE):
        for i in tl.static_range(AT_ONCE):
            pair = row * K + first + i
            place = tl.load(picked + pair)
            if HAS_SLOTS:
                place = tl.load(slots + place)
            mine = planes_of(KIND, down, place, HIDDEN * WIDTH)
            total += _chunk_sums(KIND, mine, hidden + pair * HIDDEN, first_row, WIDTH, HIDDEN, R, WARPS)
    sums = tl.sum(total, axis=2)
    if HAS_SHARED:
        xs = hidden + pairs * HIDDEN + row * SHARED_HIDDEN
        sums += _row_sums(SHARED_KIND, shared_down, xs, first_row, WIDTH, SHARED_HIDDEN, R, WARPS)
    places = out + row * WIDTH + rows[:, None] + tl.zeros([1], tl.int32)[None, :]
    tl.store(places, sums, mask=(rows < WIDTH)[:, None])


def experts_few(
    x: Tensor, picked: Tensor, shares: Tensor, routed: Block, shared: Block | None, slots: Tensor | None
) -> Tensor:
    """As `experts` of the twins (ops/twins/products.py)."""
    n, k = picked.shape
    width, hidden_width = x.shape[1], routed.gate.shape[-2]
    also = routed if shared is None else shared
    shared_width = also.gate.shape[-2]
    flags = {"HAS_SLOTS": slots is not None, "HAS_SHARED": shared is not None}
    sizes = {"K": k, "HIDDEN": hidden_width, "SHARED_HIDDEN": shared_width, "WIDTH": width}
    warps = warps_for([routed.gate.type, routed.up.type, also.gate.type, also.up.type], width)
    down_warps = warps_for([routed.down.type, also.down.type], math.gcd(hidden_width, shared_width))
    hidden = torch.empty(n * (k * hidden_width + shared_width), dtype=torch.float32, device=x.device)
    places = picked if slots is None else slots
    programs = n * k * -(-hidden_width // HIDDEN_ROWS) + (n * -(-shared_width // HIDDEN_ROWS) if shared else 0)
    hidden_kernel[(programs,)](
        x,
        picked,
        shares,
        places,
        kernel_planes(routed.gate),
        kernel_planes(routed.up),
        float(routed.limit),
        kernel_planes(also.gate),
        kernel_planes(also.up),
        float(also.limit),
        hidden,
        n * k,
        KINDS=(int(routed.gate.type), int(routed.up.type)),
        SHARED_KINDS=(int(also.gate.type), int(also.up.type)),
        R=HIDDEN_ROWS,
        WARPS=warps,
        num_warps=warps,
        enable_fp_fusion=True,
        **sizes,
        **flags,
    )
    out = torch.empty_like(x)
    down_kernel[(n * -(-width // OUTPUT_ROWS),)](
        hidden,
        picked,
        places,
        kernel_planes(routed.down),
        kernel_planes(also.down),
        out,
        n * k,
        KIND=int(routed.down.type),
        SHARED_KIND=int(also.down.type),
        R=OUTPUT_ROWS,
        AT_ONCE=2 - k % 2,
        WARPS=down_warps,
        num_warps=down_warps,
        enable_fp_fusion=True,
        **sizes,
        **flags,
    )
    return out


def _specimens(name: str, gate: GgmlType, down: GgmlType, has_slots: bool) -> tuple[Specimen, Specimen]:
    common = {
        "K": 6,
        "HIDDEN": 2048,
        "SHARED_HIDDEN": 2048,
        "WIDTH": 4096,
        "HAS_SLOTS": has_slots,
        "HAS_SHARED": True,
    }
    q8 = GgmlType.Q8_0
    warps, down_warps = warps_for([gate, q8], 4096), warps_for([down, q8], 2048)
    first: dict[str, Type] = {
        "x": "*fp32",
        "picked": "*i32",
        "shares": "*fp32",
        "slots": "*i32",
        "gate": POINTERS[gate],
        "up": POINTERS[gate],
        "limit": "fp32",
        "shared_gate": POINTERS[q8],
        "shared_up": POINTERS[q8],
        "shared_limit": "fp32",
        "hidden": "*fp32",
        "pairs": "i32",
    }
    second: dict[str, Type] = {
        "hidden": "*fp32",
        "picked": "*i32",
        "slots": "*i32",
        "down": POINTERS[down],
        "shared_down": POINTERS[q8],
        "out": "*fp32",
        "pairs": "i32",
    }
    kinds = {"KINDS": (int(gate), int(gate)), "SHARED_KINDS": (int(q8), int(q8)), "R": HIDDEN_ROWS, "WARPS": warps}
    down_kinds = {"KIND": int(down), "SHARED_KIND": int(q8), "R": OUTPUT_ROWS, "AT_ONCE": 2, "WARPS": down_warps}
    return (
        Specimen(f"experts few {name} hidden", hidden_kernel, first, common | kinds, warps),
        Specimen(f"experts few {name} down", down_kernel, second, common | down_kinds, down_warps),
    )


SPECIMENS = (
    *_specimens("q2", GgmlType.IQ2_XXS, GgmlType.Q2_K, False),
    *_specimens("mxfp4", GgmlType.MXFP4, GgmlType.MXFP4, True),
)
