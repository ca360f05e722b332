"""Decoders of the K types: 256 weights a block, small integer scales under one or two float16 ones (model.md 5.1).

Every function maps whole blocks, (blocks, block_bytes) uint8 -> (blocks, 256) float32. The order of the multiplications
is part of the format's meaning here: first scale times small scale, then times the quant, then minus the offset.
"""

import numpy as np
from numpy.typing import NDArray

from whitedwarf.gguf.codecs_plain import halves_to_floats

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]

_BY_TWO = np.arange(0, 8, 2, dtype=np.uint8)[:, None]
_BY_ONE = np.arange(8, dtype=np.uint8)[:, None]
_NIBBLES = np.array([[0], [4]], np.uint8)


def spread(packed: Bytes, shifts: Bytes, width: int) -> Bytes:
    """(blocks, n) bytes -> (blocks, n / width, shifts, width): each run of `width` bytes at each shift, unmasked."""
    return packed.reshape(len(packed), -1, 1, width) >> shifts


def six_bit_pairs(packed: Bytes) -> tuple[Bytes, Bytes]:
    """Scales and minimums of Q4_K and Q5_K: (blocks, 12) bytes -> two (blocks, 8) of 0..63."""
    first, second, mixed = packed[:, 0:4], packed[:, 4:8], packed[:, 8:12]
    scales = np.concatenate([first & 63, (mixed & 15) | ((first >> 2) & 48)], axis=1)
    minimums = np.concatenate([second & 63, (mixed >> 4) | ((second >> 2) & 48)], axis=1)
    return scales, minimums


def decode_q2_k(blocks: Bytes) -> Floats:
    scales = halves_to_floats(blocks[:, 80:82]) * (blocks[:, :16] & 15)
    offsets = halves_to_floats(blocks[:, 82:84]) * (blocks[:, :16] >> 4)
    quants = spread(blocks[:, 16:80], _BY_TWO, 32) & 3
    return _affine(scales, quants.astype(np.float32), offsets)


def decode_q3_k(blocks: Bytes) -> Floats:
    scales = halves_to_floats(blocks[:, 108:110]) * _q3_scales(blocks[:, 96:108])
    low = spread(blocks[:, 32:96], _BY_TWO, 32) & 3
    is_high = spread(blocks[:, :32], _BY_ONE, 32) & 1  # a clear bit means minus four
    quants = low.reshape(-1, 16, 16).astype(np.float32) - 4 * (1 - is_high.reshape(-1, 16, 16).astype(np.float32))
    return _scaled(scales, quants)


def _q3_scales(packed: Bytes) -> Floats:
    """(blocks, 12) bytes -> (blocks, 16) of -32..31: eight bytes of low nibbles, four bytes of high bit pairs."""
    low = (spread(packed[:, :8], _NIBBLES, 8) & 15).reshape(-1, 16)
    high = (spread(packed[:, 8:], _BY_TWO, 4) & 3).reshape(-1, 16)
    return (low | (high << 4)).astype(np.float32) - 32


def decode_q4_k(blocks: Bytes) -> Floats:
    small_scales, small_minimums = six_bit_pairs(blocks[:, 4:16])
    quants = spread(blocks[:, 16:144], _NIBBLES, 32) & 15
    scales = halves_to_floats(blocks[:, :2]) * small_scales
    return _affine(scales, quants.astype(np.float32), halves_to_floats(blocks[:, 2:4]) * small_minimums)


def decode_q5_k(blocks: Bytes) -> Floats:
    small_scales, small_minimums = six_bit_pairs(blocks[:, 4:16])
    low = (spread(blocks[:, 48:176], _NIBBLES, 32) & 15).reshape(-1, 8, 32)
    high = (spread(blocks[:, 16:48], _BY_ONE, 32) & 1).reshape(-1, 8, 32)
    scales = halves_to_floats(blocks[:, :2]) * small_scales
    offsets = halves_to_floats(blocks[:, 2:4]) * small_minimums
    return _affine(scales, (low | (high << 4)).astype(np.float32), offsets)


def decode_q6_k(blocks: Bytes) -> Floats:
    scales = halves_to_floats(blocks[:, 208:210]) * blocks[:, 192:208].view(np.int8)
    low = (spread(blocks[:, :128], _NIBBLES, 64) & 15).reshape(-1, 16, 16)
    high = (spread(blocks[:, 128:192], _BY_TWO, 32) & 3).reshape(-1, 16, 16)
    return _scaled(scales, (low | (high << 4)).astype(np.float32) - 32)


def _scaled(scales: Floats, quants: Floats) -> Floats:
    """(blocks, groups) x (blocks, 256 in any shape) -> (blocks, 256)."""
    num_blocks, groups = scales.shape
    return (scales[:, :, None] * quants.reshape(num_blocks, groups, -1)).reshape(num_blocks, 256)


def _affine(scales: Floats, quants: Floats, offsets: Floats) -> Floats:
    num_blocks, groups = scales.shape
    products = scales[:, :, None] * quants.reshape(num_blocks, groups, -1)
    return (products - offsets[:, :, None]).reshape(num_blocks, 256)
