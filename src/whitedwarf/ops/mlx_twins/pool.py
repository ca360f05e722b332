"""Compressed rows: a gated average per channel over the tokens of a window (2.4)."""

import mlx.core as mx

from whitedwarf.ops.base import Groups, RowFormat
from whitedwarf.ops.mlx_twins.rows import encode_rows, rms_norm, turn

OVERLAPPING_RATIO = 4  # windows of this length also pool the window before them


def compress(
    values: mx.array,
    gates: mx.array,
    first: int,
    groups: Groups,
    ape: mx.array,
    norm: mx.array,
    turns: mx.array,
    epsilon: float,
    format: RowFormat,
) -> mx.array:
    """Pool the windows of `groups` into stored rows (groups, row_bytes); see Ops.compress."""
    if groups.end == groups.first:
        return mx.zeros((0, format.row_bytes), mx.uint8)
    start, end = groups.first * groups.ratio - first, groups.end * groups.ratio - first
    count, width = groups.end - groups.first, values.shape[1]
    v = values[start:end].reshape(count, groups.ratio, width)
    g = gates[start:end].reshape(count, groups.ratio, width) + ape
    if groups.ratio == OVERLAPPING_RATIO:
        half = width // 2
        before_v, before_g = _windows_before(values, gates, first, groups, ape[:, :half])
        v, g = mx.concatenate([before_v, v[:, :, half:]], axis=1), mx.concatenate([before_g, g[:, :, half:]], axis=1)
    shares = mx.exp(g - g.max(axis=1, keepdims=True))
    pooled = (shares / shares.sum(axis=1, keepdims=True) * v).sum(axis=1)
    return encode_rows(turn(rms_norm(pooled, norm, epsilon), turns), format)


def _windows_before(
    values: mx.array, gates: mx.array, first: int, groups: Groups, ape: mx.array
) -> tuple[mx.array, mx.array]:
    """First halves of the tokens of the window before each group: (groups, ratio, d) each."""
    count, ratio, half = groups.end - groups.first, groups.ratio, ape.shape[1]
    start, end = (groups.first - 1) * ratio - first, (groups.end - 1) * ratio - first
    missing = ratio if groups.first == 0 else 0  # positions below 0 count as gate -inf
    v = values[start + missing : end, :half]
    g = gates[start + missing : end, :half]
    if missing:
        v = mx.concatenate([mx.zeros((missing, half)), v])
        g = mx.concatenate([mx.full((missing, half), -mx.inf), g])
    return v.reshape(count, ratio, half), g.reshape(count, ratio, half) + ape
