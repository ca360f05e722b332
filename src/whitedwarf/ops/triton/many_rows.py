"""Products of many rows (n >= 16) with weights in their blocks, by tensor cores: bf16 times bf16, sums in f32.

A program multiplies a tile of rows of x, rounded before (rounded_rows.py), with a tile of a weight, which it spells out
in registers (tiles.py) while the next words are on their way; x comes through a ring of shared memory. Two ways:

* up to 64 rows, what decoding many sequences needs: 64 outputs by 16 or 32 rows, the weight as the left operand. Where
  that gives too few programs the sum is split, and a second launch adds the parts in their order. All weights that
  share x are in one launch. Bound by memory: Flash's attention inputs 6.4 microseconds on an H200 at 4.3 TB/s, query_up
  8.3, output groups and output 8.3 each.
* more rows, prefill: 128 outputs by 128 rows, programs in an order that keeps their tiles in the second-level cache. A
  tile of 128 by 128 by 64 takes 512 cycles of a processor's tensor cores, and spelling its 8192 weights about 300 of
  its instruction slots: two programs at a time hide one behind the other. Flash's dense products are 1.1e10 operations
  a token: 8192 tokens take 0.2 s at half of the 990 TFLOPS.

A row's result does not depend on the others within each of the two ways.
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
from whitedwarf.ops.triton.interpretation import block
from whitedwarf.ops.triton.rounded_rows import rounded_rows
from whitedwarf.ops.triton.shared_memory import LARGE, shared_memory
from whitedwarf.ops.triton.specimen import Specimen
from whitedwarf.ops.triton.tiles import tile_columns, tile_sums
from whitedwarf.ops.twins.planes import TorchWeight

SOME = 64  # rows up to which the first way is taken
ENOUGH_PROGRAMS = 264  # twice as many as an H200 has processors
MOST_SPLITS = 8
_ROW_TILES = tl.constexpr(8)  # of x whose programs run beside each other
_SUMMED = 1024


@triton.jit
def _tile_product(
    kind: tl.constexpr,
    planes,
    x,
    out,
    tile,
    first_row,
    split,
    n,
    OUT,
    GROUPS: tl.constexpr,
    COLUMNS: tl.constexpr,
    BN: tl.constexpr,
    BM: tl.constexpr,
    BK: tl.constexpr,
    SPLITS: tl.constexpr,
    IS_LEFT: tl.constexpr,
):
    group = tile // tl.cdiv(OUT // GROUPS, BN)
    first_out = group * (OUT // GROUPS) + tile % tl.cdiv(OUT // GROUPS, BN) * BN
    last_out = (group + 1) * (OUT // GROUPS) - 1  # of the group
    outs = first_out + tl.arange(0, BN)
    rows = first_row + tl.arange(0, BM)
    x_at = x + rows.to(tl.int64)[:, None] * (GROUPS * COLUMNS) + group * COLUMNS
    mask = (rows < n)[:, None]
    STEPS: tl.constexpr = COLUMNS // BK
    first, end = split * STEPS // SPLITS, (split + 1) * STEPS // SPLITS
    total = tile_sums(kind, planes, first_out, last_out, x_at, mask, first, end, COLUMNS, BN, BM, BK, IS_LEFT)
    places = out + rows.to(tl.int64)[:, None] * OUT + outs[None, :]
    tl.store(places, total, mask=mask & (outs <= last_out)[None, :])


@triton.jit(do_not_specialize=["n"])
def many_rows_kernel(
    x,
    outs,
    planes,
    n,
    split_stride,
    KINDS: tl.constexpr,
    STARTS: tl.constexpr,
    OUTS: tl.constexpr,
    FIRSTS: tl.constexpr,
    TILE_COLUMNS: tl.constexpr,
    GROUPS: tl.constexpr,
    COLUMNS: tl.constexpr,
    BN: tl.constexpr,
    BM: tl.constexpr,
    SPLITS: tl.constexpr,
    IS_LEFT: tl.constexpr,
):
    split = tl.program_id(1)
    row_tiles = tl.cdiv(n, BM)
    tiles: tl.constexpr = FIRSTS[STARTS[len(KINDS)]]
    band = tl.program_id(0) // (_ROW_TILES * tiles)
    in_band = tl.minimum(row_tiles - band * _ROW_TILES, _ROW_TILES)
    within = tl.program_id(0) % (_ROW_TILES * tiles)
    first_row = (band * _ROW_TILES + within % in_band) * BM
    tile = within // in_band
    for k in tl.static_range(len(KINDS)):
        if (tile >= FIRSTS[STARTS[k]]) & (tile < FIRSTS[STARTS[k + 1]]):
            own, out, own_tile, width = member(planes, outs, tile, FIRSTS, OUTS, STARTS[k], STARTS[k + 1])
            _tile_product(
                KINDS[k],
                own,
                x,
                out + split.to(tl.int64) * split_stride,
                own_tile,
                first_row,
                split,
                n,
                width,
                GROUPS,
                COLUMNS,
                BN,
                BM,
                TILE_COLUMNS[k],
                SPLITS,
                IS_LEFT,
            )


@triton.jit
def sum_splits_kernel(parts, out, size, SPLITS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(parts + at, mask=at < size, other=0.0)
    for split in tl.static_range(1, SPLITS):
        total += tl.load(parts + split * size + at, mask=at < size, other=0.0)
    tl.store(out + at, total, mask=at < size)


@dataclass(frozen=True, slots=True)
class Plan:
    """How a launch is cut into programs."""

    family: Family
    firsts: tuple[int, ...]  # output tile of each weight in the family's order, and how many there are
    tile_columns: tuple[int, ...]  # of each type
    outputs: int  # of a tile
    rows: int  # of a tile
    splits: int
    is_left: bool
    num_warps: int
    num_stages: int

    def constants(self, outs: Sequence[int]) -> dict[str, object]:
        """What the kernel is compiled for."""
        return {
            "KINDS": self.family.kinds,
            "STARTS": self.family.starts,
            "OUTS": self.family.ordered(outs),
            "FIRSTS": self.firsts,
            "TILE_COLUMNS": self.tile_columns,
            "BN": self.outputs,
            "BM": self.rows,
            "SPLITS": self.splits,
            "IS_LEFT": self.is_left,
        }


def plan(types: Sequence[GgmlType], outs: Sequence[int], columns: int, groups: int, n: int, shared_bytes: int) -> Plan:
    """By the weights' shapes, and by n only so far as the module's docstring says; tiles fit into shared memory."""
    family, is_left = Family.of(types), n <= SOME
    outputs, rows = (64, 16 if n <= 16 else 32) if is_left else (128, 128)
    rows = block(rows, min(64, max(16, triton.next_power_of_2(n))))
    tiles = [groups * -(-(out // groups) // outputs) for out in family.ordered(outs)]
    columns_at_once = tuple(tile_columns(columns, GgmlType(kind)) for kind in family.kinds)
    splits = 1
    if is_left:
        steps = min(columns // at_once for at_once in columns_at_once)
        while splits < min(MOST_SPLITS, steps) and sum(tiles) * splits < block(ENOUGH_PROGRAMS, 0):
            splits *= 2
    firsts, stages = tuple(accumulate(tiles, initial=0)), 4 if is_left else 3
    while stages > 1 and shared_bytes < 2 * max(columns_at_once) * (outputs + stages * rows):
        stages -= 1
    return Plan(family, firsts, columns_at_once, outputs, rows, splits, is_left, 4 if is_left else 8, stages)


def many_rows(
    x: Tensor, weights: Sequence[TorchWeight], norm: Tensor | None = None, epsilon: float = 0.0, groups: int = 1
) -> list[Tensor]:
    """The products of x (n, groups columns) with each of the weights (out, columns) -> (n, out) each."""
    operand = rounded_rows(x, norm, epsilon)
    if len(x) <= SOME:
        return _launch(operand, weights, groups)
    return [_launch(operand, [weight], groups)[0] for weight in weights]


def _launch(operand: Tensor, weights: Sequence[TorchWeight], groups: int) -> list[Tensor]:
    n, columns, outs = len(operand), weights[0].shape[1], [weight.shape[0] for weight in weights]
    types = [weight.type for weight in weights]
    how, size = plan(types, outs, columns, groups, n, shared_memory(operand.device)), n * sum(outs)
    results = torch.empty(size, dtype=torch.float32, device=operand.device)
    parts = results if how.splits == 1 else torch.empty(how.splits * size, dtype=torch.float32, device=operand.device)
    ordered = how.family.ordered(outs)
    many_rows_kernel[(how.firsts[-1] * -(-n // how.rows), how.splits)](
        operand,
        _cut(parts, n, ordered),
        tuple(kernel_planes(weight) for weight in how.family.ordered(weights)),
        n,
        size,
        **how.constants(outs),
        GROUPS=groups,
        COLUMNS=columns,
        num_warps=how.num_warps,
        num_stages=how.num_stages,
        enable_fp_fusion=True,
    )
    if how.splits > 1:
        sum_splits_kernel[(-(-size // _SUMMED),)](parts, results, size, SPLITS=how.splits, BLOCK=_SUMMED)
    return how.family.back(_cut(results, n, ordered))


def _cut(flat: Tensor, n: int, outs: Sequence[int]) -> tuple[Tensor, ...]:
    """Beginnings of (n, out) arrays that lie behind each other."""
    ends = list(accumulate((n * out for out in outs), initial=0))
    return tuple(flat[first:end].view(n, out) for first, end, out in zip(ends, ends[1:], outs, strict=False))


def _specimen(name: str, weights: Sequence[tuple[GgmlType, int]], columns: int, n: int, groups: int = 1) -> Specimen:
    types, outs = [type for type, _ in weights], [out for _, out in weights]
    how = plan(types, outs, columns, groups, n, LARGE)
    return Specimen(
        f"many rows {name} n{n}",
        many_rows_kernel,
        {
            "x": "*bf16",
            "outs": ("*fp32",) * len(weights),
            "planes": tuple(POINTERS[type] for type in how.family.ordered(types)),
            "n": "i32",
            "split_stride": "i32",
        },
        how.constants(outs) | {"GROUPS": groups, "COLUMNS": columns},
        how.num_warps,
        how.num_stages,
    )


_Q8, _F16 = GgmlType.Q8_0, GgmlType.F16
SPECIMENS = (
    _specimen("attention inputs", [(_Q8, 1024), (_Q8, 512), (_F16, 1024), (_F16, 1024)], 4096, 32),
    _specimen("output groups", [(_Q8, 8192)], 4096, 8192, groups=8),
    *(_specimen(type.name, [(type, 4096)], 4096, 8192) for type in POINTERS),
    Specimen(
        "sum of splits",
        sum_splits_kernel,
        {"parts": "*fp32", "out": "*fp32", "size": "i32"},
        {"SPLITS": 4, "BLOCK": _SUMMED},
    ),
)
