"""The router: which experts a row passes, and with what weights (2.6)."""

import mlx.core as mx

WEIGHT_SUM_FLOOR = 2.0**-14  # the smallest normal f16
SMALL_LOGIT = -20.0  # below, softplus is the exponential itself, which f32 could not hold


def route(
    logits: mx.array,
    bias: mx.array | None,
    table: mx.array | None,
    ids: mx.array,
    num_used: int,
    scale: float,
    normalise: bool,
) -> tuple[mx.array, mx.array]:
    """Logits (n, E), bias (E,), table (V, k), ids (n,) -> experts (n, k) int32 and their weights (n, k)."""
    softplus = mx.logaddexp(logits, mx.array(0.0))
    scores = mx.where(logits < SMALL_LOGIT, mx.exp(logits * 0.5), mx.sqrt(softplus))
    experts = table[ids] if table is not None else _highest(scores if bias is None else scores + bias, num_used)
    weights = mx.take_along_axis(scores, experts, axis=1)
    if normalise:
        weights = weights / mx.maximum(weights.sum(axis=1, keepdims=True), WEIGHT_SUM_FLOOR)
    return experts, weights * scale


def _highest(ranked: mx.array, number: int) -> mx.array:
    """Places of the `number` highest of each row, highest first; equal ones in their order."""
    places, found = mx.arange(ranked.shape[1]), []
    for _ in range(number):
        best = mx.argmax(ranked, axis=1, keepdims=True)
        found.append(best)
        ranked = mx.where(places == best, -mx.inf, ranked)
    return mx.concatenate(found, axis=1).astype(mx.int32)
