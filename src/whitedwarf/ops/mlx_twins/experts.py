"""Mixture of experts: the SwiGLU blocks that were picked for each row, and the one that every row passes (2.6)."""

import itertools

import mlx.core as mx
import numpy as np

from whitedwarf.ops.mlx_twins.blocks import MlxWeight, decode
from whitedwarf.ops.mlx_twins.products import linear, row_products


def routed(
    x: mx.array, experts: mx.array, weights: mx.array, gate: MlxWeight, up: MlxWeight, down: MlxWeight, limit: float
) -> mx.array:
    """(n, D), experts (n, k), their weights (n, k) -> the sum of the experts' outputs (n, D); a weight goes in before
    `down`. Looks at `experts` on the host, to decode only those that are used, and those once."""
    n, used = experts.shape
    flat = np.array(experts).reshape(-1)
    order = np.argsort(flat, kind="stable")
    bounds = np.flatnonzero(np.diff(flat[order], prepend=-1, append=-1))
    outputs = []
    for first, end in itertools.pairwise(bounds):
        expert, places = int(flat[order[first]]), mx.array(order[first:end])
        rows, shares = x[places // used], weights.reshape(-1, 1)[places]
        gates, ups = (row_products(rows, decode(weight.expert(expert))) for weight in (gate, up))
        outputs.append(row_products(swiglu(gates, ups, limit) * shares, decode(down.expert(expert))))
    places = mx.array(np.argsort(order))
    return mx.concatenate(outputs)[places].reshape(n, used, -1).sum(axis=1)


def shared(x: mx.array, gate: MlxWeight, up: MlxWeight, down: MlxWeight, limit: float) -> mx.array:
    """(n, D) -> (n, D)."""
    return linear(swiglu(linear(x, gate), linear(x, up), limit), down)


def swiglu(gate: mx.array, up: mx.array, limit: float) -> mx.array:
    """silu(gate) times up; the gate clamped from above, up from both sides."""
    gate = mx.minimum(gate, limit)
    return gate * mx.sigmoid(gate) * mx.clip(up, -limit, limit)
