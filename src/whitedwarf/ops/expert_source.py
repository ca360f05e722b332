"""Where experts come from on their way to a card: the mapped file, or a store that reads them from a disk.

Promises each of the experts asked for once, with its bytes in the file; they may be gone when the next one is asked
for. ModelReadError where one cannot be read.
"""

import re
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from whitedwarf.ops.torch_slots import ExpertParts
from whitedwarf.weights.expert_store import ExpertStore
from whitedwarf.weights.tensors import Tensor

Matrices = tuple[Tensor, ...]  # gate, up, down of one expert
Arriving = Generator[tuple[int, Matrices], None, None]  # an expert, and what it is; close it
_LAYER = re.compile(r"blk\.([0-9]+)\.")


class ExpertSource(Protocol):
    """See the module."""

    def each(self, parts: ExpertParts, experts: Sequence[int], *, is_prompt: bool) -> Arriving:
        """Experts of a layer, in any order."""


class MappedExperts:
    """They lie in the file: what is not in memory is read when it is touched."""

    def each(self, parts: ExpertParts, experts: Sequence[int], *, is_prompt: bool) -> Arriving:
        for expert in experts:
            yield expert, parts.of(expert)


@dataclass(frozen=True, slots=True)
class StoredExperts:
    """They are in slots of host memory, or are read into them. What a store does not have is mapped."""

    store: ExpertStore

    def each(self, parts: ExpertParts, experts: Sequence[int], *, is_prompt: bool) -> Arriving:
        found = _LAYER.match(parts.gate.name)
        layer = None if found is None else int(found[1])
        if layer is None or all(extents.layer != layer for extents in self.store.layers):
            yield from MappedExperts().each(parts, experts, is_prompt=is_prompt)
            return
        # A prompt's experts are used once: as many rows tell the store so.
        picked = np.array(experts, np.int32).reshape((-1, 1) if is_prompt else (1, -1))
        with closing(self.store.rounds(layer, picked)) as rounds:
            for held in rounds:
                for expert in held.experts:
                    yield expert, _matrices(parts, held.matrices[expert])


def _matrices(parts: ExpertParts, data: Sequence[np.ndarray]) -> Matrices:
    tensors = zip(parts.tensors, data, strict=True)
    return tuple(Tensor(tensor.name, tensor.type, tensor.shape[1:], bytes_) for tensor, bytes_ in tensors)
