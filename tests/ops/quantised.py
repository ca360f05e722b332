"""Random tensors of every type, as bytes of a file, whose values are of the order of one."""

import numpy as np

from whitedwarf.gguf.types import GgmlType
from whitedwarf.weights.tensors import Tensor

BLOCK_TYPES = (GgmlType.Q8_0, GgmlType.Q4_K, GgmlType.Q2_K, GgmlType.IQ2_XXS, GgmlType.MXFP4)
FLOAT_TYPES = (GgmlType.F32, GgmlType.F16, GgmlType.BF16)
TYPES = FLOAT_TYPES + BLOCK_TYPES
_HALVES = {  # first byte of a float16 in the block -> its typical size
    GgmlType.Q8_0: {0: 1 / 80},
    GgmlType.Q4_K: {0: 1 / 300, 2: 1 / 40},
    GgmlType.Q2_K: {80: 1 / 10, 82: 1 / 8},
    GgmlType.IQ2_XXS: {0: 1 / 60},
}


def random_tensor(type: GgmlType, shape: tuple[int, ...], rng: np.random.Generator) -> Tensor:
    """Any bytes, but for the scales."""
    if type in FLOAT_TYPES:
        values = rng.standard_normal(shape).astype(np.float32)
        return Tensor("test", type, shape, float_bytes(values, type))
    blocks = rng.integers(0, 256, (int(np.prod(shape)) // type.block_size, type.block_bytes), dtype=np.uint8)
    for first, size in _HALVES.get(type, {}).items():
        scales = (size * rng.uniform(0.5, 1.5, (len(blocks), 1))).astype(np.float16)
        blocks[:, first : first + 2] = scales.view(np.uint8)
    if type is GgmlType.MXFP4:
        blocks[:, 0] = rng.integers(124, 128, len(blocks))
    return Tensor("test", type, shape, blocks.reshape(-1))


def float_bytes(values: np.ndarray, type: GgmlType) -> np.ndarray:
    """The bytes of float types; BF16 by cutting."""
    match type:
        case GgmlType.F32:
            return values.reshape(-1).view(np.uint8)
        case GgmlType.F16:
            return values.astype(np.float16).reshape(-1).view(np.uint8)
        case _:
            return (values.reshape(-1).view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
