"""The router: ops/mlx_twins/route.py, on Metal: one kernel from logits to experts and weights."""

from functools import cache

import mlx.core as mx

from whitedwarf.ops.metal.launch import SIMD_WIDTH, Call, Source, launch, number, text, tiles
from whitedwarf.ops.mlx_twins import route as twins

HIGHEST, BIASED, TABLE = 0, 1, 2


def route(
    logits: mx.array,
    bias: mx.array | None,
    table: mx.array | None,
    ids: mx.array,
    num_used: int,
    scale: float,
    normalise: bool,
) -> tuple[mx.array, mx.array]:
    """Logits (n, E), bias (E,), table (V, k), ids (n,) -> experts (n, k) int32 and their weights (n, k)."""
    n, num_experts = logits.shape
    if num_used > SIMD_WIDTH:  # a lane keeps the weight of a slot
        return twins.route(logits, bias, table, ids, num_used, scale, normalise)
    choice = TABLE if table is not None else HIGHEST if bias is None else BIASED
    inputs = [logits, logits if bias is None else bias, ids if table is None else table, ids, number(scale)]
    constants = {"CHOICE": choice, "USED": num_used, "NORMALISE": int(normalise)}
    constants["LANE_EXPERTS"] = tiles(num_experts, SIMD_WIDTH)
    grid, group = (n * SIMD_WIDTH, 1, 1), (SIMD_WIDTH, 1, 1)
    call = Call(inputs, [(n, num_used)] * 2, grid, group, constants, [mx.int32, mx.float32])
    experts, weights = launch(_source(), call)
    return experts, weights


@cache
def _source() -> Source:
    inputs = "logits", "bias", "table", "ids", "scale"
    return Source("route", inputs, ("experts", "weights"), text("route"), text("router"))
