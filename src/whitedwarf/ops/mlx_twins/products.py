"""Products of rows with weights, and the lookup of embeddings."""

import mlx.core as mx

from whitedwarf.ops.mlx_twins.blocks import MlxWeight, decode

WORTH_TURNING = 16  # rows


def linear(x: mx.array, weight: MlxWeight) -> mx.array:
    """(n, in) by (out, in) -> (n, out)."""
    return row_products(x, decode(weight))


def grouped_linear(x: mx.array, weight: MlxWeight, groups: int) -> mx.array:
    """(n, G in) by (G out, in) -> (n, G out): group g of the outputs reads group g of the inputs."""
    n, (rows, width) = x.shape[0], weight.shape
    matrices = decode(weight).reshape(1, groups, rows // groups, width)
    out = x.reshape(n, groups, 1, width) @ matrices.swapaxes(2, 3)  # (n, G, 1, out)
    return out.reshape(n, rows)


def embed(table: MlxWeight, ids: mx.array) -> mx.array:
    """Rows `ids` of the (V, D) table -> (n, D)."""
    return decode(table.picked(ids))


def row_products(x: mx.array, matrix: mx.array) -> mx.array:
    """(n, in) by (out, in) -> (n, out), each row by itself: libraries sum rows of larger products in another order."""
    turned = matrix.T[None]
    if x.shape[0] >= WORTH_TURNING:
        turned = mx.contiguous(turned)  # twice as fast, in the same order
    return (x[:, None, :] @ turned)[:, 0]
