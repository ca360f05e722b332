"""Encoder of IQ2_XXS (model.md 5.3): thirteen trial scales a group, each with the best of the grid points near it.

Made to be right, not fast: it is the reference of `native/quantize_iq2.h`, and gives the same bytes. Groups lie side by
side, (elements, groups), and sums add in index order, as in `fit.py`.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from whitedwarf.gguf.codecs_iq import GRID_CODES
from whitedwarf.gguf.codecs_plain import floats_to_halves, require_searchable
from whitedwarf.gguf.encode_k import row_squares
from whitedwarf.gguf.fit import TINY, fit_scale, ordered_sum, whole_codes

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
Integers = NDArray[np.int64]

_LEVELS = (2 * GRID_CODES + 1).astype(np.float32)  # the encoder fits 1, 3, 5; the decoder reads 8, 25, 43 eighths
_PLACES = 3 ** np.arange(8)  # a tuple of eight codes as a number in base 3
_COLUMNS_OF_EIGHT = 8
_SEARCH_ELEMENTS = 1 << 21


@dataclass(frozen=True, slots=True)
class _Neighbours:
    """Grid points that may replace each tuple, nearest first; a tuple on the grid has only itself."""

    points: NDArray[np.int16]  # (tuples, longest list) grid indices, the last one repeated
    counts: Integers  # (tuples,)


@cache
def _neighbours() -> _Neighbours:
    """The grid points in the two smallest shells of squared distance, sorted by distance, then by index."""
    tuples = (np.arange(3**8)[:, None] // _PLACES % 3).astype(np.int16)
    squares = np.square(tuples[:, None, :] - GRID_CODES[None].astype(np.int16)).sum(axis=2)  # (tuples, 256)
    order = np.argsort(squares, axis=1, kind="stable")
    sorted_squares = np.take_along_axis(squares, order, axis=1)
    nearest = sorted_squares[:, :1]
    second = np.where(sorted_squares > nearest, sorted_squares, 1 << 20).min(axis=1, keepdims=True)
    counts = np.where(nearest[:, 0] == 0, 1, (sorted_squares <= second).sum(axis=1))
    width = int(counts.max())
    columns = np.minimum(np.arange(width), counts[:, None] - 1)
    return _Neighbours(np.take_along_axis(order, columns, axis=1).astype(np.int16), counts)


@dataclass(frozen=True, slots=True)
class _Groups:
    """Groups of 32 as four rows of eight, and the same side by side."""

    folded: Floats  # (groups, 4, 8) magnitudes; one that changed sides is negative
    weights: Floats  # (groups, 4, 8)

    @property
    def columns(self) -> tuple[Floats, Floats]:
        """Magnitudes and weights as (32, groups)."""
        turned = [np.ascontiguousarray(part.reshape(-1, 32).T) for part in (self.folded, self.weights)]
        return turned[0], turned[1]


def encode_iq2_xxs(blocks: Floats, weights: Floats | None) -> Bytes:
    """(blocks, 256) -> (blocks, 66); the weights are not optional here: the fit has no meaning without them."""
    assert weights is not None
    require_searchable(blocks)
    variance = row_squares(blocks) / np.float32(256)
    importance = weights * np.sqrt(variance[:, None] + np.square(blocks))
    values, importance = blocks.reshape(-1, 4, 8), importance.reshape(-1, 4, 8)
    folded, sign_bits = _fold_signs(values, importance)
    scales, points, is_used = _fit_groups(_Groups(folded, importance))
    sign_bits = np.where(scales[:, None] < 0, ~sign_bits & 127, sign_bits)
    sign_bits, points = np.where(is_used[:, None], sign_bits, 0), np.where(is_used[:, None], points, 0)
    return _pack(np.abs(scales).reshape(-1, 8), points, sign_bits)


def _pack(scales: Floats, points: Integers, sign_bits: Integers) -> Bytes:
    """(blocks, 8) scales and (groups, 4) grid points and signs -> (blocks, 66)."""
    block_scale = scales.max(axis=1, keepdims=True) / np.float32(31)
    with np.errstate(divide="ignore", invalid="ignore"):
        inverse = np.float32(1) / block_scale
        steps = whole_codes(np.float32(0.5) * (inverse * scales - np.float32(1)), 15).astype(np.uint32)
    signs = (sign_bits.astype(np.uint32) << np.arange(0, 28, 7, dtype=np.uint32)).sum(axis=1, dtype=np.uint32)
    words = np.stack(
        [points.astype(np.uint8).view(np.uint32)[:, 0], signs | (steps.reshape(-1) << np.uint32(28))], axis=1
    ).reshape(-1, 16)
    words[~(block_scale[:, 0] > 0)] = 0
    return np.concatenate([floats_to_halves(block_scale), words.view(np.uint8)], axis=1)


def _fold_signs(values: Floats, importance: Floats) -> tuple[Floats, Integers]:
    """Magnitudes and 7-bit sign words; where the negatives are odd, the cheapest weight changes sides."""
    negative = values < 0
    odd = (negative.sum(axis=-1) & 1).astype(bool)
    cheapest = (importance * values * values).argmin(axis=-1)
    flip = odd[..., None] & (np.arange(8) == cheapest[..., None])
    folded = np.where(flip, -np.abs(values), np.abs(values))
    bits = (negative ^ flip)[..., :7]
    return folded, (bits.astype(np.int64) << np.arange(7)).sum(axis=-1)


def _fit_groups(groups: _Groups) -> tuple[Floats, Integers, NDArray[np.bool_]]:
    """Scale of every group and its four grid points; which groups are not all zero."""
    columns, weights = groups.columns
    first, _ = fit_scale(columns, weights, 4)
    reach: Floats = np.float32(3) * first
    is_used = (columns.max(axis=0) >= TINY) & (reach > 0)
    reach = np.where(is_used, reach, np.float32(1))
    scale, kept = _try_scales(groups, reach, np.where(is_used, first, np.float32(0)), is_used)
    is_positive = scale > 0
    safe: Floats = np.where(is_positive, scale, np.float32(1))
    points = np.where(is_positive[:, None], _choose_points(groups, np.float32(1) / safe, safe), kept)
    sum_xq, sum_qq = _sums(columns, weights, points)
    refit = np.divide(sum_xq, sum_qq, out=scale.copy(), where=sum_qq > 0)
    return np.where(is_positive, refit, scale), points, is_used


def _try_scales(groups: _Groups, reach: Floats, scale: Floats, is_used: NDArray[np.bool_]) -> tuple[Floats, Integers]:
    """The best of thirteen scales, and its points."""
    columns, weights = groups.columns
    best, kept = np.zeros_like(reach), np.zeros((len(reach), 4), np.int64)
    for shift in range(-6, 7):
        inverse: Floats = (np.float32(5) + np.float32(shift) * np.float32(0.1)) / reach
        points = _choose_points(groups, inverse, np.float32(1) / inverse)
        sum_xq, sum_qq = _sums(columns, weights, points)
        with np.errstate(over="ignore"):
            better = is_used & (sum_qq > 0) & (sum_xq * sum_xq > best * sum_qq)
        trial = np.divide(sum_xq, sum_qq, out=np.zeros_like(sum_xq), where=better)
        best, scale = np.where(better, trial * sum_xq, best), np.where(better, trial, scale)
        kept = np.where(better[:, None], points, kept)
    return scale, kept


def _sums(columns: Floats, weights: Floats, points: Integers) -> tuple[Floats, Floats]:
    """Sums of w x q and of w q q over each group."""
    levels = np.ascontiguousarray(_LEVELS[points].reshape(-1, 32).T)
    return ordered_sum(weights * columns * levels), ordered_sum(weights * levels * levels)


def _choose_points(groups: _Groups, inverse: Floats, scale: Floats) -> Integers:
    """(groups, 4) grid points for the magnitudes times `inverse`; `scale` is one over it."""
    scaled = np.float32(0.5) * (inverse[:, None, None] * groups.folded - np.float32(1))
    tuples = (whole_codes(scaled, 2).astype(np.int64) * _PLACES).sum(axis=-1).reshape(-1)
    rows, roots = groups.folded.reshape(-1, 8), np.sqrt(groups.weights).reshape(-1, 8)
    table, scales = _neighbours(), np.repeat(scale, 4)
    points: Integers = table.points[tuples, 0].astype(np.int64)
    for missing in _of_like_length(np.nonzero(table.counts[tuples] > 1)[0], table.counts[tuples]):
        width = int(table.counts[tuples[missing]].max())
        candidates = table.points[tuples[missing], :width].astype(np.int64)
        best = _costs(rows[missing], roots[missing], scales[missing], candidates).argmin(axis=1)
        points[missing] = np.take_along_axis(candidates, best[:, None], axis=1)[:, 0]
    return points.reshape(-1, 4)


def _of_like_length(rows: Integers, counts: Integers) -> list[Integers]:
    """The rows in runs whose lists have about the same length, none too large for the memory."""
    ordered = rows[np.argsort(counts[rows], kind="stable")]
    runs: list[Integers] = []
    start = 0
    while start < len(ordered):
        length = int(counts[ordered[start]])
        stop = int(np.searchsorted(counts[ordered], max(2 * length, 8), side="right"))
        stop = min(stop, start + max(1, _SEARCH_ELEMENTS // (max(2 * length, 8) * _COLUMNS_OF_EIGHT)))
        runs.append(ordered[start:stop])
        start = stop
    return runs


def _costs(rows: Floats, roots: Floats, scales: Floats, candidates: Integers) -> Floats:
    """(rows, candidates): the weighted square distances, added over the eight weights in order."""
    total = np.zeros(candidates.shape, np.float32)
    for index in range(_COLUMNS_OF_EIGHT):
        difference = scales[:, None] * _LEVELS[candidates, index] - rows[:, index, None]
        total += roots[:, index, None] * difference * difference
    return total
