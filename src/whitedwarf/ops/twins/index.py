"""The indexer's choice of compressed rows (fact sheet 2.5), in plain torch."""

import torch
from torch import Tensor

from whitedwarf.ops.twins.rows import TorchRows, decode_rows

LOW_BITS = 0xFFFFFFFF


def index_pick(queries: Tensor, weights: Tensor, keys: TorchRows, counts: Tensor, top: int) -> Tensor:
    """The `top` best keys below each count -> (n, top) int32 ascending, padded with -1; ties go to the lowest row.

    queries (n, heads, d), weights (n, heads) already scaled.
    """
    table = decode_rows(keys.data, keys.format)
    picked = torch.full((len(queries), top), -1, dtype=torch.int32, device=queries.device)
    for i, count in enumerate(counts.tolist()):
        scores = weights[i] @ (queries[i] @ table[:count].T).relu()
        best = best_rows(scores, top)
        picked[i, : len(best)] = best
    return picked


def best_rows(scores: Tensor, top: int) -> Tensor:
    """(k,) -> the rows of the `top` largest (at most k) ascending, int32; of equal ones the lowest."""
    rows = torch.arange(len(scores), device=scores.device)
    bits = (scores + 0.0).view(torch.int32)  # -0 is 0
    ordered = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits).long()
    keys = ordered * 2**32 + (LOW_BITS - rows)
    best = LOW_BITS - (keys.sort(descending=True).values[:top] & LOW_BITS)
    return best.sort().values.int()
