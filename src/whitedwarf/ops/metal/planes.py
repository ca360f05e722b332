"""How kernels get at a weight: its planes as inputs, and a macro that unpacks 32 of its columns (blocks.metal)."""

from functools import cache

import mlx.core as mx
import numpy as np

from whitedwarf.gguf.codecs_iq import GRID_CODES
from whitedwarf.gguf.types import GgmlType
from whitedwarf.ops.metal.launch import text
from whitedwarf.ops.mlx_twins.blocks import PARTS, MlxWeight

RUN = 32  # columns unpacked at once


def fits(weight: MlxWeight) -> bool:
    """Whether the kernels can read it: rows of whole runs."""
    return weight.shape[-1] % RUN == 0


def planes(weight: MlxWeight) -> tuple[mx.array, ...]:
    """The inputs named by `names`."""
    if weight.type is GgmlType.BF16:  # no vectors of bfloat in older Metal
        return (weight.planes[0].view(mx.uint16),)
    return weight.planes


def names(type: GgmlType, prefix: str) -> tuple[str, ...]:
    """Of the inputs: the prefix and a number each; the first has the weight's rows in its shape."""
    return tuple(f"{prefix}{index}" for index in range(len(PARTS[type])))


def macro(type: GgmlType, prefix: str) -> str:
    """UNPACK_PREFIX(run, w): 32 columns as eight float4."""
    arguments = ", ".join(names(type, prefix))
    return f"#define UNPACK_{prefix.upper()}(run, w) unpack_{type.name.lower()}({arguments}, run, w)\n"


@cache
def header() -> str:
    """Everything that kernels on weights include."""
    levels = np.array([8, 25, 43], np.uint8)[GRID_CODES].view("<u4").reshape(-1)
    grid = ", ".join(f"0x{word:08x}" for word in levels)
    return f"constant uint IQ2_XXS_GRID[512] = {{{grid}}};\n{text('blocks')}"
