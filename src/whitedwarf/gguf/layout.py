"""Where everything of a GGUF file to be written will lie: pure arithmetic, no file is touched.

Promises: a `Layout` gives the exact bytes of each shard's header and the exact place of each tensor before one byte
of data exists, so that a writer can stream. Does not know where tensors come from.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from whitedwarf.errors import UsageError
from whitedwarf.gguf.cursor import HEADER_LIMIT_BYTES, UINT32, UINT64
from whitedwarf.gguf.header import ALIGNMENT_KEY, DEFAULT_ALIGNMENT, MAGIC, MAX_DIMENSIONS, align
from whitedwarf.gguf.metadata import MetadataValue, TypedMetadata, encode_string, encode_value
from whitedwarf.gguf.split import (
    ARCHITECTURE_KEY,
    COUNT_KEY,
    MAX_SHARDS,
    NUMBER_KEY,
    TENSORS_KEY,
    ShardName,
    parse_shard_name,
)
from whitedwarf.gguf.types import GgmlType, ValueType

WRITTEN_VERSION = 3
ALIGNMENTS = tuple(1 << power for power in range(17))
SPLIT_KEYS = (NUMBER_KEY, COUNT_KEY, TENSORS_KEY)


class PlannedTensor(NamedTuple):
    """A tensor to be written; a tuple so that callers may write (name, type, shape)."""

    name: str
    type: GgmlType
    shape: tuple[int, ...]  # numpy order, slowest first

    @property
    def size_bytes(self) -> int:
        return math.prod(self.shape[:-1]) * self.type.row_bytes(self.shape[-1])


@dataclass(frozen=True, slots=True)
class Layout:
    """One file: its header, padded to where the data begins, and its tensors in order."""

    path: Path
    header: bytes
    tensors: tuple[PlannedTensor, ...]
    alignment: int

    @property
    def size_bytes(self) -> int:
        return len(self.header) + sum(align(tensor.size_bytes, self.alignment) for tensor in self.tensors)


def plan_layouts(
    path: Path,
    metadata: TypedMetadata,
    plan: Iterable[tuple[str, GgmlType, Sequence[int]]],
    num_shards: int = 1,
    tensors_per_shard: Sequence[int] | None = None,
) -> list[Layout]:
    """The files that hold `plan`, in order. Raises ValueError for a plan that no GGUF file can hold.

    With several shards `path` 'x.gguf' becomes 'x-00001-of-00003.gguf' and so on; all metadata goes to the first.
    `tensors_per_shard` says where to cut, `num_shards` only how often: into parts of about equal size.
    """
    tensors = [PlannedTensor(name, type_, tuple(int(axis) for axis in shape)) for name, type_, shape in plan]
    _check_plan(tensors)
    groups = _cut(tensors, num_shards) if tensors_per_shard is None else _runs(tensors_per_shard, len(tensors))
    num_shards = len(groups)
    own = {key: typed for key, typed in metadata.items() if key not in SPLIT_KEYS}
    alignment = _alignment(own)
    if num_shards == 1:
        return [_layout(path, own, tensors, alignment)]
    shared = {key: own[key] for key in (ARCHITECTURE_KEY, ALIGNMENT_KEY) if key in own}
    layouts = []
    for number, group in enumerate(groups):
        keys = {**(shared if number else own), **_split_metadata(number, num_shards, len(tensors))}
        layouts.append(_layout(shard_path(path, number, num_shards), keys, [tensors[i] for i in group], alignment))
    return layouts


def shard_path(path: Path, number: int, count: int) -> Path:
    """The name of shard `number` (from 0) of the model `path`."""
    name = parse_shard_name(path.name)
    prefix = name.prefix if name else path.name.removesuffix(".gguf")
    return path.with_name(str(ShardName(prefix, number + 1, count)))


def partition(sizes: Sequence[int], count: int) -> list[list[int]]:
    """Indices of `sizes` cut into `count` runs, none empty, of about equal sums."""
    total, done = sum(sizes), 0
    groups: list[list[int]] = [[]]
    for index, size in enumerate(sizes):
        is_full = done * count >= total * len(groups)
        is_last_chance = len(sizes) - index <= count - len(groups)
        if groups[-1] and len(groups) < count and (is_full or is_last_chance):
            groups.append([])
        groups[-1].append(index)
        done += size
    return groups


def description_bytes(tensor: PlannedTensor) -> int:
    """What a tensor adds to the header of its file."""
    return len(_encode_tensor(tensor, 0))


def _cut(tensors: Sequence[PlannedTensor], num_shards: int) -> list[list[int]]:
    if not 1 <= num_shards <= min(MAX_SHARDS, max(1, len(tensors))):
        raise UsageError(f"{num_shards} shards asked for {len(tensors)} tensors; expected 1 to one per tensor")
    return partition([tensor.size_bytes for tensor in tensors], num_shards)


def _runs(counts: Sequence[int], num_tensors: int) -> list[list[int]]:
    if not 1 <= len(counts) <= MAX_SHARDS:
        raise UsageError(f"{len(counts)} shards asked for; expected 1 to {MAX_SHARDS}")
    if sum(counts) != num_tensors or min(counts) < 0:
        raise ValueError(f"shards of {list(counts)} tensors cannot hold {num_tensors} tensors")
    ends = list(itertools.accumulate(counts))
    return [list(range(end - count, end)) for count, end in zip(counts, ends, strict=True)]


def _check_plan(tensors: Sequence[PlannedTensor]) -> None:
    names = set()
    for tensor in tensors:
        if not tensor.name or tensor.name in names:
            raise ValueError(f"tensor name {tensor.name!r} is empty or planned twice")
        if not 1 <= len(tensor.shape) <= MAX_DIMENSIONS or min(tensor.shape) < 1:
            raise ValueError(
                f"tensor {tensor.name!r} has shape {tensor.shape}; expected 1 to {MAX_DIMENSIONS} axes >= 1"
            )
        names.add(tensor.name)


def _alignment(metadata: TypedMetadata) -> int:
    type_, alignment = metadata.get(ALIGNMENT_KEY, (ValueType.UINT32, DEFAULT_ALIGNMENT))
    if type_ is ValueType.UINT32 and isinstance(alignment, int) and alignment in ALIGNMENTS:
        return alignment
    raise ValueError(
        f"{ALIGNMENT_KEY} = {alignment!r} ({type_.name}); expected a UINT32 power of two up to {ALIGNMENTS[-1]}"
    )


def _split_metadata(number: int, count: int, num_tensors: int) -> TypedMetadata:
    return {
        NUMBER_KEY: (ValueType.UINT16, number),
        COUNT_KEY: (ValueType.UINT16, count),
        TENSORS_KEY: (ValueType.INT32, num_tensors),
    }


def _layout(path: Path, metadata: TypedMetadata, tensors: Sequence[PlannedTensor], alignment: int) -> Layout:
    offsets = itertools.accumulate((align(tensor.size_bytes, alignment) for tensor in tensors), initial=0)
    parts = [MAGIC, UINT32.pack(WRITTEN_VERSION), UINT64.pack(len(tensors)), UINT64.pack(len(metadata))]
    parts += [_encode_key(key, type_, value) for key, (type_, value) in metadata.items()]
    parts += [_encode_tensor(tensor, offset) for tensor, offset in zip(tensors, offsets, strict=False)]
    header = b"".join(parts)
    if len(header) > HEADER_LIMIT_BYTES:
        raise ValueError(f"{len(header)} bytes of metadata; expected at most {HEADER_LIMIT_BYTES}")
    return Layout(path, header.ljust(align(len(header), alignment), b"\0"), tuple(tensors), alignment)


def _encode_key(key: str, type_: ValueType, value: MetadataValue) -> bytes:
    try:
        return encode_string(key) + UINT32.pack(type_) + encode_value(type_, value)
    except ValueError as error:
        raise ValueError(f"metadata key {key!r}: {error}") from error


def _encode_tensor(tensor: PlannedTensor, offset: int) -> bytes:
    dimensions = b"".join(UINT64.pack(axis) for axis in reversed(tensor.shape))
    head = encode_string(tensor.name) + UINT32.pack(len(tensor.shape)) + dimensions
    return head + UINT32.pack(tensor.type) + UINT64.pack(offset)
