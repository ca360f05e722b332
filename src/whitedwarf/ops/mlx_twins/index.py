"""The lightning indexer: scores of keys, and the best of them (2.5)."""

import mlx.core as mx

from whitedwarf.ops.base import RowFormat
from whitedwarf.ops.mlx_twins.rows import decode_rows

KEY_ROWS = 64  # keys scored at once: a product of fixed size, so that their number changes no sum
SCORED_QUERIES = 32


def index_pick(
    queries: mx.array, weights: mx.array, keys: mx.array, format: RowFormat, counts: mx.array, top: int
) -> mx.array:
    """The `top` best keys below each count -> (n, top) int32 ascending, padded with -1; ties go to the lowest row.

    queries (n, heads, d), weights (n, heads), keys (rows, row_bytes), counts (n,).
    """
    if keys.shape[0] == 0:
        return mx.full((queries.shape[0], top), -1, mx.int32)
    return best(all_scores(queries, weights, keys, format), counts, top)


def all_scores(queries: mx.array, weights: mx.array, keys: mx.array, format: RowFormat) -> mx.array:
    """Of every stored key for every query: (n, rows)."""
    floats = decode_rows(keys, format)
    parts = [slice(first, first + SCORED_QUERIES) for first in range(0, queries.shape[0], SCORED_QUERIES)]
    return mx.concatenate([index_scores(queries[part], weights[part], floats) for part in parts])


def index_scores(queries: mx.array, weights: mx.array, keys: mx.array) -> mx.array:
    """(n, heads, d), (n, heads), keys (rows, d) -> (n, rows): sum over heads of weight times max(0, product)."""
    n, num_keys = queries.shape[0], keys.shape[0]
    padded = mx.pad(keys, ((0, -num_keys % KEY_ROWS), (0, 0))).reshape(1, -1, KEY_ROWS, keys.shape[1])
    products = queries[:, None] @ padded.swapaxes(2, 3)  # (n, blocks, heads, KEY_ROWS)
    scores = (weights[:, None, :, None] * mx.maximum(products, 0)).sum(axis=2)
    return scores.reshape(n, -1)[:, :num_keys]


def best(scores: mx.array, counts: mx.array, top: int) -> mx.array:
    """Rows of the `top` highest scores below each count -> (n, top) int32 ascending, padded with -1."""
    _n, width = scores.shape
    places = mx.arange(width, dtype=mx.int32)
    visible = places < counts[:, None]
    scores = mx.where(visible, scores, -mx.inf)
    if width > top:
        threshold = mx.sort(scores, axis=1)[:, width - top : width - top + 1]
        above, equal = scores > threshold, scores == threshold
        free = top - above.sum(axis=1, keepdims=True)
        visible = visible & (above | (equal & (mx.cumsum(equal.astype(mx.int32), axis=1) <= free)))
    rows = mx.sort(mx.where(visible, places, width), axis=1)[:, :top]
    if width < top:
        rows = mx.pad(rows, ((0, 0), (0, top - width)), constant_values=width)
    return mx.where(rows == width, -1, rows).astype(mx.int32)
