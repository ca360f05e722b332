"""llama.cpp's importance matrix: a GGUF file of type "imatrix" with two float32 tensors for each tensor of a model.

NAME.in_sum2 (matrices, columns) has the sums of squares, NAME.counts (matrices, 1) the rows that were summed; other
tensors are not looked at.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import numpy as np

from whitedwarf.errors import FileFormatError
from whitedwarf.gguf.importance import Imatrix, ImatrixEntry, as_float32
from whitedwarf.gguf.metadata import TypedMetadata
from whitedwarf.gguf.reader import GgufFile, open_gguf
from whitedwarf.gguf.types import GgmlType, ValueType
from whitedwarf.gguf.writer import GgufWriter

TYPE_KEY, TYPE = "general.type", "imatrix"
DATASETS_KEY = "imatrix.datasets"
CHUNKS_KEY = "imatrix.chunk_count"
CHUNK_SIZE_KEY = "imatrix.chunk_size"
SUMS, COUNTS = ".in_sum2", ".counts"
_UINT32_MAX = 2**32 - 1


def read_gguf_imatrix(path: Path) -> Imatrix:
    """Raises UsageError without a file, FileFormatError for one that is no importance matrix."""
    with open_gguf(path) as file:
        found = file.metadata.get(TYPE_KEY)
        if found != TYPE:
            _refuse(path, f"{TYPE_KEY} = {found!r:.60}", f"{TYPE!r}: this is some other GGUF file, maybe a model")
        entries = {name: _entry(path, file, name) for name in _names(path, file)}
        if not entries:
            _refuse(path, "no entry", f"tensors whose names end in {SUMS} and {COUNTS}")
        chunks, chunk_size = (_count(path, file.metadata, key) for key in (CHUNKS_KEY, CHUNK_SIZE_KEY))
        return Imatrix(entries, _dataset(path, file.metadata), chunks, chunk_size, str(path))


def write_gguf_imatrix(path: Path, imatrix: Imatrix) -> None:
    """Sums in float32. Raises as GgufWriter does, and WhitedwarfError for sums that float32 cannot hold."""
    plan: list[tuple[str, GgmlType, Sequence[int]]] = []
    for name, entry in imatrix.entries.items():
        plan.append((name + SUMS, GgmlType.F32, entry.sums.shape))
        plan.append((name + COUNTS, GgmlType.F32, (len(entry.counts), 1)))
    with GgufWriter(path, _metadata(imatrix), plan) as writer:
        for name, entry in imatrix.entries.items():
            writer.write(name + SUMS, as_float32(entry.sums))
            writer.write(name + COUNTS, entry.counts.astype("<f4"))


def _metadata(imatrix: Imatrix) -> TypedMetadata:
    return {
        TYPE_KEY: (ValueType.STRING, TYPE),
        DATASETS_KEY: (ValueType.ARRAY, [imatrix.dataset] if imatrix.dataset else []),
        CHUNKS_KEY: (ValueType.UINT32, min(imatrix.chunks, _UINT32_MAX)),
        CHUNK_SIZE_KEY: (ValueType.UINT32, min(imatrix.chunk_size, _UINT32_MAX)),
    }


def _names(path: Path, file: GgufFile) -> list[str]:
    sums = [name.removesuffix(SUMS) for name in file.tensors if name.endswith(SUMS)]
    counted = {name.removesuffix(COUNTS) for name in file.tensors if name.endswith(COUNTS)}
    if lonely := counted.symmetric_difference(sums):
        _refuse(path, f"only one of {SUMS} and {COUNTS} for {min(lonely)!r}", "both for every tensor")
    return sums


def _entry(path: Path, file: GgufFile, name: str) -> ImatrixEntry:
    sums, counts = (_floats(path, file, name + suffix) for suffix in (SUMS, COUNTS))
    if sums.size % counts.size:
        _refuse(path, f"{sums.size} sums and {counts.size} counts of {name!r}", "as many sums for each count")
    return ImatrixEntry(sums.reshape(counts.size, -1), np.rint(counts).astype(np.int64))


def _floats(path: Path, file: GgufFile, name: str) -> np.ndarray:
    """Flat."""
    info = file.tensors[name]
    if info.type is not GgmlType.F32:
        _refuse(path, f"{name!r} of type {info.type.name}", "F32")
    values = file.data(name).view("<f4")
    if not np.isfinite(values).all() or values.min() < 0 or (name.endswith(COUNTS) and values.max() > 2.0**62):
        _refuse(path, f"values of {name!r} that are NaN, infinite, negative or too large", "sums of squares and counts")
    return values


def _count(path: Path, metadata: Mapping[str, object], key: str) -> int:
    value = metadata.get(key, 0)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        _refuse(path, f"{key} = {value!r:.60}", "a number")
    return value


def _dataset(path: Path, metadata: Mapping[str, object]) -> str:
    """The last of them, as the legacy format keeps it."""
    names = metadata.get(DATASETS_KEY, [])
    if not isinstance(names, (list, np.ndarray)) or not all(isinstance(name, str) for name in names):
        _refuse(path, f"{DATASETS_KEY} = {names!r:.60}", "a list of names")
    return str(names[-1]) if len(names) else ""


def _refuse(path: Path, found: str, expected: str) -> NoReturn:
    raise FileFormatError(f"{path}: found {found}; expected {expected}.")
