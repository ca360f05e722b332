"""Kernels by name: their sources beside this file, and how they are launched through mx.fast.metal_kernel.

A source is the body of a kernel; MLX writes the function around it, with a pointer for every input and output, with
`NAME_shape` where the body asks for an input's shape, and with the attributes the body names. Sizes therefore need no
constants, and one compilation serves all shapes. An input of less than eight numbers comes as `constant`, not `device`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import mlx.core as mx

SIMD_WIDTH = 32  # threads of a simdgroup on every Apple GPU


@dataclass(frozen=True, slots=True)
class Source:
    """What MLX needs to know to compile a kernel."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    body: str
    header: str


@dataclass(frozen=True, slots=True)
class Call:
    """One launch: `grid` counts threads, and is a multiple of `group` in every direction."""

    inputs: Sequence[mx.array]
    shapes: Sequence[tuple[int, ...]]  # of the outputs
    grid: tuple[int, int, int]
    group: tuple[int, int, int]
    constants: Mapping[str, int]  # template arguments
    dtypes: Sequence[Any] = (mx.float32,)  # of the outputs


def launch(source: Source, call: Call) -> list[mx.array]:
    """Lazily, as everything in MLX."""
    return made(source)(
        inputs=list(call.inputs),
        template=list(call.constants.items()),
        grid=call.grid,
        threadgroup=call.group,
        output_shapes=list(call.shapes),
        output_dtypes=list(call.dtypes),
    )


@cache
def made(source: Source) -> Callable[..., list[mx.array]]:
    """The kernel, compiled by MLX at its first use with each set of constants."""
    return mx.fast.metal_kernel(
        name=source.name,
        input_names=list(source.inputs),
        output_names=list(source.outputs),
        source=source.body,
        header=source.header,
    )


@cache
def text(name: str) -> str:
    """A .metal file of this folder."""
    return files(__package__).joinpath(f"{name}.metal").read_text(encoding="utf-8")


@cache
def number(value: float) -> mx.array:
    """A float for a kernel to read: (1,) f32."""
    made_once = mx.array([value], mx.float32)
    mx.eval(made_once)
    return made_once


def tiles(count: int, size: int) -> int:
    """How many tiles of `size` cover `count`."""
    return -(-count // size)
