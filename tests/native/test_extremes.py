"""Blocks that random ones hardly contain: every grid entry and sign mask of IQ2_XXS, zeros, the ends of the scales."""

import numpy as np
import pytest

from native.weights import HALVES, LEVELS, QUANTISED, Weights, linear, random_bytes, random_rows
from whitedwarf._native import Kernels, Matrix
from whitedwarf.gguf.types import GgmlType

KERNELS = {level: Kernels(1, level) for level in LEVELS}
FEW_AND_MANY = (1, 2, 3, 4, 5)
GRID, MASKS, EIGHTHS = 256, 128, 32  # grid entries, sign masks, and places for one of each in a block


def weights_of(type: GgmlType, blocks: np.ndarray, cols: int) -> Weights:
    """Blocks, (count, block_bytes) uint8, as rows of `cols` columns."""
    shape = (blocks.shape[0] * type.block_size // cols, cols)
    data = np.ascontiguousarray(blocks).reshape(-1)
    return Weights(type, shape, data, Matrix(data, int(type), shape))


def every_iq2_block() -> Weights:
    """At each of a block's 32 places every grid entry with every sign mask, and every scale in turn: 32768 blocks."""
    count = GRID * MASKS
    which = (np.arange(count)[:, None] + np.arange(EIGHTHS) * (count // EIGHTHS)) % count
    entries, masks = (part.reshape(count, 8, 4) for part in np.divmod(which, MASKS))
    rest = (masks << np.array([0, 7, 14, 21])).sum(axis=2) | (np.arange(count) % 16 << 28)[:, None]
    blocks = np.empty((count, 66), np.uint8)
    blocks[:, :2] = np.array([-0.375], np.float16).view(np.uint8)
    groups = blocks[:, 2:].reshape(count, 8, 8)
    groups[:, :, :4] = entries
    groups[:, :, 4:] = rest.astype("<u4").reshape(count, 8, 1).view(np.uint8)
    return weights_of(GgmlType.IQ2_XXS, blocks, 256)


@pytest.mark.parametrize("level", LEVELS)
def test_every_grid_entry_with_every_sign_mask_decodes_at_every_place(level):
    weights = every_iq2_block()
    decoded = np.empty(weights.shape, np.float32)
    KERNELS[level].dequantize(weights.matrix, decoded)
    np.testing.assert_array_equal(decoded, weights.exact())


@pytest.mark.parametrize("level", LEVELS[1:])
@pytest.mark.parametrize("n", [1, 5])
def test_every_grid_entry_with_every_sign_mask_multiplies_to_the_same_bits(level, n):
    weights = every_iq2_block()
    x = random_rows(np.random.default_rng(1), n, 256)
    expected = linear(KERNELS["scalar"], x, weights, quality=False)
    np.testing.assert_array_equal(linear(KERNELS[level], x, weights, quality=False), expected)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("type", QUANTISED)
def test_blocks_of_zeros_give_zero(type, level):
    weights = weights_of(type, np.zeros((24 * 256 // type.block_size, type.block_bytes), np.uint8), 768)
    for n in FEW_AND_MANY:
        out = linear(KERNELS[level], random_rows(np.random.default_rng(2), n, 768), weights, quality=False)
        np.testing.assert_array_equal(out, np.zeros((n, 8), np.float32))


@pytest.mark.parametrize("level", LEVELS[1:])
@pytest.mark.parametrize("type", QUANTISED)
@pytest.mark.parametrize("size", [1e-37, 1.0, 1e30])
def test_the_ends_of_the_scales_give_the_same_bits(type, level, size):
    rng = np.random.default_rng(3)
    blocks = random_bytes(rng, type, (8, 768)).reshape(-1, type.block_bytes)
    ends = np.array([0, -0.0, 2**-24, -(2**-24), 2**-14, 65504, -65504, np.inf, -np.inf, np.nan], np.float16)
    for offset in HALVES[type].offsets if type in HALVES else ():
        blocks[:, offset : offset + 2] = rng.choice(ends, len(blocks)).reshape(-1, 1).view(np.uint8)
    if type == GgmlType.MXFP4:
        blocks[:, 0] = rng.choice([0, 1, 2, 253, 254, 255], len(blocks))
    weights = weights_of(type, blocks, 768)
    x = (random_rows(rng, max(FEW_AND_MANY), 768) * np.float32(size)).astype(np.float32)
    for n in FEW_AND_MANY:
        expected = linear(KERNELS["scalar"], x[:n], weights, quality=False)
        np.testing.assert_array_equal(linear(KERNELS[level], x[:n], weights, quality=False), expected)
