"""Windows of tokens pooled into stored rows (fact sheet 2.4), in plain torch."""

import torch
from torch import Tensor

from whitedwarf.ops.base import Groups, RowFormat
from whitedwarf.ops.twins.rows import kv_rows
from whitedwarf.ops.twins.sums import total


def compress(
    values: Tensor,
    gates: Tensor,
    first: int,
    groups: Groups,
    ape: Tensor,
    norm: Tensor,
    turns: Tensor,
    epsilon: float,
    format: RowFormat,
) -> Tensor:
    """Pool the windows of `groups` into stored rows (groups, row_bytes).

    values, gates: (m, c d) of positions first .. first+m-1, gates without ape. c = 2 overlaps the previous window;
    positions below 0 count as gate -inf. turns: (groups, rope/2, 2) at each window's first position.
    """
    if groups.end == groups.first:
        return torch.empty((0, format.row_bytes), dtype=torch.uint8, device=values.device)
    v, g = _windows(values, first, groups), _windows(gates, first, groups) + ape
    if groups.ratio == 4:
        before = Groups(groups.first - 1, groups.end - 1, groups.ratio)
        g_before = _windows(gates, first, before) + ape
        if groups.first == 0:
            g_before[0] = -torch.inf
        half = v.shape[2] // 2
        v = torch.cat([_windows(values, first, before)[..., :half], v[..., half:]], dim=1)
        g = torch.cat([g_before[..., :half], g[..., half:]], dim=1)
    v, g = v.transpose(1, 2).contiguous(), g.transpose(1, 2).contiguous()
    shares = torch.exp(g - g.amax(dim=2, keepdim=True))
    pooled = total(shares / total(shares)[..., None] * v)
    return kv_rows(pooled, norm, turns, epsilon, format)


def _windows(x: Tensor, first: int, groups: Groups) -> Tensor:
    """Rows of the windows (groups, ratio, c d); zeros of the window before the first of all."""
    start, end = groups.first * groups.ratio, groups.end * groups.ratio
    if start < 0:
        zeros = torch.zeros((-start, x.shape[1]), device=x.device)
        rows = torch.cat([zeros, x[:end]])
    else:
        rows = x[start - first : end - first]
    return rows.reshape(groups.end - groups.first, groups.ratio, x.shape[1])
