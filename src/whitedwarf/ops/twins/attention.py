"""Attention over window rows and compressed rows (fact sheet 2.3), in plain torch, query by query."""

import torch
from torch import Tensor

from whitedwarf.ops.twins.rows import TorchRows, decode_rows, turn


def attention(
    queries: Tensor,
    recent: TorchRows,
    compressed: TorchRows | None,
    positions: Tensor,
    window: int,
    counts: Tensor | None,
    picked: Tensor | None,
    sinks: Tensor,
    turns: Tensor,
) -> Tensor:
    """(n, H, d) -> (n, H d): softmax with sinks over window and compressed rows, rotary tail turned back.

    positions (n,), counts (n,) and picked (n, k) are those of ops/base.py's `Visible`; `recent` holds the window.
    """
    keys = decode_rows(recent.data, recent.format)
    pooled = None if compressed is None else decode_rows(compressed.data, compressed.format)
    outputs = torch.empty_like(queries)
    for i, position in enumerate(positions.tolist()):
        oldest = max(0, position - window + 1) - recent.first
        own = keys[oldest : position + 1 - recent.first]
        if pooled is not None:
            own = torch.cat([own, _seen(pooled, i, counts, picked)])
        outputs[i] = _attend(queries[i], own, sinks)
    return turn(outputs, turns[:, None], sign=-1).reshape(len(queries), -1)


def _seen(pooled: Tensor, i: int, counts: Tensor | None, picked: Tensor | None) -> Tensor:
    if picked is not None:
        rows = picked[i]
        return pooled[rows[rows >= 0].long()]
    assert counts is not None
    return pooled[: int(counts[i])]


def _attend(query: Tensor, keys: Tensor, sinks: Tensor) -> Tensor:
    """(H, d) over (k, d): the key is also the value; the sink takes part in the denominator only."""
    scores = query @ keys.T / keys.shape[1] ** 0.5
    top = torch.maximum(scores.amax(dim=1), sinks)[:, None]
    shares = torch.exp(scores - top)
    whole = shares.sum(dim=1, keepdim=True) + torch.exp(sinks[:, None] - top)
    return shares / whole @ keys
