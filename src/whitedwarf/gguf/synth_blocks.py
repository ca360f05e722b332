"""Random tensor data at the speed of copying: valid blocks of every type, with a wanted standard deviation.

Promises that the decoded values have mean about 0 and the standard deviation asked for, and that the bytes depend only
on the seed. A slab of random blocks is drawn once per type and deviation; a tensor is made of pieces of it from random
places, so the values are random enough for numerics and speed but not independent. Knows nothing of tensors' names.
"""

from collections.abc import Iterator

import ml_dtypes
import numpy as np

from whitedwarf.gguf.codecs import decode
from whitedwarf.gguf.types import GgmlType

SLAB_BYTES = 8 << 20
MXFP4_RMS = 2.9262  # of the sixteen codes at scale 1

_FLOATS: dict[GgmlType, np.dtype] = {
    GgmlType.F32: np.dtype(np.float32),
    GgmlType.F16: np.dtype(np.float16),
    GgmlType.BF16: np.dtype(ml_dtypes.bfloat16),
}
# Where the f16 scales of a block lie, and in which proportion; the second one of the K types shifts the mean to zero.
_SCALES: dict[GgmlType, tuple[tuple[int, float], ...]] = {
    GgmlType.Q8_0: ((0, 1.0),),
    GgmlType.Q2_K: ((80, 1.0), (82, 1.5)),
    GgmlType.Q4_K: ((0, 1.0), (2, 7.5)),
    GgmlType.IQ2_XXS: ((0, 1.0),),
}
SYNTHETIC_TYPES = (*_FLOATS, *_SCALES, GgmlType.MXFP4)


class RandomBlocks:
    """Makes tensor data; remembers its slabs, at most `slab_bytes` each and one per type and deviation."""

    def __init__(self, seed: int, slab_bytes: int = SLAB_BYTES) -> None:
        self._seed = seed
        self._slab_bytes = slab_bytes
        self._slabs: dict[tuple[GgmlType, float], np.ndarray] = {}

    def pieces(self, type_: GgmlType, num_elements: int, std: float, rng: np.random.Generator) -> Iterator[np.ndarray]:
        """The bytes of `num_elements` values as uint8 arrays of whole blocks; some are views, so do not change them."""
        slab = self._slab(type_, std)
        missing = num_elements // type_.block_size
        while missing:
            count = min(missing, max(len(slab) // 2, 1))
            start = int(rng.integers(len(slab) - count + 1))
            yield _rescaled(slab[start : start + count], type_, float(rng.uniform(0.85, 1.15)))
            missing -= count

    def _slab(self, type_: GgmlType, std: float) -> np.ndarray:
        key = (type_, std)
        if key not in self._slabs:
            num_blocks = max(self._slab_bytes // type_.block_bytes, 1)
            rng = np.random.default_rng([self._seed, int(type_), int(np.float64(std).view(np.uint64))])
            self._slabs[key] = random_blocks(type_, num_blocks, std, rng)
        return self._slabs[key]


def random_blocks(type_: GgmlType, num_blocks: int, std: float, rng: np.random.Generator) -> np.ndarray:
    """(num_blocks, block_bytes) uint8 whose decoded values have mean 0 and the standard deviation `std`."""
    if type_ in _FLOATS:
        values = rng.standard_normal(num_blocks, np.float32) * np.float32(std)
        return values.astype(_FLOATS[type_]).view(np.uint8).reshape(num_blocks, type_.block_bytes)
    if type_ not in SYNTHETIC_TYPES:
        names = ", ".join(known.name for known in SYNTHETIC_TYPES)
        raise ValueError(f"no random blocks for {type_.name}; expected one of {names}")
    blocks = rng.integers(0, 256, (num_blocks, type_.block_bytes), np.uint8)
    if type_ is GgmlType.MXFP4:
        blocks[:, 0] = _exponents(num_blocks, std, rng)
        return blocks
    _make_valid(type_, blocks)
    unit = _deviation_at_scale_one(type_, blocks[:256])
    jitter = rng.uniform(0.75, 1.25, num_blocks) / 1.0104  # keeps the mean square
    _set_scales(type_, blocks, jitter * (std / unit))
    return blocks


def _make_valid(type_: GgmlType, blocks: np.ndarray) -> None:
    """Turn random bytes into what a quantiser could have written: large integer scales, symmetric ranges."""
    if type_ is GgmlType.Q8_0:
        quants = blocks[:, 2:]
        quants[quants == 0x80] = 0x81  # -128 is never written, and kernels may rely on it
    elif type_ is GgmlType.IQ2_XXS:
        blocks[:, 9::8] |= 0x80  # group scales of 8 to 15
    elif type_ is GgmlType.Q2_K:
        scales = (blocks[:, :16] & 7) + 8
        blocks[:, :16] = scales | (scales << 4)  # minimum = scale, so that dmin = 1.5 d centres the four values
    elif type_ is GgmlType.Q4_K:
        blocks[:, 4:8] = (blocks[:, 4:8] & 0x7F) | 0xA0  # six-bit scales of 32 to 63, all eight of them
        blocks[:, 8:12] = blocks[:, 4:8]
        blocks[:, 12:16] = (blocks[:, 12:16] & 15) * 17


def _deviation_at_scale_one(type_: GgmlType, sample: np.ndarray) -> float:
    sample = sample.copy()
    _set_scales(type_, sample, np.ones(len(sample)))
    return float(decode(sample.reshape(-1), type_, (len(sample), type_.block_size)).std())


def _set_scales(type_: GgmlType, blocks: np.ndarray, scales: np.ndarray) -> None:
    for offset, weight in _SCALES[type_]:
        blocks[:, offset : offset + 2] = (scales * weight).astype("<f2").view(np.uint8).reshape(-1, 2)


def _exponents(num_blocks: int, std: float, rng: np.random.Generator) -> np.ndarray:
    """Scales are powers of two: mix two neighbours so that the mean square is right."""
    low = int(np.floor(np.log2(std / MXFP4_RMS)))
    share_of_high = ((std / (2.0**low * MXFP4_RMS)) ** 2 - 1) / 3
    return (low + 127 + (rng.random(num_blocks) < share_of_high)).astype(np.uint8)


def _rescaled(blocks: np.ndarray, type_: GgmlType, factor: float) -> np.ndarray:
    """A copy with all f16 scales multiplied, so that experts cut from one slab differ; other types come as they are."""
    if type_ in _SCALES:
        blocks = blocks.copy()
        for offset, _ in _SCALES[type_]:
            scales = np.ascontiguousarray(blocks[:, offset : offset + 2]).view("<f2")
            blocks[:, offset : offset + 2] = (
                (scales.astype(np.float32) * np.float32(factor)).astype("<f2").view(np.uint8)
            )
    return blocks.reshape(-1)
