"""The header of one GGUF file: its metadata and where its tensors lie (spec: model.md 4.1).

Promises: a `Header` that comes back has been checked completely - every tensor lies inside the file, is aligned,
overlaps no other and has as many bytes as its type and shape need. Touches no tensor data. Does not know about other
shards or about any architecture.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from whitedwarf.gguf.cursor import STRING_OVERHEAD_BYTES, UINT32, UINT64, Cursor, FileBytes, refusal
from whitedwarf.gguf.metadata import MetadataValue, read_type, read_value
from whitedwarf.gguf.types import GgmlType, ValueType

MAGIC = b"GGUF"
VERSIONS = (2, 3)  # 3 only added big-endian files; the little-endian layout is the same
DEFAULT_ALIGNMENT = 32
ALIGNMENT_KEY = "general.alignment"
MAX_DIMENSIONS = 4
LEAST_KEY_BYTES = STRING_OVERHEAD_BYTES + 1 + UINT32.size + 1
LEAST_TENSOR_BYTES = STRING_OVERHEAD_BYTES + 1 + UINT32.size + UINT64.size + UINT32.size + UINT64.size


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Where one tensor lies and what it is."""

    name: str
    type: GgmlType
    shape: tuple[int, ...]  # numpy order, slowest first: GGUF's dimensions reversed
    offset_bytes: int  # from the start of its shard's file
    size_bytes: int
    shard: int = 0  # index into GgufFile.paths

    @property
    def num_elements(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Header:
    """Everything a file says before its tensor data."""

    version: int
    alignment: int
    data_offset_bytes: int
    metadata: dict[str, MetadataValue]
    value_types: dict[str, ValueType]
    tensors: dict[str, TensorInfo]


def read_header(path: Path, buffer: FileBytes, shard: int = 0) -> Header:
    """Parse and check the header at the start of `buffer`, the whole file. Raises FileFormatError."""
    cursor = Cursor(path, buffer)
    version = _read_version(cursor, buffer[: len(MAGIC)])
    num_tensors = cursor.uint64("tensor count")
    num_keys = cursor.count("key count", LEAST_KEY_BYTES)
    metadata, value_types = _read_metadata(cursor, num_keys)
    alignment = _alignment(cursor, metadata, value_types)
    cursor.subject = "tensor list"
    cursor.require(num_tensors * LEAST_TENSOR_BYTES, f"list of {num_tensors} tensors")
    relative = _read_tensors(cursor, num_tensors, shard, alignment)
    data_offset = align(cursor.offset, alignment)
    tensors = _place(path, relative, data_offset, len(buffer))
    return Header(version, alignment, data_offset, metadata, value_types, tensors)


def align(offset: int, alignment: int) -> int:
    """The next multiple of `alignment`."""
    return -(-offset // alignment) * alignment


def _read_version(cursor: Cursor, magic: bytes) -> int:
    if magic != MAGIC:
        advice = "This is not a GGUF file (a web page, a Git LFS pointer or the rest of a file cut by bytes?)."
        cursor.refuse(f"first bytes {magic!r}", f"{MAGIC!r}", advice)
    cursor.offset = len(MAGIC)
    version = cursor.uint32("version")
    if version in VERSIONS:
        return version
    if version and version & 0xFFFF == 0:
        advice = "Convert it with `gguf-convert-endian FILE little` of the Python package `gguf`."
        cursor.refuse("a big-endian file", "a little-endian one", advice)
    return cursor.refuse(
        f"GGUF version {version}", "version 2 or 3", "Convert the model again with a current converter."
    )


def _read_metadata(cursor: Cursor, count: int) -> tuple[dict[str, MetadataValue], dict[str, ValueType]]:
    metadata: dict[str, MetadataValue] = {}
    value_types: dict[str, ValueType] = {}
    for index in range(count):
        cursor.subject = f"metadata key {index} of {count}"
        key = _read_name(cursor, "key")
        cursor.subject = f"key {key!r}"
        if key in metadata:
            cursor.refuse("the key a second time", "every key once")
        value_types[key] = read_type(cursor, "value type")
        metadata[key] = read_value(cursor, value_types[key])
    return metadata, value_types


def _read_name(cursor: Cursor, what: str) -> str:
    name = cursor.string(what)
    if not name:
        cursor.refuse(f"an empty {what}", f"a {what}")
    return name


def _alignment(cursor: Cursor, metadata: dict[str, MetadataValue], value_types: dict[str, ValueType]) -> int:
    alignment = metadata.get(ALIGNMENT_KEY, DEFAULT_ALIGNMENT)
    is_uint32 = value_types.get(ALIGNMENT_KEY, ValueType.UINT32) is ValueType.UINT32
    if is_uint32 and isinstance(alignment, int) and alignment.bit_count() == 1:
        return alignment
    cursor.subject = f"key {ALIGNMENT_KEY!r}"
    return cursor.refuse(f"{alignment!r:.80} ({value_types[ALIGNMENT_KEY].name})", "a power of two (UINT32)")


def _read_tensors(cursor: Cursor, count: int, shard: int, alignment: int) -> dict[str, TensorInfo]:
    tensors: dict[str, TensorInfo] = {}
    for index in range(count):
        cursor.subject = f"tensor {index} of {count}"
        name = _read_name(cursor, "name")
        cursor.subject = f"tensor {name!r}"
        if name in tensors:
            cursor.refuse("the name a second time", "every tensor once")
        dimensions = _read_dimensions(cursor)
        type_ = _read_tensor_type(cursor)
        size_bytes = _size_bytes(cursor, type_, dimensions)
        offset = cursor.uint64("offset")
        if offset % alignment:
            cursor.refuse(f"offset {offset}", f"a multiple of the alignment {alignment}")
        tensors[name] = TensorInfo(name, type_, dimensions[::-1], offset, size_bytes, shard)
    return tensors


def _read_dimensions(cursor: Cursor) -> tuple[int, ...]:
    count = cursor.uint32("number of dimensions")
    if not 1 <= count <= MAX_DIMENSIONS:
        cursor.refuse(f"{count} dimensions", f"1 to {MAX_DIMENSIONS}")
    dimensions = tuple(cursor.uint64("dimension") for _ in range(count))
    if 0 in dimensions:
        cursor.refuse(f"dimensions {list(dimensions)}", "no dimension of zero")
    return dimensions


def _read_tensor_type(cursor: Cursor) -> GgmlType:
    number = cursor.uint32("tensor type")
    try:
        return GgmlType(number)
    except ValueError:
        known = ", ".join(f"{type_.name} ({type_.value})" for type_ in GgmlType)
        cursor.refuse(f"tensor type {number}", f"one of {known}", "Requantise the model to one of these types.")


def _size_bytes(cursor: Cursor, type_: GgmlType, dimensions: Sequence[int]) -> int:
    columns, *others = dimensions
    if columns % type_.block_size:
        cursor.refuse(f"rows of {columns} elements", f"a multiple of {type_.block_size}, the block of {type_.name}")
    return type_.row_bytes(columns) * math.prod(others)  # Python's integers do not overflow


def _place(path: Path, tensors: dict[str, TensorInfo], data_offset: int, file_bytes: int) -> dict[str, TensorInfo]:
    placed = {
        name: TensorInfo(name, info.type, info.shape, data_offset + info.offset_bytes, info.size_bytes, info.shard)
        for name, info in tensors.items()
    }
    previous: TensorInfo | None = None
    for info in sorted(placed.values(), key=lambda info: info.offset_bytes):
        if info.offset_bytes + info.size_bytes > file_bytes:
            found = f"{info.size_bytes} bytes of {info.type.name} {list(info.shape)} at offset {info.offset_bytes}"
            raise refusal(path, f"tensor {info.name!r}", found, f"its end within the file's {file_bytes} bytes")
        if previous is not None and previous.offset_bytes + previous.size_bytes > info.offset_bytes:
            end = previous.offset_bytes + previous.size_bytes
            found = f"offset {info.offset_bytes}, inside tensor {previous.name!r}"
            raise refusal(path, f"tensor {info.name!r}", found, f"{end} or more, where that one ends")
        previous = info
    return placed
