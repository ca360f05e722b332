"""The lightning indexer: ops/mlx_twins/index.py, on Metal: MLX multiplies, a kernel finds the best scores."""

from functools import cache

import mlx.core as mx

from whitedwarf.ops.base import RowFormat
from whitedwarf.ops.metal.launch import Call, Source, launch, text
from whitedwarf.ops.mlx_twins.index import all_scores

THREADS = 256


def index_pick(
    queries: mx.array, weights: mx.array, keys: mx.array, format: RowFormat, counts: mx.array, top: int
) -> mx.array:
    """The `top` best keys below each count -> (n, top) int32 ascending, padded with -1; see the twin."""
    if keys.shape[0] == 0:
        return mx.full((queries.shape[0], top), -1, mx.int32)
    return best(all_scores(queries, weights, keys, format), counts, top)


def best(scores: mx.array, counts: mx.array, top: int) -> mx.array:
    """Rows of the `top` highest scores below each count -> (n, top) int32 ascending, padded with -1."""
    n = scores.shape[0]
    constants = {"TOP": top, "THREADS": THREADS}
    call = Call([scores, counts], [(n, top)], (n * THREADS, 1, 1), (THREADS, 1, 1), constants, [mx.int32])
    return launch(_source(), call)[0]


@cache
def _source() -> Source:
    return Source("index_best", ("scores", "counts"), ("picked",), text("index_best"), text("places"))
