"""Where the numbers of a model to be quantised come from: what a source promises, and GGUF files as one.

Promises that a piece of rows can be had at any time, in any order, as float32 or, where the stored bytes are already
of the type that is wanted, as those bytes. Memory stays at a piece: GGUF files are read, not mapped.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import FileIO
from math import prod
from pathlib import Path
from types import TracebackType
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from whitedwarf.errors import FileFormatError
from whitedwarf.gguf import codecs
from whitedwarf.gguf.layout import SPLIT_KEYS
from whitedwarf.gguf.metadata import TypedMetadata
from whitedwarf.gguf.names import canonical_name
from whitedwarf.gguf.reader import GgufFile, TensorInfo
from whitedwarf.gguf.types import GgmlType

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]

LOW_BIT_TYPES = frozenset({GgmlType.Q2_K, GgmlType.Q3_K, GgmlType.Q4_K, GgmlType.Q5_K, GgmlType.Q6_K, GgmlType.IQ2_XXS})


class SourceTensor(Protocol):
    """One tensor: matrices (experts) of rows. Vectors are one row."""

    @property
    def name(self) -> str:
        """As in the GGUF file that is read, or would be converted to."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Slowest axis first."""

    @property
    def type_name(self) -> str:
        """How it is stored, for people."""

    @property
    def size_bytes(self) -> int:
        """As stored."""

    @property
    def base_type(self) -> GgmlType:
        """The type it keeps if nothing else is asked for."""

    @property
    def is_low_bit(self) -> bool:
        """Whether its numbers were already searched for few bits."""

    def has_bytes_of(self, type: GgmlType) -> bool:
        """Whether `raw` can give this type without a look at the numbers."""

    def raw(self, matrix: int, rows: slice, type: GgmlType) -> Bytes:
        """The bytes of some rows as `type`."""

    def floats(self, matrix: int, rows: slice) -> Floats:
        """(rows, columns) float32; `rows` starts at a multiple of 128."""


class ModelSource(Protocol):
    """A model to be quantised."""

    @property
    def paths(self) -> tuple[Path, ...]:
        """Files being read."""

    @property
    def tensors(self) -> Mapping[str, SourceTensor]:
        """By canonical name, in the order of the file."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What of the model is not among the tensors."""

    def metadata(self) -> TypedMetadata:
        """Of the file to be written."""


def rows_and_columns(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Matrices, rows of each, columns."""
    columns = shape[-1] if shape else 1
    rows = shape[-2] if len(shape) > 1 else 1
    return prod(shape[:-2]), rows, columns


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """A tensor of an open GGUF file."""

    info: TensorInfo
    file: "_Files"
    decode: Callable[[Bytes, GgmlType, tuple[int, int]], Floats]

    @property
    def name(self) -> str:
        return self.info.name

    @property
    def shape(self) -> tuple[int, ...]:
        return self.info.shape

    @property
    def type_name(self) -> str:
        return self.info.type.name

    @property
    def size_bytes(self) -> int:
        return self.info.size_bytes

    @property
    def base_type(self) -> GgmlType:
        return self.info.type

    @property
    def is_low_bit(self) -> bool:
        return self.info.type in LOW_BIT_TYPES

    def has_bytes_of(self, type: GgmlType) -> bool:
        """Of its own type only."""
        return type is self.info.type

    def raw(self, matrix: int, rows: slice, type: GgmlType) -> Bytes:
        """Straight from the file."""
        _, num_rows, columns = rows_and_columns(self.info.shape)
        row_bytes = self.info.type.row_bytes(columns)
        start = self.info.offset_bytes + (matrix * num_rows + rows.start) * row_bytes
        return self.file.read(self.info.shard, start, (rows.stop - rows.start) * row_bytes)

    def floats(self, matrix: int, rows: slice) -> Floats:
        """Decoded."""
        columns = self.info.shape[-1]
        return self.decode(self.raw(matrix, rows, self.info.type), self.info.type, (rows.stop - rows.start, columns))


class GgufSource:
    """An open GGUF model, with all its shards; a context manager that closes the files it reads."""

    def __init__(self, model: GgufFile) -> None:
        self._model = model
        self._files = _Files(model.paths)
        decode = decoder()
        self.tensors: Mapping[str, GgufTensor] = {
            canonical: GgufTensor(model.tensors[name], self._files, decode)
            for canonical, name in by_canonical_name(model).items()
        }
        self.notes: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[Path, ...]:
        """The shards."""
        return self._model.paths

    def metadata(self) -> TypedMetadata:
        """The file's own, without what tells how it was split."""
        return {key: typed for key, typed in self._model.typed_metadata().items() if key not in SPLIT_KEYS}

    def __enter__(self) -> "GgufSource":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._files.close()


def by_canonical_name(model: GgufFile) -> dict[str, str]:
    """Tensor names by their canonical ones. FileFormatError where one tensor is there twice, in two dialects."""
    found: dict[str, str] = {}
    for name in model.tensors:
        earlier = found.setdefault(canonical_name(name), name)
        if earlier != name:
            raise FileFormatError(
                f"{model.paths[0]}: {earlier!r} and {name!r} are the same tensor in two dialects; expected one of them"
            )
    return found


class _Files:
    """The shards, opened when they are first read."""

    def __init__(self, paths: tuple[Path, ...]) -> None:
        self._paths = paths
        self._open: dict[int, FileIO] = {}

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1].close()

    def read(self, shard: int, offset_bytes: int, size_bytes: int) -> Bytes:
        """Exactly so many bytes. Raises FileFormatError."""
        path = self._paths[shard]
        out = np.empty(size_bytes, np.uint8)
        try:
            file = self._open.get(shard)
            if file is None:
                file = self._open[shard] = FileIO(path, "r")
            file.seek(offset_bytes)
            done = 0
            while done < size_bytes:
                count = file.readinto(out[done:].data)
                if not count:
                    raise FileFormatError(
                        f"{path}: ends at byte {offset_bytes + done}, where tensor data was expected; it became "
                        "shorter while it was read. Let nothing write to it and try again."
                    )
                done += count
        except OSError as error:
            raise FileFormatError(
                f"{path}: cannot be read ({error.strerror}); the disk or the file is damaged"
            ) from error
        return out


def decoder() -> Callable[[Bytes, GgmlType, tuple[int, int]], Floats]:
    """Native where it is; one thread, so that the others may encode meanwhile."""
    try:
        from whitedwarf._native import Kernels, Matrix
    except ImportError:
        return codecs.decode
    kernels = Kernels(1)

    def decode(data: Bytes, type: GgmlType, shape: tuple[int, int]) -> Floats:
        if type is GgmlType.F32:
            return data.view(np.float32).reshape(shape)
        if not shape[0]:
            return np.empty(shape, np.float32)
        out = np.empty(shape, np.float32)
        kernels.dequantize(Matrix(data, int(type), shape), out)
        return out

    return decode
