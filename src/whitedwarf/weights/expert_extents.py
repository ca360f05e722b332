"""Where the bytes of every routed expert lie in a model's files.

Promises that an extent lies inside its file, as the header was checked, and that a layer's experts are of one size.
Reads nothing; knows neither types nor what an expert computes.
"""

import re
from dataclasses import dataclass

from whitedwarf.errors import FileFormatError
from whitedwarf.gguf.names import canonical_name
from whitedwarf.gguf.reader import GgufFile, TensorInfo

_STACK = re.compile(r"blk\.([0-9]+)\.ffn_(gate|up|down)_exps\.weight")
_ROLES = ("gate", "up", "down")


@dataclass(frozen=True, slots=True)
class Extent:
    """A run of bytes of one of a model's files."""

    file: int  # index into GgufFile.paths
    offset_bytes: int
    size_bytes: int

    def part(self, number: int, count: int) -> "Extent":
        """One of `count` equal parts."""
        size_bytes = self.size_bytes // count
        return Extent(self.file, self.offset_bytes + number * size_bytes, size_bytes)


@dataclass(frozen=True, slots=True)
class LayerExtents:
    """The routed experts of one layer: three stacks of matrices, each with one matrix for every expert."""

    layer: int  # its number in the model
    gate: Extent
    up: Extent
    down: Extent
    num_experts: int

    def of(self, expert: int) -> tuple[Extent, Extent, Extent]:
        """Gate, up and down of one expert."""
        if not 0 <= expert < self.num_experts:
            raise ValueError(f"expected an expert from 0 to {self.num_experts - 1}, got {expert}")
        gate, up, down = (stack.part(expert, self.num_experts) for stack in (self.gate, self.up, self.down))
        return gate, up, down

    @property
    def expert_bytes(self) -> int:
        """Of one expert in the file."""
        return (self.gate.size_bytes + self.up.size_bytes + self.down.size_bytes) // self.num_experts


def tensor_extent(info: TensorInfo) -> Extent:
    """Where a whole tensor lies."""
    return Extent(info.shard, info.offset_bytes, info.size_bytes)


def expert_extents(gguf: GgufFile) -> tuple[LayerExtents, ...]:
    """Of every layer `blk.N` that has routed experts, N ascending; those that draft (`mtp.N`) are left out.

    FileFormatError where a layer has only some of the three stacks, or stacks of different numbers of experts.
    """
    stacks: dict[int, dict[str, TensorInfo]] = {}
    for name, info in gguf.tensors.items():
        if found := _STACK.fullmatch(canonical_name(name)):
            stacks.setdefault(int(found[1]), {})[found[2]] = info
    return tuple(_layer(gguf, layer, stacks[layer]) for layer in sorted(stacks))


def _layer(gguf: GgufFile, layer: int, stacks: dict[str, TensorInfo]) -> LayerExtents:
    missing = [role for role in _ROLES if role not in stacks]
    if missing:
        raise _refusal(gguf, layer, f"there is no {' and no '.join(missing)} of them")
    counts = {info.shape[0] if len(info.shape) == 3 else 0 for info in stacks.values()}
    if len(counts) > 1 or 0 in counts:
        shapes = ", ".join(f"{role} {info.shape}" for role, info in stacks.items())
        raise _refusal(gguf, layer, f"their shapes do not agree: {shapes}")
    gate, up, down = (tensor_extent(stacks[role]) for role in _ROLES)
    return LayerExtents(layer, gate, up, down, counts.pop())


def _refusal(gguf: GgufFile, layer: int, why: str) -> FileFormatError:
    return FileFormatError(
        f"{gguf.paths[0]}: expected the routed experts of layer {layer} as three stacks, but {why}; "
        "convert the model again"
    )
