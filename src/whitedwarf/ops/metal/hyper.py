"""Hyper-connections: ops/mlx_twins/hyper.py, on Metal. One kernel instead of some hundred small operations.

The products with the mixing matrix are taken of the streams as they are; the norm is multiplied in behind them.
"""

from functools import cache

import mlx.core as mx

from whitedwarf.ops.base import HyperSettings
from whitedwarf.ops.metal.launch import Call, Source, launch, text, tiles
from whitedwarf.ops.metal.products import linear
from whitedwarf.ops.mlx_twins import hyper as twins
from whitedwarf.ops.mlx_twins.blocks import MlxWeight

STREAMS = 4
THREADS = 256


def hyper_in(
    streams: mx.array, mix: MlxWeight, base: mx.array, scale: mx.array, norm: mx.array, settings: HyperSettings
) -> tuple[mx.array, mx.array, mx.array]:
    """(n, S, D) -> the sub-layer's normed input (n, D), post (n, S), combination (n, S, S)."""
    n, num_streams, width = streams.shape
    if num_streams != STREAMS:
        return twins.hyper_in(streams, mix, base, scale, norm, settings)
    shapes = [(n, width), (n, STREAMS), (n, STREAMS, STREAMS)]
    inputs = _inputs(streams, mix, base, scale, norm, settings)
    constants = {"ITERATIONS": settings.iterations, "THREADS": THREADS}
    call = Call(inputs, shapes, (n * THREADS, 1, 1), (THREADS, 1, 1), constants, [mx.float32] * 3)
    x, post, combination = launch(_source("hyper_in", ("x", "post", "combination")), call)
    return x, post, combination


def hyper_out(streams: mx.array, output: mx.array, post: mx.array, combination: mx.array) -> mx.array:
    """post_k y + sum_j C[j, k] X[j] -> (n, S, D)."""
    n, num_streams, width = streams.shape
    if num_streams != STREAMS:
        return twins.hyper_out(streams, output, post, combination)
    source = Source("hyper_out", ("streams", "added", "post", "combination"), ("out",), text("hyper_out"), text("sums"))
    grid = tiles(width, THREADS) * THREADS, n, 1
    call = Call([streams, output, post, combination], [streams.shape], grid, (THREADS, 1, 1), {"THREADS": THREADS})
    return launch(source, call)[0]


def hyper_head(
    streams: mx.array, mix: MlxWeight, base: mx.array, scale: mx.array, norm: mx.array, settings: HyperSettings
) -> mx.array:
    """(n, S, D) -> one normed vector (n, D)."""
    n, num_streams, width = streams.shape
    if num_streams != STREAMS:
        return twins.hyper_head(streams, mix, base, scale, norm, settings)
    inputs = _inputs(streams, mix, base, scale, norm, settings)
    call = Call(inputs, [(n, width)], (n * THREADS, 1, 1), (THREADS, 1, 1), {"THREADS": THREADS})
    return launch(_source("hyper_head", ("x",)), call)[0]


def _inputs(
    streams: mx.array, mix: MlxWeight, base: mx.array, scale: mx.array, norm: mx.array, settings: HyperSettings
) -> list[mx.array]:
    products = linear(streams.reshape(streams.shape[0], -1), mix)
    return [streams, products, base, scale, norm, _epsilons(settings.rms_epsilon, settings.epsilon)]


@cache
def _epsilons(of_norms: float, of_mixes: float) -> mx.array:
    epsilons = mx.array([of_norms, of_mixes], mx.float32)
    mx.eval(epsilons)  # so that any thread may use it
    return epsilons


@cache
def _source(kernel: str, outputs: tuple[str, ...]) -> Source:
    inputs = "streams", "products", "base", "scale", "norm", "epsilons"
    return Source(kernel, inputs, outputs, text(kernel), text("sums"))
