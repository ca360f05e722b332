"""Products of rows with quantised weights: ops/mlx_twins/products.py, on Metal."""

from functools import cache

import mlx.core as mx

from whitedwarf.gguf.types import GgmlType
from whitedwarf.ops.metal.launch import SIMD_WIDTH, Call, Source, launch, text, tiles
from whitedwarf.ops.metal.planes import fits, header, macro, names, planes
from whitedwarf.ops.mlx_twins import products as twins
from whitedwarf.ops.mlx_twins.blocks import MlxWeight

MANY_ROWS = 16  # from here on rows are multiplied in tiles
BATCH = 4  # rows that share what is read of the weight; fewer only where there are fewer
EACH = 2  # outputs of a simdgroup
SIMDGROUPS = 4
TILE_ROWS, TILE_OUTPUTS = 32, 64


def linear(x: mx.array, weight: MlxWeight) -> mx.array:
    """(n, in) by (out, in) -> (n, out)."""
    return grouped_linear(x, weight, 1)


def grouped_linear(x: mx.array, weight: MlxWeight, groups: int) -> mx.array:
    """(n, G in) by (G out, in) -> (n, G out)."""
    if not fits(weight):
        return twins.grouped_linear(x, weight, groups)
    return _many(x, weight, groups) if x.shape[0] >= MANY_ROWS else _few(x, weight, groups)


def _few(x: mx.array, weight: MlxWeight, groups: int) -> mx.array:
    n, outputs = x.shape[0], weight.shape[0]
    batch = 1 if n == 1 else BATCH
    grid = tiles(outputs // groups, EACH * SIMDGROUPS) * SIMD_WIDTH * SIMDGROUPS, tiles(n, batch), groups
    constants = {"BATCH": batch, "EACH": EACH, "SIMDGROUPS": SIMDGROUPS}
    call = Call([x, *planes(weight)], [(n, outputs)], grid, (SIMD_WIDTH * SIMDGROUPS, 1, 1), constants)
    return launch(source("products_few", weight.type), call)[0]


def _many(x: mx.array, weight: MlxWeight, groups: int) -> mx.array:
    n, outputs = x.shape[0], weight.shape[0]
    grid = tiles(outputs // groups, TILE_OUTPUTS) * 2 * SIMD_WIDTH, tiles(n, TILE_ROWS), groups
    call = Call([x, *planes(weight)], [(n, outputs)], grid, (2 * SIMD_WIDTH, 1, 1), {})
    return launch(source("products_many", weight.type), call)[0]


@cache
def source(kernel: str, type: GgmlType) -> Source:
    """The kernel for weights of this type."""
    body = macro(type, "w") + text(kernel)
    return Source(f"{kernel}_{type.name.lower()}", ("x", *names(type, "w")), ("y",), body, header() + text("tile"))
