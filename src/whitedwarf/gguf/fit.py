"""Least squares for block formats: the best scale (and offset) for integer codes of a few bits (model.md 5.3).

Arrays lie (elements, groups): one column is one group and every column is fitted on its own. Sums go over axis 0, which
numpy adds in index order. Rounding is to nearest, halves to even.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

TINY = np.float32(1e-15)  # below this a group counts as all zero


@dataclass(frozen=True, slots=True)
class RangeSearch:
    """Which inverse scales to try: (first + step * i + max_code) / range for i = 0..num_steps."""

    first: float
    step: float
    num_steps: int
    is_absolute: bool = False  # weigh absolute instead of squared errors

    def numerator(self, index: int, max_code: int) -> np.float32:
        return np.float32(self.first) + np.float32(self.step) * np.float32(index) + np.float32(max_code)


@dataclass(frozen=True, slots=True)
class RangeFit:
    """value ≈ scale * code - offset, offset >= 0."""

    scale: Floats  # (groups,)
    offset: Floats  # (groups,)
    codes: Floats  # (elements, groups), whole numbers


def fit_range(values: Floats, weights: Floats, max_code: int, search: RangeSearch) -> RangeFit:
    """Fit scale and offset of every group; a group without any range gets scale 0 and codes 0."""
    low = np.minimum(values.min(axis=0), 0)
    flat = values.max(axis=0) - low < TINY
    high = np.where(flat, low + 1, values.max(axis=0))
    scale = (high - low) / np.float32(max_code)
    codes = _codes(values, low, 1 / scale, max_code)
    best = _error(values, weights, codes, scale, low, search)
    sum_w, sum_x = weights.sum(axis=0), (weights * values).sum(axis=0)
    start = low
    for index in range(search.num_steps + 1):
        # The range is measured from the best offset so far, not from the smallest value: the original drifts this way.
        inverse = search.numerator(index, max_code) / (high - low)
        trial = _codes(values, low, inverse, max_code)
        trial_scale, trial_low, solvable = _solve(values, weights, trial, sum_w, sum_x)
        error = _error(values, weights, trial, trial_scale, trial_low, search)
        better = solvable & (error < best)
        codes = np.where(better, trial, codes)
        best = np.where(better, error, best)
        scale, low = np.where(better, trial_scale, scale), np.where(better, trial_low, low)
    zero = np.float32(0)
    return RangeFit(np.where(flat, zero, scale), -np.where(flat, start, low), np.where(flat, zero, codes))


def fit_scale(values: Floats, weights: Floats, max_code: int) -> tuple[Floats, Floats]:
    """One scale for non-negative values: (groups,) scales and (elements, groups) whole codes 0..max_code."""
    largest = values.max(axis=0)
    empty = largest < TINY
    largest = np.where(empty, np.float32(1), largest)
    codes = _best_start(values, weights, largest, max_code)
    sum_xl = (weights * values * codes).sum(axis=0)
    sum_ll = (weights * codes * codes).sum(axis=0)
    for _ in range(5):
        if not _sweep(values, weights, codes, sum_xl, sum_ll, max_code):
            break
    usable = ~empty & (sum_ll > 0)
    scale = np.divide(sum_xl, sum_ll, out=np.zeros_like(sum_xl), where=usable)
    return scale, np.where(empty, np.float32(0), codes)


def _codes(values: Floats, low: Floats, inverse: Floats, max_code: int) -> Floats:
    return np.clip(np.rint(inverse * (values - low)), 0, max_code)


def _error(values: Floats, weights: Floats, codes: Floats, scale: Floats, low: Floats, search: RangeSearch) -> Floats:
    difference = scale * codes + low - values
    cost = np.abs(difference) if search.is_absolute else np.square(difference)
    total: Floats = (weights * cost).sum(axis=0)
    return total


def _solve(
    values: Floats, weights: Floats, codes: Floats, sum_w: Floats, sum_x: Floats
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Weighted least squares for scale and low end; a positive low end is not representable and becomes zero."""
    weighted = weights * codes
    sum_l, sum_ll, sum_xl = weighted.sum(axis=0), (weighted * codes).sum(axis=0), (weighted * values).sum(axis=0)
    determinant = sum_w * sum_ll - sum_l * sum_l
    solvable = determinant > 0
    safe = np.where(solvable, determinant, np.float32(1))
    scale, low = (sum_w * sum_xl - sum_x * sum_l) / safe, (sum_ll * sum_x - sum_l * sum_xl) / safe
    positive = low > 0
    through_zero = np.divide(sum_xl, sum_ll, out=np.zeros_like(sum_xl), where=sum_ll > 0)
    return np.where(positive, through_zero, scale), np.where(positive, np.float32(0), low), solvable


def _best_start(values: Floats, weights: Floats, largest: Floats, max_code: int) -> Floats:
    """Codes of the best of nine slightly different scales; the plain one wins ties."""
    chosen: Floats | None = None
    best: Floats | None = None
    for shift in (0, -4, -3, -2, -1, 1, 2, 3, 4):
        inverse = (np.float32(0.1) * np.float32(shift) + np.float32(max_code)) / largest
        codes = np.clip(np.rint(inverse * values), 0, max_code)
        error = (weights * np.square(values - (1 / inverse) * codes)).sum(axis=0)
        if chosen is None or best is None:
            chosen, best = codes, error
            continue
        better = error < best
        chosen, best = np.where(better, codes, chosen), np.where(better, error, best)
    assert chosen is not None
    return chosen


def _sweep(values: Floats, weights: Floats, codes: Floats, sum_xl: Floats, sum_ll: Floats, max_code: int) -> bool:
    """Change one code at a time where that fits better; updates codes and both sums in place. True if any changed."""
    changed = False
    for value, weight, code in zip(values, weights, codes, strict=True):
        rest_xl, rest_ll = sum_xl - weight * value * code, sum_ll - weight * code * code
        usable = (rest_xl > 0) & (rest_ll > 0)
        ratio = np.divide(value * rest_ll, rest_xl, out=np.zeros_like(value), where=usable)
        trial = np.clip(np.rint(ratio), 0, max_code)
        trial_xl, trial_ll = rest_xl + weight * value * trial, rest_ll + weight * trial * trial
        better = usable & (trial != code) & (trial_xl * trial_xl * sum_ll > sum_xl * sum_xl * trial_ll)
        np.copyto(code, trial, where=better)
        np.copyto(sum_xl, trial_xl, where=better)
        np.copyto(sum_ll, trial_ll, where=better)
        changed = changed or bool(better.any())
    return changed
