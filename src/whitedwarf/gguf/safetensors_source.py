"""A folder of safetensors files, opened as one set of named byte ranges.

Own header reader because the tensors are wanted as raw bytes: e8m0 and packed FP4 must never meet a numeric cast.
Promises that every range lies inside its file and has the bytes its type and shape need, that no two overlap, and that
the index and the shards name the same tensors - so a half-downloaded checkpoint is refused before any work. Nothing is
read but headers until `data` is asked for.
"""

import itertools
import json
import math
import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import TypeGuard

import numpy as np
from numpy.typing import NDArray

from whitedwarf.errors import FileFormatError

INDEX_NAME = "model.safetensors.index.json"
SINGLE_NAME = "model.safetensors"
_MAX_HEADER_BYTES = 256 << 20  # PRO's 145,000 names need about 20 MB over all shards
_ITEM_BYTES = {
    "F32": 4,
    "F16": 2,
    "BF16": 2,
    "F8_E4M3": 1,
    "F8_E8M0": 1,
    "I8": 1,
    "U8": 1,
    "I32": 4,
    "I64": 8,
}
_ADVICE = "Download the file again."


@dataclass(frozen=True, slots=True)
class SourceTensor:
    """One tensor as stored: safetensors' name of its type, its shape, and where its bytes lie."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    path: Path
    offset_bytes: int
    size_bytes: int


class SafetensorsSource:
    """An open checkpoint folder; a context manager. Raises FileFormatError for anything that is not sound."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.paths = _shard_paths(folder)
        by_shard = {path: _read_header(path) for path in self.paths}
        _require_same_names(folder, by_shard)
        every = {name: tensor for tensors in by_shard.values() for name, tensor in tensors.items()}
        self.tensors: Mapping[str, SourceTensor] = MappingProxyType(every)
        self._maps: dict[Path, mmap.mmap] = {}

    def data(self, tensor: SourceTensor) -> NDArray[np.uint8]:
        """The bytes, a read-only view on the mapped file."""
        if tensor.size_bytes == 0:
            return np.empty(0, np.uint8)
        mapped = self._maps.get(tensor.path)
        if mapped is None:
            with tensor.path.open("rb") as file:
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self._maps[tensor.path] = mapped
        return np.frombuffer(mapped, np.uint8, tensor.size_bytes, tensor.offset_bytes)

    def forget(self, tensor: SourceTensor) -> None:
        """Let the system drop the pages of a tensor that is done with, so a long conversion stays small."""
        mapped = self._maps.get(tensor.path)
        if mapped is None or not hasattr(mmap, "MADV_DONTNEED"):
            return
        start = -(-tensor.offset_bytes // mmap.PAGESIZE) * mmap.PAGESIZE
        length = tensor.offset_bytes + tensor.size_bytes - start
        if length > 0:
            mapped.madvise(mmap.MADV_DONTNEED, start, length)

    def __enter__(self) -> "SafetensorsSource":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._maps.clear()  # unmapped when the last view of them goes


def read_json(path: Path) -> dict[str, object]:
    """A JSON object from a file of a checkpoint."""
    _require_file(path)
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise FileFormatError(f"{path} is missing; expected DeepSeek's release folder, complete") from error
    except (OSError, ValueError, RecursionError) as error:
        raise FileFormatError(f"{path}: expected JSON, got {error}. {_ADVICE}") from error
    if not isinstance(value, dict):
        raise FileFormatError(f"{path}: expected a JSON object, got {type(value).__name__}. {_ADVICE}")
    return value


def _require_file(path: Path) -> None:
    """A pipe in place of a file would be waited for for ever."""
    if path.exists() and not path.is_file():
        raise FileFormatError(f"{path}: expected a file, found something else. {_ADVICE}")


def _shard_paths(folder: Path) -> tuple[Path, ...]:
    if not folder.is_dir():
        raise FileFormatError(f"{folder}: expected the folder of a safetensors checkpoint, found no such folder")
    present = sorted(path.name for path in folder.glob("*.safetensors"))
    if (folder / INDEX_NAME).exists():
        wanted = sorted(set(_weight_map(folder).values()))
    elif present == [SINGLE_NAME]:
        wanted = present
    else:
        found = ", ".join(present[:5]) or "no safetensors file"
        raise FileFormatError(f"{folder}: expected {INDEX_NAME} or one {SINGLE_NAME}, found {found}")
    missing = [name for name in wanted if name not in present]
    if missing:
        raise FileFormatError(f"{folder}: {_some(missing)} of {len(wanted)} shards missing; download the rest")
    foreign = [name for name in present if name not in wanted]
    if foreign:
        raise FileFormatError(f"{folder}: {_some(foreign)} not named by {INDEX_NAME}; move it elsewhere")
    return tuple(folder / name for name in wanted)


def _weight_map(folder: Path) -> dict[str, str]:
    path = folder / INDEX_NAME
    mapping = read_json(path).get("weight_map")
    if not isinstance(mapping, dict) or not mapping:
        raise FileFormatError(f"{path}: expected 'weight_map' with a shard for every tensor. {_ADVICE}")
    for shard in mapping.values():
        if not isinstance(shard, str) or Path(shard).name != shard or not shard.endswith(".safetensors"):
            raise FileFormatError(f"{path}: expected names of safetensors files beside it, found {shard!r:.80}")
    return mapping


def _require_same_names(folder: Path, by_shard: Mapping[Path, Mapping[str, SourceTensor]]) -> None:
    """The index and the shards must agree tensor by tensor, shard by shard."""
    if not (folder / INDEX_NAME).exists():
        return
    indexed = set(_weight_map(folder).items())
    stored = {(name, path.name) for path, tensors in by_shard.items() for name in tensors}
    for name, shard in sorted(indexed - stored):
        raise FileFormatError(f"{folder / shard}: {name} is missing, though {INDEX_NAME} promises it. {_ADVICE}")
    for name, shard in sorted(stored - indexed):
        raise FileFormatError(f"{folder / shard}: holds {name}, which {INDEX_NAME} does not place there. {_ADVICE}")


def _read_header(path: Path) -> dict[str, SourceTensor]:
    _require_file(path)
    size_bytes = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size_bytes < 8 or length > min(size_bytes - 8, _MAX_HEADER_BYTES):
            raise FileFormatError(f"{path}: header of {length} bytes does not fit in a file of {size_bytes}. {_ADVICE}")
        raw = file.read(length)
    try:
        header = json.loads(raw, object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"{path}: expected a safetensors header, got {error}. {_ADVICE}") from error
    if not isinstance(header, dict):
        raise FileFormatError(f"{path}: expected a safetensors header, got a {type(header).__name__}. {_ADVICE}")
    header.pop("__metadata__", None)
    tensors = {name: _tensor(path, name, entry, 8 + length, size_bytes) for name, entry in header.items()}
    _require_apart(path, tensors)
    return tensors


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError("the same key twice")
    return values


def _tensor(path: Path, name: str, entry: object, data_start: int, file_bytes: int) -> SourceTensor:
    said = entry if isinstance(entry, dict) else {}
    dtype, shape, offsets = said.get("dtype"), said.get("shape"), said.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in _ITEM_BYTES:
        known = ", ".join(_ITEM_BYTES)
        raise FileFormatError(f"{path}: {name} has type {dtype!r:.40}, expected one of {known}")
    if not _are_sizes(shape) or not _are_sizes(offsets) or len(offsets) != 2:
        raise FileFormatError(f"{path}: {name} has no sound shape and data_offsets. {_ADVICE}")
    start, stop = offsets
    expected = math.prod(shape) * _ITEM_BYTES[dtype]
    if stop - start != expected or data_start + stop > file_bytes:
        raise FileFormatError(
            f"{path}: {name} needs {expected} bytes for {dtype} {shape}, but lies at {start}..{stop} "
            f"of {file_bytes - data_start} data bytes. {_ADVICE}"
        )
    return SourceTensor(name, dtype, tuple(shape), path, data_start + start, expected)


def _are_sizes(value: object) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(type(size) is int and size >= 0 for size in value)


def _require_apart(path: Path, tensors: Mapping[str, SourceTensor]) -> None:
    by_place = sorted(tensors.values(), key=lambda tensor: (tensor.offset_bytes, tensor.size_bytes))
    for before, after in itertools.pairwise(by_place):
        if before.offset_bytes + before.size_bytes > after.offset_bytes:
            raise FileFormatError(f"{path}: {before.name} and {after.name} overlap. {_ADVICE}")


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
