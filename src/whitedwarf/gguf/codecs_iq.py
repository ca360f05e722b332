"""IQ2_XXS: eight weights share one of 256 grid points and 7 sign bits; 2.06 bits a weight (model.md 5.1, 5.3).

The decoder is exact. The encoder follows the recipe of 5.3 with one difference: a code tuple outside the grid is
replaced by the best of all 256 grid points, not of a list of neighbours. It is made for correctness, not for speed.
"""

import numpy as np
from numpy.typing import NDArray

from whitedwarf.gguf.codecs_plain import floats_to_halves, halves_to_floats, require_finite
from whitedwarf.gguf.fit import TINY, fit_scale

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]

_GRID_HEX = """
0000 0002 0005 0008 000a 0011 0014 0020 0022 0028 002a 0041 0044 0050 0058 0061
0064 0080 0082 008a 00a2 0101 0104 0110 0115 0140 0184 0198 0200 0202 0222 0282
0401 0404 0410 0421 0424 0440 0442 0448 0460 0481 0484 0490 04a4 0500 0502 0508
0520 0546 0569 0580 0591 0609 0610 0640 0684 06a4 0800 0805 0808 0814 0828 0841
0844 0850 0852 0888 0904 0940 0a02 0a14 1001 1004 1010 1021 1040 1060 1084 1090
1095 1100 1108 1120 1150 115a 1180 1224 1245 1400 1408 1420 1425 1449 1480 1518
1562 1600 1616 1801 1804 1810 1840 1881 1900 1905 19a0 1a51 2000 2002 200a 2044
2061 2080 2082 2129 2148 2200 2202 2401 2404 2410 2440 2456 2500 2541 2564 2690
2808 2820 2894 2a44 4001 4004 4010 4018 4021 4024 4040 4048 4056 4060 4081 4084
4090 4100 4120 4161 4180 4185 4201 4210 4248 4256 4268 4400 4408 4420 4480 4499
4512 4524 4600 4801 4804 4810 4840 4845 4900 4958 4961 4982 4a45 4a90 5000 5008
5011 5019 5020 5080 5088 5104 5142 51a4 5291 5490 5492 550a 5601 5654 5800 5811
5819 5864 5940 5a08 6004 6010 6040 6068 6100 6155 6218 6260 6400 6405 6510 6512
6584 6842 8000 8002 800a 8041 8082 8104 8118 8140 8211 8401 8404 8410 8415 8440
8460 8500 8546 8594 8609 8640 8660 8802 8904 8a11 9004 9010 9024 9040 90a1 9116
9180 9245 9400 9422 9444 9551 9881 9920 a002 a050 a085 a109 a200 a418 a850 a904
"""
_SEARCH_ROWS = 4096  # rows x 256 grid points: four megabytes of costs at a time


def _grid_codes() -> Bytes:
    """(256, 8) of 0, 1, 2: two bits a weight, lowest first."""
    words = np.array([int(word, 16) for word in _GRID_HEX.split()], np.uint16)
    return ((words[:, None] >> np.arange(0, 16, 2, dtype=np.uint16)) & 3).astype(np.uint8)


def _sign_rows() -> Floats:
    """(128, 8) of ±1: seven stored bits, the eighth makes the number of negatives even."""
    bits = (np.arange(128)[:, None] >> np.arange(7)) & 1
    parity = bits.sum(axis=1, keepdims=True) & 1
    return (1 - 2 * np.concatenate([bits, parity], axis=1)).astype(np.float32)


def _grid_lookup(codes: Bytes) -> NDArray[np.int16]:
    """(65536,) code word -> grid index, -1 where the grid has no such point."""
    table = np.full(1 << 16, -1, np.int16)
    table[_code_words(codes)] = np.arange(256)
    return table


def _code_words(codes: NDArray[np.uint8]) -> NDArray[np.int64]:
    words: NDArray[np.int64] = (codes.astype(np.int64) << np.arange(0, 16, 2)).sum(axis=-1)
    return words


_GRID_CODES = _grid_codes()
_GRID = np.array([8, 25, 43], np.float32)[_GRID_CODES]
_SIGNS = _sign_rows()
_LOOKUP = _grid_lookup(_GRID_CODES)
_LEVELS = (2 * _GRID_CODES + 1).astype(np.float32)  # the encoder fits 1, 3, 5; the decoder reads 8, 25, 43 eighths
_COST_TERMS = np.concatenate([np.square(_LEVELS), -2 * _LEVELS], axis=1).T.copy()  # (16, 256)


def decode_iq2_xxs(blocks: Bytes) -> Floats:
    words = np.ascontiguousarray(blocks[:, 2:]).view(np.uint32).reshape(-1, 8, 2)
    grid = _GRID[np.ascontiguousarray(words[:, :, 0]).view(np.uint8)].reshape(-1, 8, 4, 8)
    signs = _SIGNS[(words[:, :, 1:] >> np.arange(0, 28, 7, dtype=np.uint32)) & 127]  # (blocks, 8, 4, 8)
    half_steps = np.float32(0.5) + (words[:, :, 1] >> np.uint32(28)).astype(np.float32)
    scales = halves_to_floats(blocks[:, :2]) * half_steps * np.float32(0.25)
    values: Floats = (scales[:, :, None, None] * grid * signs).reshape(-1, 256)
    return values


