"""A GGUF file made from another one: tensors renamed, left out or added, metadata changed."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from whitedwarf.gguf.census import ExpectedTensor
from whitedwarf.gguf.codecs import encode
from whitedwarf.gguf.metadata import TypedMetadata
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.gguf.types import GgmlType
from whitedwarf.gguf.writer import GgufWriter

Added = tuple[GgmlType, tuple[int, ...], np.ndarray]  # type, shape, bytes


def rewritten(
    source: Path,
    target: Path,
    *,
    rename: Callable[[str], str | None] = lambda name: name,
    metadata: Callable[[TypedMetadata], TypedMetadata] = lambda values: values,
    added: Mapping[str, Added] | None = None,
) -> Path:
    """Copy `source`; `rename` gives None for a tensor to leave out. What is `added` replaces a tensor of its name."""
    added = added or {}
    with open_gguf(source) as gguf:
        kept = {name: rename(name) for name in gguf.tensors}
        tensors: dict[str, Added] = {
            new: (gguf.tensors[old].type, gguf.tensors[old].shape, gguf.data(old))
            for old, new in kept.items()
            if new is not None
        }
        tensors |= added
        plan = [(name, type_, shape) for name, (type_, shape, _) in tensors.items()]
        with GgufWriter(target, metadata(gguf.typed_metadata()), plan) as writer:
            for name, (_, _, data) in tensors.items():
                writer.write(name, data)
    return target


def random_tensors(expected: Mapping[str, ExpectedTensor], seed: int = 0) -> dict[str, Added]:
    """Small random float tensors of the expected shapes."""
    random = np.random.default_rng(seed)
    values = {name: 0.05 * random.standard_normal(want.shape, np.float32) for name, want in expected.items()}
    return {name: (GgmlType.F32, array.shape, encode(array, GgmlType.F32)) for name, array in values.items()}
