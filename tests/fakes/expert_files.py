"""Files with experts of random bytes, laid out like a model's: three stacks a layer, at places of any alignment."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from whitedwarf.weights.expert_extents import Extent, LayerExtents


def write_experts(
    path: Path,
    num_layers: int,
    num_experts: int,
    matrix_bytes: Sequence[tuple[int, int, int]],
    gap_bytes: int = 100,
    seed: int = 0,
) -> tuple[LayerExtents, ...]:
    """Layer N has matrices of `matrix_bytes[N % len(matrix_bytes)]`; ends with the last expert's last byte."""
    rng, layers, offset = np.random.default_rng(seed), [], 0
    with path.open("wb") as file:
        for layer in range(num_layers):
            stacks = []
            for size in matrix_bytes[layer % len(matrix_bytes)]:
                file.write(rng.bytes(gap_bytes))
                offset += gap_bytes
                stacks.append(Extent(0, offset, size * num_experts))
                file.write(rng.bytes(size * num_experts))
                offset += size * num_experts
            layers.append(LayerExtents(layer, stacks[0], stacks[1], stacks[2], num_experts))
    return tuple(layers)


def bytes_of(path: Path, extent: Extent) -> bytes:
    """The slow way."""
    with path.open("rb") as file:
        file.seek(extent.offset_bytes)
        return file.read(extent.size_bytes)
