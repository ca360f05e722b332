"""Encoders of Q4_K and Q2_K: a weighted range fit per group, then small integer scales per block (model.md 5.3).

Inside, everything lies (elements, groups): one column is one group. Sums add in index order, so that the bytes are
those of the sequential original and of the native encoders (`native/quantize_k.h`), whose reference this is. Weights of
None mean "no imatrix" and choose the other, cheaper recipe of the same section.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whitedwarf.gguf.codecs_plain import floats_to_halves, halves_to_floats, require_searchable
from whitedwarf.gguf.fit import RangeSearch, fit_range, fit_scale, ordered_sum, whole_codes

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class _Layout:
    """How a K type cuts its 256 weights and how many steps its integers have."""

    groups: int
    max_code: int
    max_small: int  # of the integer scales and minimums
    search: RangeSearch  # without an imatrix
    weighted_search: RangeSearch
    variance_factor: float  # times the mean square in the imatrix recipe's sqrt(variance + x^2)
    own_importance: Callable[[Floats], Floats]  # without an imatrix


def row_squares(rows: Floats) -> Floats:
    """(rows, columns) -> (rows,): sums of squares in index order."""
    return ordered_sum(np.square(np.ascontiguousarray(rows.T)))


def _q4_importance(blocks: Floats) -> Floats:
    groups = blocks.reshape(-1, 32)
    spread = np.sqrt(row_squares(groups) / np.float32(32))
    importance: Floats = (spread[:, None] + np.abs(groups)).reshape(blocks.shape)
    return importance


_Q4_K = _Layout(8, 15, 63, RangeSearch(-1.0, 0.1, 20), RangeSearch(-0.9, 0.05, 36), 2.0, _q4_importance)
_Q2_K = _Layout(16, 3, 15, RangeSearch(-0.5, 0.1, 15, is_absolute=True), RangeSearch(-0.9, 0.05, 36), 1.0, np.abs)


@dataclass(frozen=True, slots=True)
class _Encoded:
    """One piece of blocks, every part still a number of its own."""

    scale: Bytes  # (blocks, 2) float16
    offset: Bytes  # (blocks, 2) float16
    small_scales: Bytes  # (blocks, groups)
    small_offsets: Bytes  # (blocks, groups)
    codes: Bytes  # (blocks, 256)


def encode_q4_k(blocks: Floats, weights: Floats | None = None) -> Bytes:
    parts = _encode(blocks, weights, _Q4_K)
    pairs = parts.codes.reshape(-1, 4, 2, 32)
    nibbles = (pairs[:, :, 0] | (pairs[:, :, 1] << 4)).reshape(-1, 128)
    packed = _pack_six_bits(parts.small_scales, parts.small_offsets)
    return np.concatenate([parts.scale, parts.offset, packed, nibbles], axis=1)


def encode_q2_k(blocks: Floats, weights: Floats | None = None) -> Bytes:
    parts = _encode(blocks, weights, _Q2_K)
    quarters = parts.codes.reshape(-1, 2, 4, 32)
    packed = quarters[:, :, 0] | (quarters[:, :, 1] << 2) | (quarters[:, :, 2] << 4) | (quarters[:, :, 3] << 6)
    small = parts.small_scales | (parts.small_offsets << 4)
    return np.concatenate([small, packed.reshape(-1, 64), parts.scale, parts.offset], axis=1)


def _encode(blocks: Floats, weights: Floats | None, layout: _Layout) -> _Encoded:
    require_searchable(blocks)
    values, importance = _columns(blocks, layout), _columns(_importance(blocks, weights, layout), layout)
    search = layout.search if weights is None else layout.weighted_search
    fit = fit_range(values, importance, layout.max_code, search)
    of_group = None if weights is None else _by_block(ordered_sum(importance), layout)
    scale, small_scales = _share(_by_block(fit.scale, layout), of_group, layout.max_small)
    offset, small_offsets = _share(_by_block(fit.offset, layout), of_group, layout.max_small)
    scales = (halves_to_floats(scale) * small_scales).reshape(-1)
    offsets = (halves_to_floats(offset) * small_offsets).reshape(-1)
    codes = _requantise(values, fit.codes, scales, offsets, layout.max_code)
    return _Encoded(scale, offset, small_scales, small_offsets, _rows(codes, layout))


def _importance(blocks: Floats, weights: Floats | None, layout: _Layout) -> Floats:
    if weights is None:
        return layout.own_importance(blocks)
    variance = np.float32(layout.variance_factor) * row_squares(blocks) / np.float32(256)
    weighted: Floats = weights * np.sqrt(variance[:, None] + np.square(blocks))
    return weighted


def _columns(blocks: Floats, layout: _Layout) -> Floats:
    """(blocks, 256) -> (elements of a group, blocks x groups)."""
    elements = 256 // layout.groups
    return np.ascontiguousarray(blocks.reshape(-1, elements).T)


def _by_block(per_group: Floats, layout: _Layout) -> Floats:
    """(blocks x groups,) -> (groups, blocks)."""
    return np.ascontiguousarray(per_group.reshape(-1, layout.groups).T)


def _rows(codes: Floats, layout: _Layout) -> Bytes:
    """(elements of a group, blocks x groups) -> (blocks, 256)."""
    by_block = codes.reshape(len(codes), -1, layout.groups).transpose(1, 2, 0)
    return by_block.reshape(-1, 256).astype(np.uint8)


def _share(values: Floats, weights: Floats | None, max_small: int) -> tuple[Bytes, Bytes]:
    """(groups, blocks) -> one float16 a block and one small integer a group, (blocks, 2) and (blocks, groups) bytes."""
    if weights is None:
        scale, small = _share_largest(values, max_small)
    else:
        scale, small = fit_scale(values, weights, max_small)
    return floats_to_halves(scale[:, None]), np.ascontiguousarray(small.T).astype(np.uint8)


def _share_largest(values: Floats, max_small: int) -> tuple[Floats, Floats]:
    """One float per block so that its largest group gets `max_small`; the others the nearest integer share."""
    largest = np.maximum(values.max(axis=0), 0)
    with np.errstate(divide="ignore", over="ignore"):
        inverse = np.float32(max_small) / largest
    small = whole_codes(np.where(np.isfinite(inverse), inverse, np.float32(0)) * values, max_small)
    return largest / np.float32(max_small), small


def _requantise(values: Floats, codes: Floats, scales: Floats, offsets: Floats, max_code: int) -> Floats:
    """Codes for the scales as stored; a group whose stored scale is zero keeps the codes of its fit."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        stored = whole_codes((values + offsets) / scales, max_code)
    return np.where(scales != 0, stored, codes)


def _pack_six_bits(scales: Bytes, offsets: Bytes) -> Bytes:
    """Two (blocks, 8) of 0..63 -> (blocks, 12) bytes; the inverse of `codecs_k.six_bit_pairs`."""
    first = scales[:, :4] | ((scales[:, 4:] >> 4) << 6)
    second = offsets[:, :4] | ((offsets[:, 4:] >> 4) << 6)
    mixed = (scales[:, 4:] & 15) | ((offsets[:, 4:] & 15) << 4)
    return np.concatenate([first, second, mixed], axis=1)
