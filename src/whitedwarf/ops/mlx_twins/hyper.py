"""Hyper-connections: four streams mixed into a sub-layer's input, and its output put back (2.2, 2.8)."""

import mlx.core as mx

from whitedwarf.ops.base import HyperSettings
from whitedwarf.ops.mlx_twins.blocks import MlxWeight
from whitedwarf.ops.mlx_twins.products import linear
from whitedwarf.ops.mlx_twins.rows import inverse_rms, rms_norm


def hyper_in(
    streams: mx.array, mix: MlxWeight, base: mx.array, scale: mx.array, norm: mx.array, settings: HyperSettings
) -> tuple[mx.array, mx.array, mx.array]:
    """(n, S, D) -> the sub-layer's normed input (n, D), post (n, S), combination (n, S, S)."""
    mixes = stream_mixes(streams, mix, settings.rms_epsilon)
    pre, post, combination = split_mixes(mixes, base, scale, streams.shape[1], settings)
    return rms_norm(weighted_sum(pre, streams), norm, settings.rms_epsilon), post, combination


def hyper_out(streams: mx.array, output: mx.array, post: mx.array, combination: mx.array) -> mx.array:
    """post_k y + sum_j C[j, k] X[j] -> (n, S, D)."""
    total = post[:, :, None] * output[:, None, :]
    for source in range(streams.shape[1]):
        total = total + combination[:, source, :, None] * streams[:, source, None, :]
    return total


def hyper_head(
    streams: mx.array, mix: MlxWeight, base: mx.array, scale: mx.array, norm: mx.array, settings: HyperSettings
) -> mx.array:
    """(n, S, D) -> one normed vector (n, D)."""
    mixes = stream_mixes(streams, mix, settings.rms_epsilon)
    pre = mx.sigmoid(mixes * scale + base) + settings.epsilon
    return rms_norm(weighted_sum(pre, streams), norm, settings.rms_epsilon)


def stream_mixes(streams: mx.array, mix: MlxWeight, rms_epsilon: float) -> mx.array:
    """(n, S, D) -> the numbers (n, mixes) that all else follows from."""
    flat = streams.reshape(streams.shape[0], -1)
    return linear(flat * inverse_rms(flat, rms_epsilon), mix)


def split_mixes(
    mixes: mx.array, base: mx.array, scale: mx.array, num_streams: int, settings: HyperSettings
) -> tuple[mx.array, mx.array, mx.array]:
    """Mixes (n, 2 S + S^2) -> pre (n, S), post (n, S), combination (n, S, S): [source, destination]."""
    parts = num_streams, 2 * num_streams
    pre, post, square = mx.split(mixes, parts, axis=1)
    pre_base, post_base, square_base = mx.split(base, parts)
    logits = (square * scale[2] + square_base).reshape(-1, num_streams, num_streams)
    return (
        mx.sigmoid(pre * scale[0] + pre_base) + settings.epsilon,
        2 * mx.sigmoid(post * scale[1] + post_base),
        _sinkhorn(logits, settings),
    )


def weighted_sum(weights: mx.array, streams: mx.array) -> mx.array:
    """(n, S) by (n, S, D) -> (n, D)."""
    total = weights[:, 0, None] * streams[:, 0]
    for stream in range(1, streams.shape[1]):
        total = total + weights[:, stream, None] * streams[:, stream]
    return total


def _sinkhorn(logits: mx.array, settings: HyperSettings) -> mx.array:
    """(n, source, destination) -> nearly doubly stochastic, by alternating row and column sums."""
    exps = mx.exp(logits - logits.max(axis=2, keepdims=True))
    c = exps / exps.sum(axis=2, keepdims=True) + settings.epsilon
    c = c / (c.sum(axis=1, keepdims=True) + settings.epsilon)
    for _ in range(settings.iterations - 1):
        c = c / (c.sum(axis=2, keepdims=True) + settings.epsilon)
        c = c / (c.sum(axis=1, keepdims=True) + settings.epsilon)
    return c
