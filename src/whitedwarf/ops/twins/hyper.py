"""Hyper-connections around a sub-layer (fact sheet 2.2, 2.8), in plain torch.

A connection's few numbers per row come from one product of all its streams (`mix_rows`); the rest is elementwise.
n rows, S streams of D; M = 2 S + S^2 numbers around a sub-layer, S before the head.
"""

import torch
from torch import Tensor

from whitedwarf.ops.twins.rows import rms_norm
from whitedwarf.ops.twins.sums import inverse_rms, total

SLICE_VALUES = 1 << 24  # products held at a time


def spread(x: Tensor, streams: int) -> Tensor:
    """(n, D) -> (n, S, D), the same in every stream."""
    return x[:, None, :].expand(-1, streams, -1).contiguous()


def mix_rows(streams: Tensor, mix: Tensor, rms_epsilon: float) -> Tensor:
    """(n, S, D) by (M, S D) f32 -> (n, M): the product of the streams, as one vector of rms 1."""
    flat = streams.reshape(len(streams), -1)
    normed = flat * inverse_rms(flat, rms_epsilon)
    step = max(1, SLICE_VALUES // mix.numel())
    return torch.cat([total(part[:, None, :] * mix) for part in normed.split(step)])


def hyper_in(
    streams: Tensor,
    mixes: Tensor,
    base: Tensor,
    scale: Tensor,
    norm: Tensor,
    rms_epsilon: float,
    epsilon: float,
    iterations: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """(n, S, D) and `mix_rows` (n, M) -> the sub-layer's normed input (n, D), post (n, S), combination (n, S, S)."""
    n, size, _ = streams.shape
    scales = torch.cat([scale[:1].expand(size), scale[1:2].expand(size), scale[2:3].expand(size * size)])
    logits = mixes * scales + base
    gates = _sigmoid(logits[:, : 2 * size].contiguous())
    combination = _sinkhorn(logits[:, 2 * size :].reshape(n, size, size).contiguous(), epsilon, iterations)
    x = rms_norm(_weighted(gates[:, :size] + epsilon, streams), norm, rms_epsilon)
    return x, (2 * gates[:, size:]).contiguous(), combination


def hyper_out(streams: Tensor, output: Tensor, post: Tensor, combination: Tensor) -> Tensor:
    """(n, S, D), the sub-layer's (n, D), and what `hyper_in` gave -> (n, S, D); [source, destination]."""
    result = post[:, :, None] * output[:, None, :]
    for source in range(streams.shape[1]):
        result = result + combination[:, source, :, None] * streams[:, source, None, :]
    return result


def hyper_head(
    streams: Tensor, mixes: Tensor, base: Tensor, scale: Tensor, norm: Tensor, rms_epsilon: float, epsilon: float
) -> Tensor:
    """(n, S, D) and `mix_rows` (n, S) -> (n, D): the streams mixed and normed for the head."""
    weights = _sigmoid(mixes * scale + base) + epsilon
    return rms_norm(_weighted(weights, streams), norm, rms_epsilon)


def _sigmoid(x: Tensor) -> Tensor:
    return 1 / (1 + torch.exp(-x))  # torch.sigmoid computes the last few numbers of an array otherwise than the others


def _weighted(weights: Tensor, streams: Tensor) -> Tensor:
    """(n, S) and (n, S, D) -> (n, D)."""
    mixed = weights[:, 0, None] * streams[:, 0]
    for stream in range(1, streams.shape[1]):
        mixed = mixed + weights[:, stream, None] * streams[:, stream]
    return mixed


def _sinkhorn(logits: Tensor, epsilon: float, iterations: int) -> Tensor:
    """(n, source, destination) -> nearly doubly stochastic, by alternating row and column sums."""
    exps = torch.exp(logits - logits.amax(dim=2, keepdim=True))
    c = exps / total(exps)[:, :, None] + epsilon
    c = c / (_columns(c) + epsilon)
    for _ in range(iterations - 1):
        c = c / (total(c)[:, :, None] + epsilon)
        c = c / (_columns(c) + epsilon)
    return c.contiguous()


def _columns(c: Tensor) -> Tensor:
    return total(c.transpose(1, 2))[:, None, :]
