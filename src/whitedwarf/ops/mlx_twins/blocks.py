"""Weights as the Apple backend keeps them: a GGUF tensor's blocks split into planes of the same total size.

A block of 34 or 66 bytes cannot be read in words; its parts, each in an array of its own, can. Nothing is decoded
before it is used. `decode` gives the bits of gguf/codecs.py.

Planes by type, each (..., what a row has of them), ... being the tensor's shape but for the columns:
    F32, F16, BF16   values
    Q8_0             quants int8 (columns), scales f16 (columns / 32)
    Q4_K             quants u8 (columns / 2), small scales u8 (12 a block), scale and minimum f16 (2 a block)
    Q2_K             quants u8 (columns / 4), small scales u8 (16 a block), scale and minimum f16 (2 a block)
    IQ2_XXS          codes u32 (16 a block: 4 grid bytes, then signs and a small scale), scales f16 (1 a block)
    MXFP4            quants u8 (columns / 2), scales e8m0 as u8 (columns / 32)
"""

from collections.abc import Callable
from dataclasses import dataclass

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from whitedwarf.errors import BackendError
from whitedwarf.gguf.codecs_iq import GRID_CODES
from whitedwarf.gguf.codecs_plain import FP4_DOUBLED, HALF_SCALES
from whitedwarf.gguf.types import GgmlType
from whitedwarf.weights.tensors import Tensor

Bytes = npt.NDArray[np.uint8]
Part = tuple[int, int, type[np.generic]]  # first byte of a block, the one behind its last, what it is read as

PARTS: dict[GgmlType, tuple[Part, ...]] = {
    GgmlType.F32: ((0, 4, np.float32),),
    GgmlType.F16: ((0, 2, np.float16),),
    GgmlType.BF16: ((0, 2, np.uint16),),
    GgmlType.Q8_0: ((2, 34, np.int8), (0, 2, np.float16)),
    GgmlType.Q4_K: ((16, 144, np.uint8), (4, 16, np.uint8), (0, 4, np.float16)),
    GgmlType.Q2_K: ((16, 80, np.uint8), (0, 16, np.uint8), (80, 84, np.float16)),
    GgmlType.IQ2_XXS: ((2, 66, np.uint32), (0, 2, np.float16)),
    GgmlType.MXFP4: ((1, 17, np.uint8), (0, 1, np.uint8)),
}


@dataclass(frozen=True, slots=True)
class MlxWeight:
    """A tensor on the device."""

    type: GgmlType
    shape: tuple[int, ...]  # (rows, columns) or (experts, rows, columns)
    planes: tuple[mx.array, ...]  # see the module docstring

    def rows(self, first: int, end: int) -> "MlxWeight":
        """Some rows of a matrix."""
        return MlxWeight(self.type, (end - first, self.shape[1]), tuple(plane[first:end] for plane in self.planes))

    def expert(self, index: int) -> "MlxWeight":
        """One matrix of a stack."""
        return MlxWeight(self.type, self.shape[1:], tuple(plane[index] for plane in self.planes))

    def picked(self, ids: mx.array) -> "MlxWeight":
        """Rows of a matrix, in any order."""
        planes = tuple(mx.take(plane, ids, axis=0) for plane in self.planes)
        return MlxWeight(self.type, (ids.shape[0], *self.shape[1:]), planes)


def weight_of(tensor: Tensor) -> MlxWeight:
    """Take a tensor in; BackendError when there is no product for its type."""
    if tensor.type not in PARTS:
        known = ", ".join(type.name for type in PARTS)
        raise BackendError(
            f"backend mlx has no product for {tensor.type.name} ({tensor.name}); it has {known}: "
            "quantise the model to one of these (whitedwarf gguf quantize), or use --backend cpu"
        )
    planes = tuple(_plane(tensor, *part) for part in PARTS[tensor.type])
    mx.eval(*planes)  # so that any thread may use them
    return MlxWeight(tensor.type, tensor.shape, planes)


def decode(weight: MlxWeight) -> mx.array:
    """The whole weight as f32, of its shape."""
    return _DECODERS[weight.type](*weight.planes).reshape(weight.shape)


def _plane(tensor: Tensor, start: int, end: int, dtype: type[np.generic]) -> mx.array:
    blocks = tensor.data.reshape(-1, tensor.type.block_bytes)
    part = np.ascontiguousarray(blocks[:, start:end]).view(dtype).reshape(*tensor.shape[:-1], -1)
    plane = mx.array(part)
    return plane.view(mx.bfloat16) if tensor.type is GgmlType.BF16 else plane


