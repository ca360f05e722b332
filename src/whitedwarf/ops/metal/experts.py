"""Routed and shared experts: ops/mlx_twins/experts.py, on Metal.

Few rows read the experts they picked, pair by pair of row and slot. Many rows are put in the order of their experts, so
that tiles of pairs share what is read; where every expert's tiles begin is computed on the device, and nothing is
waited for.
"""

from functools import cache

import mlx.core as mx

from whitedwarf.gguf.types import GgmlType
from whitedwarf.ops.metal.launch import SIMD_WIDTH, Call, Source, launch, number, text, tiles
from whitedwarf.ops.metal.planes import fits, header, macro, names, planes
from whitedwarf.ops.metal.products import MANY_ROWS, linear
from whitedwarf.ops.mlx_twins import experts as twins
from whitedwarf.ops.mlx_twins.blocks import MlxWeight

EACH, SIMDGROUPS = 2, 4  # outputs of a simdgroup, simdgroups of a threadgroup
TILE_PAIRS = 32
THREADS = 256
ORDER = ("counts", "starts", "tile_ends")


def routed(
    x: mx.array, experts: mx.array, weights: mx.array, gate: MlxWeight, up: MlxWeight, down: MlxWeight, limit: float
) -> mx.array:
    """(n, D), experts (n, k), their weights (n, k) -> the sum of the experts' outputs (n, D)."""
    if not all(map(fits, (gate, up, down))):
        return twins.routed(x, experts, weights, gate, up, down, limit)
    experts, weights = mx.contiguous(experts), mx.contiguous(weights)
    compute = _many if x.shape[0] >= MANY_ROWS else _few
    return compute(x, experts, weights, gate, up, down, number(limit))


def shared(x: mx.array, gate: MlxWeight, up: MlxWeight, down: MlxWeight, limit: float) -> mx.array:
    """(n, D) -> (n, D)."""
    return linear(_swiglu(linear(x, gate), linear(x, up), limit), down)


def _swiglu(gate: mx.array, up: mx.array, limit: float) -> mx.array:
    source = Source("swiglu", ("gate", "up", "limit"), ("hidden",), text("swiglu"), header())
    grid = tiles(gate.size, THREADS) * THREADS, 1, 1
    return launch(source, Call([gate, up, number(limit)], [gate.shape], grid, (THREADS, 1, 1), {}))[0]


def _few(
    x: mx.array, experts: mx.array, weights: mx.array, gate: MlxWeight, up: MlxWeight, down: MlxWeight, limit: mx.array
) -> mx.array:
    (n, used), hidden_size = experts.shape, gate.shape[1]
    up_inputs = [x, experts, weights, limit, *planes(gate), *planes(up)]
    hidden = _launched_few(_up("experts_few_up", gate.type, up.type, FEW_UP), up_inputs, n * used, hidden_size)
    return _launched_few(
        _down("experts_few_down", down.type, FEW_DOWN), [hidden, experts, *planes(down)], n, x.shape[1]
    )


def _launched_few(source: Source, inputs: list[mx.array], rows: int, outputs: int) -> mx.array:
    group = SIMD_WIDTH * SIMDGROUPS
    grid = tiles(outputs, EACH * SIMDGROUPS) * group, rows, 1
    call = Call(inputs, [(rows, outputs)], grid, (group, 1, 1), {"EACH": EACH, "SIMDGROUPS": SIMDGROUPS})
    return launch(source, call)[0]


def _many(
    x: mx.array, experts: mx.array, weights: mx.array, gate: MlxWeight, up: MlxWeight, down: MlxWeight, limit: mx.array
) -> mx.array:
    (n, used), (num_experts, hidden_size, _) = experts.shape, gate.shape
    order, bounds = by_expert(experts, num_experts)
    num_tiles = tiles(n * used, TILE_PAIRS) + min(num_experts, n * used)  # every expert may have a broken one
    slots = mx.array([used], mx.int32)
    up_inputs = [x, order, slots, weights, limit, *bounds, *planes(gate), *planes(up)]
    hidden = _launched_many(
        _up("experts_many_up", gate.type, up.type, MANY_UP), up_inputs, (n * used, hidden_size), 32, num_tiles
    )
    down_inputs = [hidden, *bounds, *planes(down)]
    sorted_outputs = _launched_many(
        _down("experts_many_down", down.type, MANY_DOWN), down_inputs, (n * used, x.shape[1]), 64, num_tiles
    )
    return sorted_outputs[mx.argsort(order)].reshape(n, used, -1).sum(axis=1)


def _launched_many(
    source: Source, inputs: list[mx.array], shape: tuple[int, int], tile_outputs: int, num_tiles: int
) -> mx.array:
    grid = tiles(shape[1], tile_outputs) * 2 * SIMD_WIDTH, num_tiles, 1
    return launch(source, Call(inputs, [shape], grid, (2 * SIMD_WIDTH, 1, 1), {}))[0]


def by_expert(experts: mx.array, num_experts: int) -> tuple[mx.array, tuple[mx.array, mx.array, mx.array]]:
    """Pairs in the order of their experts, and for each expert its pairs' number, first place, and end of its tiles."""
    flat = experts.reshape(-1)
    counts = (flat[None] == mx.arange(num_experts, dtype=mx.int32)[:, None]).astype(mx.int32).sum(axis=1)
    starts = mx.cumsum(counts) - counts
    tile_ends = mx.cumsum((counts + TILE_PAIRS - 1) // TILE_PAIRS)
    return mx.argsort(flat).astype(mx.int32), (counts, starts, tile_ends)


FEW_UP = "x", "experts", "shares", "limit"
FEW_DOWN = "hidden", "experts"
MANY_UP = "x", "order", "slots", "shares", "limit", *ORDER
MANY_DOWN = "hidden", *ORDER


@cache
def _up(kernel: str, gate: GgmlType, up: GgmlType, inputs: tuple[str, ...]) -> Source:
    body = macro(gate, "gate") + macro(up, "up") + _body(kernel)
    all_inputs = *inputs, *names(gate, "gate"), *names(up, "up")
    return Source(f"{kernel}_{gate.name.lower()}_{up.name.lower()}", all_inputs, ("hidden",), body, _header())


@cache
def _down(kernel: str, down: GgmlType, inputs: tuple[str, ...]) -> Source:
    all_inputs = *inputs, *names(down, "down")
    return Source(f"{kernel}_{down.name.lower()}", all_inputs, ("y",), macro(down, "down") + _body(kernel), _header())


def _body(kernel: str) -> str:
    return text(kernel).replace("FIND_EXPERT", text("find_expert"))


def _header() -> str:
    return header() + text("tile")
