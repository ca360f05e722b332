"""What kernels know of the formats of weights: numbers of the types, and planes as they want them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import TypeVar

import torch
import triton
import triton.language as tl
from torch import Tensor

from whitedwarf.gguf.types import GgmlType
from whitedwarf.ops.twins.blocks import grid_table
from whitedwarf.ops.twins.planes import TorchWeight

T = TypeVar("T")

F32 = tl.constexpr(int(GgmlType.F32))
F16 = tl.constexpr(int(GgmlType.F16))
BF16 = tl.constexpr(int(GgmlType.BF16))
Q8_0 = tl.constexpr(int(GgmlType.Q8_0))
Q4_K = tl.constexpr(int(GgmlType.Q4_K))
Q2_K = tl.constexpr(int(GgmlType.Q2_K))
IQ2_XXS = tl.constexpr(int(GgmlType.IQ2_XXS))
MXFP4 = tl.constexpr(int(GgmlType.MXFP4))

POINTERS = {  # types of the planes as kernels see them
    GgmlType.F32: ("*fp32", "*fp32", "*fp32"),
    GgmlType.F16: ("*i32", "*i32", "*i32"),
    GgmlType.BF16: ("*i32", "*i32", "*i32"),
    GgmlType.Q8_0: ("*i32", "*fp16", "*fp16"),
    GgmlType.MXFP4: ("*i32", "*u8", "*u8"),
    GgmlType.Q4_K: ("*i32", "*i32", "*i32"),
    GgmlType.Q2_K: ("*i32", "*i32", "*i32"),
    GgmlType.IQ2_XXS: ("*i32", "*fp16", "*i64"),
}

_ELEMENTS = {  # of the planes as kernels see them, in 256 columns
    GgmlType.F32: (256, 0, 0),
    GgmlType.F16: (128, 0, 0),
    GgmlType.BF16: (128, 0, 0),
    GgmlType.Q8_0: (64, 8, 0),
    GgmlType.MXFP4: (32, 8, 0),
    GgmlType.Q4_K: (32, 3, 1),
    GgmlType.Q2_K: (16, 4, 1),
    GgmlType.IQ2_XXS: (16, 1, 0),
}


@triton.constexpr_function
def plane_step(kind: int, values: int, plane: int) -> int:
    """Elements of a plane in so many values: from one expert of a stack to the next."""
    return values * _ELEMENTS[GgmlType(kind)][plane] // 256


def kernel_planes(weight: TorchWeight) -> tuple[Tensor, Tensor, Tensor]:
    """Three planes, of 32-bit words wherever kernels read words; what a type does not have is its first plane again.

    IQ2_XXS's third is the table of its grid.
    """
    first, *others = weight.planes
    match weight.type:
        case GgmlType.F32:
            return first, first, first
        case GgmlType.F16 | GgmlType.BF16:
            words = first.view(torch.int32)
            return words, words, words
        case GgmlType.Q8_0:
            return first.view(torch.int32), others[0], others[0]
        case GgmlType.MXFP4:
            return first.view(torch.int32), others[0], others[0]
        case GgmlType.Q4_K | GgmlType.Q2_K:
            return first.view(torch.int32), others[0].view(torch.int32), others[1].view(torch.int32)
        case _:
            return first, others[0], grid_of_halves(first.device)


@cache
def grid_of_halves(device: torch.device) -> Tensor:
    """IQ2_XXS's points as float16: (512,) int64, the first four magnitudes of each, then the last four of each."""
    halves = grid_table(device).half().view(256, 2, 4).transpose(0, 1).contiguous()
    return halves.view(torch.int64).view(-1)


@triton.jit
def planes_of(kind: tl.constexpr, planes, index, VALUES: tl.constexpr):
    """The planes of one matrix of a stack of matrices of so many values."""
    at = index.to(tl.int64)
    first = planes[0] + at * plane_step(kind, VALUES, 0)
    second = planes[1] + at * plane_step(kind, VALUES, 1)
    return first, second, planes[2] + at * plane_step(kind, VALUES, 2)


@dataclass(frozen=True, slots=True)
class Family:
    """Weights of one launch, those of one type beside each other: a program's code is compiled once for each type."""

    order: tuple[int, ...]  # which weight comes first, second, ...
    kinds: tuple[int, ...]  # the types there are
    starts: tuple[int, ...]  # the first weight of each type in that order, and how many there are

    @classmethod
    def of(cls, types: Sequence[GgmlType]) -> "Family":
        kinds = tuple(dict.fromkeys(types))
        order = tuple(sorted(range(len(types)), key=lambda w: kinds.index(types[w])))
        starts = accumulate((types.count(kind) for kind in kinds), initial=0)
        return cls(order, tuple(int(kind) for kind in kinds), tuple(starts))

    def ordered(self, things: Sequence[T]) -> tuple[T, ...]:
        return tuple(things[w] for w in self.order)

    def back(self, things: Sequence[T]) -> list[T]:
        """What belongs to the weights in their own order again."""
        places = {w: place for place, w in enumerate(self.order)}
        return [things[places[w]] for w in range(len(things))]


@triton.jit
def member(planes, outs, tile, FIRSTS: tl.constexpr, OUTS: tl.constexpr, START: tl.constexpr, END: tl.constexpr):
    """Of the weights START .. END - 1 the one with program `tile`: its planes, its output, its own tile, its rows."""
    first, second, third = planes[START]
    out, width, own = outs[START], tile * 0 + OUTS[START], tile - FIRSTS[START]
    for w in tl.static_range(START + 1, END):
        if tile >= FIRSTS[w]:
            first, second, third = planes[w]
            out, width, own = outs[w], tile * 0 + OUTS[w], tile - FIRSTS[w]
    return (first, second, third), out, own, width