def column_energy(values: Floats) -> Floats:
    """The importance used when no imatrix is given: per matrix and column, the sum of squares over its rows."""
    rows = values if values.ndim > 1 else values[None]
    energy: Floats = np.einsum("...rc,...rc->...c", rows, rows)[..., None, :].astype(np.float32)
    return energy


def encode_iq2_xxs(blocks: Floats, weights: Floats | None) -> Bytes:
    """(blocks, 256) -> (blocks, 66); the weights are not optional here: the fit has no meaning without them."""
    assert weights is not None
    require_finite(blocks)
    importance = weights * np.sqrt(np.square(blocks).mean(axis=1, keepdims=True, dtype=np.float32) + np.square(blocks))
    values, importance = blocks.reshape(-1, 4, 8), importance.reshape(-1, 4, 8)  # (groups, 4, 8)
    magnitudes, sign_bits = _fold_signs(values, importance)
    scales, points = _fit_groups(magnitudes, importance)
    scales, sign_bits = np.abs(scales), np.where(scales[:, None] < 0, ~sign_bits & 127, sign_bits)
    per_block = scales.reshape(-1, 8)
    block_scale = per_block.max(axis=1, keepdims=True) / np.float32(31)
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.clip(np.rint(0.5 * (per_block / block_scale - 1)), 0, 15)
    steps = np.where(block_scale > 0, steps, 0).astype(np.uint32)
    signs = (sign_bits.astype(np.uint32) << np.arange(0, 28, 7, dtype=np.uint32)).sum(axis=1, dtype=np.uint32)
    words = np.stack(
        [points.astype(np.uint8).view(np.uint32)[:, 0], signs | (steps.reshape(-1) << np.uint32(28))], axis=1
    )
    return np.concatenate([floats_to_halves(block_scale), words.reshape(-1, 16).view(np.uint8)], axis=1)


def _fold_signs(values: Floats, importance: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """Magnitudes and 7-bit sign words; where the negatives are odd, the cheapest weight changes sides."""
    negative = values < 0
    odd = (negative.sum(axis=-1) & 1).astype(bool)
    cheapest = (importance * np.square(values)).argmin(axis=-1)
    flip = odd[..., None] & (np.arange(8) == cheapest[..., None])
    magnitudes = np.where(flip, -np.abs(values), np.abs(values))
    bits = (negative ^ flip)[..., :7]
    return magnitudes, (bits.astype(np.int64) << np.arange(7)).sum(axis=-1)


def _fit_groups(magnitudes: Floats, importance: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """Scale of every group and its four grid points, by thirteen trials and a last refit."""
    columns = np.ascontiguousarray(magnitudes.reshape(-1, 32).T)
    first, _ = fit_scale(columns, np.ascontiguousarray(importance.reshape(-1, 32).T), 4)
    reach: Floats = 3 * first
    usable = (columns.max(axis=0) >= TINY) & (reach > 0)
    reach = np.where(usable, reach, np.float32(1))
    best, scale = np.zeros_like(reach), np.zeros_like(reach)
    for shift in range(-6, 7):
        inverse: Floats = (np.float32(5) + np.float32(0.1) * np.float32(shift)) / reach
        points = _nearest_points(magnitudes, importance, inverse)
        trial, score = _solve(magnitudes, importance, points)
        better = score > best
        best, scale = np.where(better, score, best), np.where(better, trial, scale)
    safe: Floats = np.where(usable & (scale > 0), scale, np.float32(1))
    points = _nearest_points(magnitudes, importance, np.float32(1) / safe)
    refit, _ = _solve(magnitudes, importance, points)
    return np.where(usable & (scale > 0), refit, np.float32(0)), points


def _solve(magnitudes: Floats, importance: Floats, points: NDArray[np.int64]) -> tuple[Floats, Floats]:
    levels = _LEVELS[points]
    sum_xq = (importance * magnitudes * levels).sum(axis=(1, 2))
    sum_qq = (importance * levels * levels).sum(axis=(1, 2))
    scale = np.divide(sum_xq, sum_qq, out=np.zeros_like(sum_xq), where=sum_qq > 0)
    return scale, scale * sum_xq


def _nearest_points(magnitudes: Floats, importance: Floats, inverse: Floats) -> NDArray[np.int64]:
    """(groups, 4) grid indices for the magnitudes scaled by `inverse`."""
    scaled = magnitudes * inverse[:, None, None]
    codes = np.clip(np.rint(0.5 * (scaled - 1)), 0, 2).astype(np.uint8)
    points = _LOOKUP[_code_words(codes)].astype(np.int64)
    missing = np.nonzero(points < 0)
    points[missing] = _search_grid(scaled[missing], np.sqrt(importance[missing]))
    return points


def _search_grid(targets: Floats, weights: Floats) -> NDArray[np.int64]:
    """The grid point of least weighted square distance for every row (rows, 8)."""
    found = np.empty(len(targets), np.int64)
    known = np.concatenate([weights, weights * targets], axis=1)  # w q^2 - 2 w q t; the constant w t^2 does not matter
    for start in range(0, len(targets), _SEARCH_ROWS):
        rows = slice(start, start + _SEARCH_ROWS)
        found[rows] = (known[rows] @ _COST_TERMS).argmin(axis=1)
    return found
