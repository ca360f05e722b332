"""The router's choice of experts (fact sheet 2.6), in plain torch."""

import torch
from torch import Tensor

from whitedwarf.ops.reference import WEIGHT_SUM_FLOOR
from whitedwarf.ops.twins.sums import total


def route(
    logits: Tensor,
    bias: Tensor | None,
    table: Tensor | None,
    ids: Tensor,
    num_used: int,
    scale: float,
    normalise: bool,
) -> tuple[Tensor, Tensor]:
    """(n, E) -> experts (n, k) int32 and their weights (n, k): the best by score + bias, or those of the token's id."""
    scores = torch.sqrt(softplus(logits))
    if table is not None:
        experts = table[ids.long()].int()
    else:
        ranked = scores if bias is None else scores + bias
        experts = ranked.sort(dim=1, descending=True, stable=True).indices[:, :num_used].int()
    shares = scores.gather(1, experts.long())
    if normalise:
        shares = shares / total(shares)[:, None].clamp(min=WEIGHT_SUM_FLOOR)
    return experts.contiguous(), shares * scale


def softplus(x: Tensor) -> Tensor:
    """log(1 + exp(x)), of any x."""
    return x.clamp(min=0) + torch.log1p(torch.exp(-x.abs()))
