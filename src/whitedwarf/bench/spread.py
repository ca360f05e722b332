"""How far values lie apart: quartiles that also exist for a single value."""

from collections.abc import Sequence
from statistics import quantiles


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """The quarter and three-quarter points."""
    if len(values) == 1:
        return values[0], values[0]
    low, _, high = quantiles(values, n=4, method="inclusive")
    return low, high
