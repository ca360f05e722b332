"""Products of few rows (n < 16) with weights in their blocks: decode, and the verifying of drafts.

A program takes `R` rows of one weight and up to four rows of x; one launch does several weights that share x, with the
RMS norm of x before them if there is one: x is scaled by the norm's weights as it is read, and a row's own factor goes
in at the end. Everything is f32, and a sum's order depends on the weight's shape and the launch's company, never on n.

What it costs on an H200 (4.3 TB/s, 132 processors of which each can start 128 lanes of arithmetic and 64 of logic a
cycle, 18.6 bytes of memory a cycle): Q8_0 takes about 3.3 instructions a weight, so it could do 39 weights a cycle
where memory delivers 17.5; Q4_K and MXFP4 about 5 against 33; Q2_K 5 against 56; IQ2_XXS 5.5 against 72. So the plain
formats are bound by memory and the small ones by arithmetic: about 28 weights a cycle. Of Flash's layer at n = 1, in
microseconds at full speed: query_down + kv + compressors (6.7 MB Q8_0 + 21 MB F16) 6.4; query_up with its norm 8.3;
output groups and output 8.3 each; the head (563 MB) 131.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
import triton
import triton.language as tl
from torch import Tensor

from whitedwarf.gguf.types import GgmlType
from whitedwarf.ops.triton.blocks import POINTERS, Family, kernel_planes, member
from whitedwarf.ops.triton.dots import CHUNK_COLUMNS, chunk_columns, dot
from whitedwarf.ops.triton.interpretation import block
from whitedwarf.ops.triton.specimen import Specimen
from whitedwarf.ops.twins.planes import TorchWeight

FEW = 16  # rows from which on the tensor-core products are used
ROWS_AT_ONCE = block(4, 16)  # of x, by one program
WARP_BYTES = 8192  # of a weight, in flight for each warp of a program
MOST_ROWS = {GgmlType.IQ2_XXS: 2, GgmlType.Q2_K: 4}  # of a weight a program; others 8: more does not fit into registers
ENOUGH_PROGRAMS = 264  # twice as many as an H200 has processors
SQUARES = tl.constexpr(1024)  # columns of x whose squares are summed at once


@triton.jit
def _product(
    kind: tl.constexpr,
    planes,
    out,
    tile,
    x,
    norm,
    n,
    first_x,
    epsilon,
    OUT,
    GROUPS: tl.constexpr,
    COLUMNS: tl.constexpr,
    R: tl.constexpr,
    T: tl.constexpr,
    N: tl.constexpr,
    HAS_NORM: tl.constexpr,
):
    rows, ns = tile * R + tl.arange(0, R), first_x + tl.arange(0, N)
    group = tile * R // (OUT // GROUPS)  # all rows of a tile are of one group
    STRIDE: tl.constexpr = GROUPS * COLUMNS
    xs = x + first_x * STRIDE + group * COLUMNS
    CHUNKS: tl.constexpr = COLUMNS // chunk_columns(kind)
    total = tl.zeros([R, N, T], tl.float32)
    if CHUNKS <= 2 * T:  # unrolled: all loads can be on their way at once
        for first in tl.static_range(0, CHUNKS, T):
            total += dot(
                kind, planes, tile * R, OUT - 1, R, first, T, xs, n - first_x, N, STRIDE, norm, HAS_NORM, COLUMNS
            )
    else:
        for first in tl.range(0, CHUNKS, T):
            total += dot(
                kind, planes, tile * R, OUT - 1, R, first, T, xs, n - first_x, N, STRIDE, norm, HAS_NORM, COLUMNS
            )
    y = tl.sum(total, axis=2)
    if HAS_NORM:
        y *= _inverse_rms(xs, n - first_x, epsilon, N, STRIDE, COLUMNS)[None, :]
    tl.store(out + ns[None, :] * OUT + rows[:, None], y, mask=(ns < n)[None, :] & (rows < OUT)[:, None])


@triton.jit
def _inverse_rms(x, count, epsilon, N: tl.constexpr, STRIDE: tl.constexpr, COLUMNS: tl.constexpr):
    own = tl.arange(0, N)
    squares = tl.zeros([N, SQUARES], tl.float32)
    for first in tl.static_range(0, COLUMNS, SQUARES):
        columns = first + tl.arange(0, SQUARES)
        mask = (own < count)[:, None] & (columns < COLUMNS)[None, :]
        values = tl.load(x + own[:, None] * STRIDE + columns[None, :], mask=mask, other=0.0)
        squares += values * values
    return 1.0 / tl.sqrt(tl.sum(squares, axis=1) / COLUMNS + epsilon)


@triton.jit(do_not_specialize=["n"])
def few_rows_kernel(
    x,
    norm,
    outs,
    planes,
    n,
    epsilon,
    KINDS: tl.constexpr,
    STARTS: tl.constexpr,
    OUTS: tl.constexpr,
    ROWS: tl.constexpr,
    PIECES: tl.constexpr,
    FIRSTS: tl.constexpr,
    GROUPS: tl.constexpr,
    COLUMNS: tl.constexpr,
    N: tl.constexpr,
    HAS_NORM: tl.constexpr,
):
    blocks = tl.cdiv(n, N)
    tile = tl.program_id(0) // blocks
    first_x = tl.program_id(0) % blocks * N
    for k in tl.static_range(len(KINDS)):
        if (tile >= FIRSTS[STARTS[k]]) & (tile < FIRSTS[STARTS[k + 1]]):
            own, out, own_tile, width = member(planes, outs, tile, FIRSTS, OUTS, STARTS[k], STARTS[k + 1])
            _product(
                KINDS[k],
                own,
                out,
                own_tile,
                x,
                norm,
                n,
                first_x,
                epsilon,
                width,
                GROUPS,
                COLUMNS,
                ROWS[k],
                PIECES[k],
                N,
                HAS_NORM,
            )


@dataclass(frozen=True, slots=True)
class Plan:
    """How a launch is cut into programs: by the shapes of its weights alone."""

    family: Family
    rows: tuple[int, ...]  # of a weight of each type a program
    pieces: tuple[int, ...]  # chunks of each type at once
    firsts: tuple[int, ...]  # program of each weight in the family's order, and how many there are
    num_warps: int

    def constants(self, outs: Sequence[int]) -> dict[str, object]:
        """What the kernel is compiled for."""
        return {
            "KINDS": self.family.kinds,
            "STARTS": self.family.starts,
            "OUTS": self.family.ordered(outs),
            "ROWS": self.rows,
            "PIECES": self.pieces,
            "FIRSTS": self.firsts,
        }


def plan(types: Sequence[GgmlType], outs: Sequence[int], columns: int, groups: int) -> Plan:
    """Programs big enough to have many loads on their way, and many enough for all processors."""
    family = Family.of(types)
    kinds = [GgmlType(kind) for kind in family.kinds]
    powers = [_largest_power(columns // CHUNK_COLUMNS[kind]) for kind in kinds]
    num_warps = max(1, min(4, min(powers) // 32))
    rows = [_rows(kind, columns, max(outs), outs[0] // groups if groups > 1 else 0, num_warps) for kind in kinds]
    of_kind = [(kind, out) for kind, out in zip(types, outs, strict=True)]
    while max(rows) > 1 and sum(_programs(kinds, rows, of_kind)) < block(ENOUGH_PROGRAMS, 0):
        rows = [max(1, r // 2) for r in rows]
    firsts = accumulate(_programs(kinds, rows, family.ordered(of_kind)), initial=0)
    return Plan(family, tuple(rows), tuple(min(power, 32 * num_warps) for power in powers), tuple(firsts), num_warps)


def _rows(type: GgmlType, columns: int, out: int, group_rows: int, num_warps: int) -> int:
    wanted = max(1, round(WARP_BYTES * num_warps / type.row_bytes(columns)))
    rows = block(min(MOST_ROWS.get(type, 8), 1 << wanted.bit_length() - 1), min(1024, triton.next_power_of_2(out)))
    return min(rows, _largest_power(group_rows)) if group_rows else rows


def _programs(kinds: Sequence[GgmlType], rows: Sequence[int], weights: Sequence[tuple[GgmlType, int]]) -> list[int]:
    return [-(-out // rows[kinds.index(type)]) for type, out in weights]


def _largest_power(count: int) -> int:
    """The largest power of two that divides it."""
    return count & -count


def few_rows(
    x: Tensor, weights: Sequence[TorchWeight], norm: Tensor | None = None, epsilon: float = 0.0, groups: int = 1
) -> list[Tensor]:
    """The products of x (n, groups columns) with each of the weights (out, columns) -> (n, out) each."""
    columns = weights[0].shape[1]
    outs = [weight.shape[0] for weight in weights]
    how = plan([weight.type for weight in weights], outs, columns, groups)
    results = [torch.empty((len(x), out), dtype=torch.float32, device=x.device) for out in outs]
    n_block = min(triton.next_power_of_2(len(x)), ROWS_AT_ONCE)
    few_rows_kernel[(how.firsts[-1] * -(-len(x) // n_block),)](
        x,
        x if norm is None else norm,
        how.family.ordered(results),
        tuple(kernel_planes(weight) for weight in how.family.ordered(weights)),
        len(x),
        epsilon,
        **how.constants(outs),
        GROUPS=groups,
        COLUMNS=columns,
        N=n_block,
        HAS_NORM=norm is not None,
        num_warps=how.num_warps,
        enable_fp_fusion=True,
    )
    return results


def _specimen(
    name: str, weights: Sequence[tuple[GgmlType, int]], columns: int, n: int, groups: int = 1, has_norm: bool = False
) -> Specimen:
    types, outs = [type for type, _ in weights], [out for _, out in weights]
    how = plan(types, outs, columns, groups)
    return Specimen(
        f"few rows {name} n{n}",
        few_rows_kernel,
        {
            "x": "*fp32",
            "norm": "*fp32",
            "outs": ("*fp32",) * len(weights),
            "planes": tuple(POINTERS[type] for type in how.family.ordered(types)),
            "n": "i32",
            "epsilon": "fp32",
        },
        how.constants(outs) | {"GROUPS": groups, "COLUMNS": columns, "N": n, "HAS_NORM": has_norm},
        how.num_warps,
    )


_Q8, _F16 = GgmlType.Q8_0, GgmlType.F16
_INPUTS = [(_Q8, 1024), (_Q8, 512), (_F16, 1024), (_F16, 1024), (_F16, 256), (_F16, 256), (_F16, 64)]
SPECIMENS = (
    _specimen("attention inputs", _INPUTS, 4096, 1),
    _specimen("attention inputs", _INPUTS, 4096, 4),
    _specimen("query up", [(_Q8, 32768), (_F16, 8192)], 1024, 1, has_norm=True),
    _specimen("output groups", [(_Q8, 8192)], 4096, 1, groups=8),
    _specimen("output", [(_Q8, 4096)], 8192, 2),
    _specimen("head", [(_Q8, 129280)], 4096, 1),
    *(_specimen(type.name, [(type, 4096)], 4096, 1) for type in POINTERS if type not in (_Q8, _F16)),
)
