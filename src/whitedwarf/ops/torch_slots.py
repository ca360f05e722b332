"""Memory on a device for experts that lie elsewhere: stacked like a layer's experts, with slots in their places."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from whitedwarf.gguf.types import GgmlType
from whitedwarf.ops.twins.planes import TAKEN_AS_F16, TorchWeight, empty_weight
from whitedwarf.ops.twins.products import Block
from whitedwarf.weights.tensors import Tensor as FileTensor

Kind = tuple[tuple[GgmlType, tuple[int, ...]], ...]


def device_type(type: GgmlType) -> GgmlType:
    """As which type a device holds weights of this one."""
    return GgmlType.F16 if type in TAKEN_AS_F16 else type


@dataclass(frozen=True, slots=True)
class ExpertParts:
    """Where a layer's experts lie in the file: gate, up and down, stacked (E, rows, columns)."""

    gate: FileTensor
    up: FileTensor
    down: FileTensor

    @property
    def tensors(self) -> tuple[FileTensor, FileTensor, FileTensor]:
        return self.gate, self.up, self.down

    @property
    def num_experts(self) -> int:
        return self.gate.shape[0]

    @property
    def kind(self) -> Kind:
        """Experts of the same kind fit into the same slots."""
        return tuple((tensor.type, tensor.shape[1:]) for tensor in self.tensors)

    @property
    def size_bytes(self) -> int:
        """Of one expert on a device."""
        shapes = ((device_type(tensor.type), tensor.shape) for tensor in self.tensors)
        return sum(rows * type_.row_bytes(columns) for type_, (_, rows, columns) in shapes)

    @property
    def staging_bytes(self) -> int:
        """Of one expert in the file."""
        return sum(tensor.data.size // self.num_experts for tensor in self.tensors)

    def of(self, expert: int) -> tuple[FileTensor, ...]:
        """One expert's matrices, in place."""
        parts = []
        for tensor in self.tensors:
            size = tensor.data.size // self.num_experts
            data = tensor.data.reshape(-1)[expert * size : (expert + 1) * size]
            parts.append(FileTensor(tensor.name, tensor.type, tensor.shape[1:], data))
        return tuple(parts)


def slots_of_kinds(parts: Sequence[ExpertParts], slots_of_size: Mapping[int, int]) -> dict[Kind, int]:
    """How many slots experts of each kind get of those of their size: shared out by their layers."""
    layers = Counter(part.kind for part in parts)
    layers_of_size = Counter(part.size_bytes for part in parts)
    sizes = {part.kind: part.size_bytes for part in parts}
    return {kind: slots_of_size[size] * layers[kind] // layers_of_size[size] for kind, size in sizes.items()}


def slot_memory(parts: ExpertParts, count: int, device: torch.device) -> Block:
    """So many slots for experts of this kind. All zeros: whoever reads one before an expert came finds numbers.

    Its clamp is nobody's: each layer has its own.
    """
    gate, up, down = (
        _zeroed(empty_weight(device_type(tensor.type), (count, *tensor.shape[1:]), device)) for tensor in parts.tensors
    )
    return Block(gate, up, down, math.inf)


def _zeroed(weight: TorchWeight) -> TorchWeight:
    for plane in weight.planes:
        plane.zero_()
    return weight