def _floats(values: mx.array) -> mx.array:
    return values.astype(mx.float32)


def _decode_q8_0(quants: mx.array, scales: mx.array) -> mx.array:
    return _floats(quants).reshape(-1, 32) * _floats(scales).reshape(-1, 1)


def _decode_q4_k(quants: mx.array, small: mx.array, steps: mx.array) -> mx.array:
    scales, minimums = _six_bit_pairs(small.reshape(-1, 12))
    first, second = _pairs(steps)
    runs = quants.reshape(-1, 4, 1, 32)
    levels = mx.concatenate([runs & 15, runs >> 4], axis=2)  # (blocks, 4, 2, 32)
    return _affine(first * _floats(scales), levels, second * _floats(minimums))


def _decode_q2_k(quants: mx.array, small: mx.array, steps: mx.array) -> mx.array:
    small = small.reshape(-1, 16)
    first, second = _pairs(steps)
    runs = quants.reshape(-1, 2, 1, 32)
    levels = mx.concatenate([(runs >> shift) & 3 for shift in (0, 2, 4, 6)], axis=2)  # (blocks, 2, 4, 32)
    return _affine(first * _floats(small & 15), levels, second * _floats(small >> 4))


def _decode_iq2_xxs(codes: mx.array, steps: mx.array) -> mx.array:
    words = codes.reshape(-1, 8, 2)
    points, scaled_signs = words[:, :, 0:1], words[:, :, 1:2]
    grid = GRID[(points >> mx.arange(0, 32, 8, dtype=mx.uint32)) & 255]  # (blocks, 8, 4, 8)
    signs = SIGNS[(scaled_signs >> mx.arange(0, 28, 7, dtype=mx.uint32)) & 127]
    half_steps = 0.5 + _floats(scaled_signs[:, :, 0] >> 28)
    scales = _floats(steps).reshape(-1, 1) * half_steps * 0.25
    return scales[:, :, None, None] * grid * signs


def _decode_mxfp4(quants: mx.array, scales: mx.array) -> mx.array:
    runs = quants.reshape(-1, 1, 16)
    codes = mx.concatenate([runs & 15, runs >> 4], axis=1).reshape(-1, 32)
    return DOUBLED[codes] * HALVES[scales.reshape(-1, 1)]


def _six_bit_pairs(packed: mx.array) -> tuple[mx.array, mx.array]:
    """Small scales and minimums of Q4_K: (blocks, 12) bytes -> two (blocks, 8) of 0..63."""
    first, second, mixed = packed[:, 0:4], packed[:, 4:8], packed[:, 8:12]
    scales = mx.concatenate([first & 63, (mixed & 15) | ((first >> 2) & 48)], axis=1)
    minimums = mx.concatenate([second & 63, (mixed >> 4) | ((second >> 2) & 48)], axis=1)
    return scales, minimums


def _pairs(steps: mx.array) -> tuple[mx.array, mx.array]:
    pairs = _floats(steps).reshape(-1, 2)
    return pairs[:, :1], pairs[:, 1:]


def _affine(scales: mx.array, levels: mx.array, offsets: mx.array) -> mx.array:
    """(blocks, groups) by (blocks, 256 in any shape): scale times level, minus the offset."""
    groups = _floats(levels).reshape(*scales.shape, -1)
    return scales[:, :, None] * groups - offsets[:, :, None]


def _sign_rows() -> npt.NDArray[np.float32]:
    """(128, 8) of ±1: seven stored bits, the eighth makes the number of negatives even."""
    bits = (np.arange(128)[:, None] >> np.arange(7)) & 1
    parity = bits.sum(axis=1, keepdims=True) & 1
    return (1 - 2 * np.concatenate([bits, parity], axis=1)).astype(np.float32)


GRID = mx.array(np.array([8, 25, 43], np.float32)[GRID_CODES])  # (256, 8)
SIGNS = mx.array(_sign_rows())  # (128, 8)
DOUBLED = mx.array(FP4_DOUBLED)  # (16,)
HALVES = mx.array(HALF_SCALES)  # (256,)

_DECODERS: dict[GgmlType, Callable[..., mx.array]] = {
    GgmlType.F32: _floats,
    GgmlType.F16: _floats,
    GgmlType.BF16: _floats,
    GgmlType.Q8_0: _decode_q8_0,
    GgmlType.Q4_K: _decode_q4_k,
    GgmlType.Q2_K: _decode_q2_k,
    GgmlType.IQ2_XXS: _decode_iq2_xxs,
    GgmlType.MXFP4: _decode_mxfp4,
}
