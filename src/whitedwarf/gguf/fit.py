"""Least squares for block formats: the best scale (and offset) for integer codes of a few bits (model.md 5.3).

Arrays lie (elements, groups): one column is one group and every column is fitted on its own. Sums go over axis 0, in
index order (`ordered_sum`): these are the very bits of the sequential original, and of `native/quantize_lanes.h`, which
does the same much faster. Rounding is to nearest, halves to even.
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


def ordered_sum(values: Floats) -> Floats:
    """(elements, groups) -> (groups,), one element after the other; numpy's own sum goes in pairs at times."""
    total: Floats = values[0].copy()
    for row in values[1:]:
        total += row
    return total


def whole_codes(values: Floats, max_code: int) -> Floats:
    """The nearest whole numbers 0..max_code; not-a-numbers become zero."""
    limit = np.float32(max_code)
    return np.rint(np.where(values > 0, np.minimum(values, limit), np.float32(0)))


def fit_range(values: Floats, weights: Floats, max_code: int, search: RangeSearch) -> RangeFit:
    """Fit scale and offset of every group; a group without any range gets scale 0 and codes 0."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # of trials that are then not taken
        return _fit_range(values, weights, max_code, search)


def _fit_range(values: Floats, weights: Floats, max_code: int, search: RangeSearch) -> RangeFit:
    start = low = np.minimum(values.min(axis=0), 0)
    flat = ~(values.max(axis=0) > low) | ~np.isfinite(np.float32(max_code) / (values.max(axis=0) - low))
    high = np.where(flat, low + 1, values.max(axis=0))
    inverse = np.float32(max_code) / (high - low)
    scale = 1 / inverse
    codes = whole_codes(inverse * (values - low), max_code)
    best = _error(values, weights, codes, scale, low, search)
    sum_w, sum_x = ordered_sum(weights), ordered_sum(weights * values)
    for index in range(search.num_steps + 1):
        # The range is measured from the best offset so far, not from the smallest value: the original drifts this way.
        inverse = search.numerator(index, max_code) / (high - low)
        trial = whole_codes(inverse * (values - low), max_code)
        trial_scale, trial_low, solvable = _solve(values, weights, trial, sum_w, sum_x)
        error = _error(values, weights, trial, trial_scale, trial_low, search)
        better = solvable & (error < best)
        codes = np.where(better, trial, codes)
        best = np.where(better, error, best)
        scale, low = np.where(better, trial_scale, scale), np.where(better, trial_low, low)
    zero = np.float32(0)
    return RangeFit(np.where(flat, zero, scale), -np.where(flat, start, low), np.where(flat, zero, codes))


def fit_scale(values: Floats, weights: Floats, max_code: int) -> tuple[Floats, Floats]:
    """One scale for values that are nearly all non-negative: (groups,) scales, (elements, groups) whole codes.

    Codes are 0..max_code, kept as the original keeps them, in bytes: one below zero (of IQ2_XXS's weights that changed
    sides) counts as 255 wherever it is read again.
    """
    largest = np.maximum(values.max(axis=0), 0)
    empty = ~(largest >= TINY)
    largest = np.where(empty, np.float32(1), largest)
    whole = _best_start(values, weights, largest, max_code)
    sum_xl = ordered_sum(weights * values * whole)
    sum_ll = ordered_sum(weights * whole * whole)
    codes = _as_bytes(whole)
    for _ in range(5):
        if not _sweep(values, weights, codes, sum_xl, sum_ll, max_code):
            break
    usable = ~empty & (sum_ll > 0)
    scale = np.divide(sum_xl, sum_ll, out=np.zeros_like(sum_xl), where=usable)
    return scale, np.where(empty, np.float32(0), codes)


def _as_bytes(codes: Floats) -> Floats:
    return np.where(codes < 0, codes + np.float32(256), codes)


def _error(values: Floats, weights: Floats, codes: Floats, scale: Floats, low: Floats, search: RangeSearch) -> Floats:
    difference = scale * codes + low - values
    cost = np.abs(difference) if search.is_absolute else np.square(difference)
    return ordered_sum(weights * cost)


def _solve(
    values: Floats, weights: Floats, codes: Floats, sum_w: Floats, sum_x: Floats
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Weighted least squares for scale and low end; a positive low end is not representable and becomes zero."""
    weighted = weights * codes
    sum_l, sum_ll, sum_xl = ordered_sum(weighted), ordered_sum(weighted * codes), ordered_sum(weighted * values)
    determinant = sum_w * sum_ll - sum_l * sum_l
    solvable = determinant > 0
    safe = np.where(solvable, determinant, np.float32(1))
    scale, low = (sum_w * sum_xl - sum_x * sum_l) / safe, (sum_ll * sum_x - sum_l * sum_xl) / safe
    positive = low > 0
    through_zero = np.divide(sum_xl, sum_ll, out=np.zeros_like(sum_xl), where=sum_ll > 0)
    return np.where(positive, through_zero, scale), np.where(positive, np.float32(0), low), solvable


def _best_start(values: Floats, weights: Floats, largest: Floats, max_code: int) -> Floats:
    """Whole codes, also below zero, of the best of nine slightly different scales; the plain one wins ties."""
    chosen = np.float32(max_code) / largest
    first = _as_bytes(_rounded(chosen * values))
    best = _square_error(values, weights, first, chosen)
    for shift in (-4, -3, -2, -1, 1, 2, 3, 4):
        inverse = (np.float32(0.1) * np.float32(shift) + np.float32(max_code)) / largest
        error = _square_error(values, weights, np.minimum(_rounded(inverse * values), np.float32(max_code)), inverse)
        better = error < best
        chosen, best = np.where(better, inverse, chosen), np.where(better, error, best)
    return np.minimum(_rounded(chosen * values), np.float32(max_code))


def _square_error(values: Floats, weights: Floats, codes: Floats, inverse: Floats) -> Floats:
    difference: Floats = values - (np.float32(1) / inverse) * codes
    return ordered_sum(weights * difference * difference)


def _rounded(values: Floats) -> Floats:
    return np.rint(np.maximum(values, np.float32(-255)))


def _sweep(values: Floats, weights: Floats, codes: Floats, sum_xl: Floats, sum_ll: Floats, max_code: int) -> bool:
    """Change one code at a time where that fits better; updates codes and both sums in place. True if any changed."""
    changed = False
    for value, weight, code in zip(values, weights, codes, strict=True):
        rest_xl, rest_ll = sum_xl - weight * value * code, sum_ll - weight * code * code
        usable = (rest_xl > 0) & (rest_ll > 0)
        ratio = np.divide(value * rest_ll, rest_xl, out=np.zeros_like(value), where=usable)
        trial = _rounded(np.minimum(ratio, np.float32(max_code)))
        trial_xl, trial_ll = rest_xl + weight * value * trial, rest_ll + weight * trial * trial
        better = usable & (trial != code) & (trial_xl * trial_xl * sum_ll > sum_xl * sum_xl * trial_ll)
        np.copyto(code, _as_bytes(trial), where=better)
        np.copyto(sum_xl, trial_xl, where=better)
        np.copyto(sum_ll, trial_ll, where=better)
        changed = changed or bool(better.any())
    return changed
