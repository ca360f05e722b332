"""Random weights in every format, and what they mean in float64."""

from dataclasses import dataclass

import numpy as np

from whitedwarf._native import Kernels, Matrix
from whitedwarf.gguf.codecs import decode
from whitedwarf.gguf.types import GgmlType

QUANTISED = (
    GgmlType.Q8_0,
    GgmlType.Q2_K,
    GgmlType.Q3_K,
    GgmlType.Q4_K,
    GgmlType.Q5_K,
    GgmlType.Q6_K,
    GgmlType.IQ2_XXS,
    GgmlType.MXFP4,
)
FLOATS = (GgmlType.F32, GgmlType.F16, GgmlType.BF16)
LEVELS = tuple(Kernels.available_levels())


@dataclass(frozen=True, slots=True)
class Halves:
    """Where a block keeps its float16 scales, and how large they are when weights are about 0.06."""

    offsets: tuple[int, ...]
    size: float


# The rest of a random block may be any bytes.
HALVES = {
    GgmlType.Q8_0: Halves((0,), 1e-3),
    GgmlType.Q2_K: Halves((80, 82), 5e-3),
    GgmlType.Q3_K: Halves((108,), 2e-3),
    GgmlType.Q4_K: Halves((0, 2), 3e-4),
    GgmlType.Q5_K: Halves((0, 2), 1.5e-4),
    GgmlType.Q6_K: Halves((208,), 1e-4),
    GgmlType.IQ2_XXS: Halves((0,), 1e-3),
}


@dataclass(frozen=True, slots=True)
class Weights:
    """One random matrix, as bytes, as the kernels see it and as exact numbers."""

    type: GgmlType
    shape: tuple[int, ...]
    data: np.ndarray  # (size_bytes,) uint8
    matrix: Matrix

    def exact(self) -> np.ndarray:
        return decode(self.data, self.type, self.shape).astype(np.float64)


def random_bytes(rng: np.random.Generator, type: GgmlType, shape: tuple[int, ...]) -> np.ndarray:
    """Blocks of random bits with tame scales."""
    if type in FLOATS:
        values = 0.06 * rng.standard_normal(shape).astype(np.float32)
        if type == GgmlType.F32:
            return values.reshape(-1).view(np.uint8)
        if type == GgmlType.F16:
            return values.astype(np.float16).reshape(-1).view(np.uint8)
        return (values.reshape(-1).view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    num_blocks = int(np.prod(shape)) // type.block_size
    blocks = rng.integers(0, 256, (num_blocks, type.block_bytes), dtype=np.uint8)
    if type == GgmlType.MXFP4:
        blocks[:, 0] = rng.integers(119, 124, num_blocks)
    halves = HALVES.get(type, Halves((), 0))
    for offset in halves.offsets:
        scales = (rng.uniform(0.5, 2, num_blocks) * rng.choice([-1, 1], num_blocks) * halves.size).astype(np.float16)
        blocks[:, offset : offset + 2] = scales.reshape(-1, 1).view(np.uint8)
    return blocks.reshape(-1)


def random_weights(rng: np.random.Generator, type: GgmlType, shape: tuple[int, ...], offset: int = 0) -> Weights:
    """Random weights at `offset` bytes from an aligned address."""
    data = random_bytes(rng, type, shape)
    room = np.zeros(data.size + offset + 64, np.uint8)
    start = (-room.ctypes.data) % 64 + offset
    view = room[start : start + data.size]
    view[:] = data
    return Weights(type, shape, view, Matrix(view, int(type), shape))


def random_rows(rng: np.random.Generator, rows: int, cols: int) -> np.ndarray:
    return rng.standard_normal((rows, cols)).astype(np.float32)


def linear(kernels: Kernels, x: np.ndarray, weights: Weights, quality: bool) -> np.ndarray:
    out = np.full((x.shape[0], weights.shape[0]), np.nan, np.float32)
    kernels.linear(x, weights.matrix, out, quality)
    return out
