"""Opening GGUF models, also those cut into shards.

Promises: a file that opens has a sound structure - everything `header.py` and `split.py` check. Files are mapped
read-only, opening touches no tensor data, and `data` copies nothing. Every refusal is a FileFormatError that says
what to do.
Does not know what a tensor means nor whether its values are sane (`verify.py`), nor which tensors a model needs
(`census.py`).
"""

import contextlib
import mmap
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, TracebackType

import numpy as np

from whitedwarf.errors import FileFormatError, UsageError
from whitedwarf.gguf.cursor import FileBytes
from whitedwarf.gguf.header import Header, TensorInfo, read_header
from whitedwarf.gguf.metadata import MetadataValue, TypedMetadata
from whitedwarf.gguf.split import ShardName, check_shards, parse_shard_name, shard_paths, split_keys
from whitedwarf.gguf.types import ValueType

__all__ = ["GgufFile", "MetadataValue", "TensorInfo", "open_gguf"]


def open_gguf(path: str | os.PathLike[str]) -> "GgufFile":
    """Map a model's file, or all its shards given any one. Raises FileFormatError, or UsageError without a file."""
    path = Path(path)
    buffer = _map(path)
    header = read_header(path, buffer)
    path, name = _shard_name(path)
    paths = shard_paths(path, name, split_keys(path, header))
    if len(paths) == 1:
        buffers, headers = [buffer], [header]
    else:
        buffers = [_map(sibling) for sibling in paths]
        headers = [read_header(paths[shard], buffers[shard], shard) for shard in range(len(paths))]
    check_shards(paths, headers)
    return GgufFile(paths, buffers, headers)


class GgufFile:
    """An open model: what it says, and views of its bytes."""

    __slots__ = ("_buffers", "alignment", "metadata", "paths", "shard_bytes", "tensors", "value_types", "version")

    paths: tuple[Path, ...]
    metadata: Mapping[str, MetadataValue]
    value_types: Mapping[str, ValueType]
    tensors: Mapping[str, TensorInfo]  # in the order of the files
    version: int
    alignment: int  # of the first shard
    shard_bytes: tuple[int, ...]  # size of each file

    def __init__(self, paths: Sequence[Path], buffers: Sequence[FileBytes], headers: Sequence[Header]) -> None:
        self.paths = tuple(paths)
        self.version, self.alignment = headers[0].version, headers[0].alignment
        self.shard_bytes = tuple(len(buffer) for buffer in buffers)
        metadata, value_types = dict(headers[0].metadata), dict(headers[0].value_types)
        for header in headers[1:]:  # the first shard's value of a key wins
            metadata = {**metadata, **header.metadata, **metadata}
            value_types = {**value_types, **header.value_types, **value_types}
        self.metadata, self.value_types = MappingProxyType(metadata), MappingProxyType(value_types)
        self.tensors = MappingProxyType({name: info for header in headers for name, info in header.tensors.items()})
        self._buffers = tuple(buffers)

    def data(self, name: str) -> np.ndarray:
        """The tensor's bytes, (size_bytes,) uint8: a read-only view of the mapped file, valid also after `close`."""
        if not self._buffers:
            raise ValueError(f"{self.paths[0]} is closed")
        info = self.tensors.get(name)
        if info is None:
            raise FileFormatError(f"{self.paths[0]}: no tensor {name!r} among its {len(self.tensors)}")
        return np.frombuffer(self._buffers[info.shard], np.uint8, info.size_bytes, info.offset_bytes)

    def typed_metadata(self) -> TypedMetadata:
        """The metadata in the form that GgufWriter takes."""
        return {key: (self.value_types[key], value) for key, value in self.metadata.items()}

    def close(self) -> None:
        """Give the mapping up; a file stays mapped while views of it live."""
        buffers, self._buffers = self._buffers, ()
        for buffer in buffers:
            if isinstance(buffer, mmap.mmap):
                with contextlib.suppress(BufferError):
                    buffer.close()

    def __enter__(self) -> "GgufFile":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _map(path: Path) -> FileBytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except FileNotFoundError as error:
        raise UsageError(f"{path}: no such file; expected a GGUF model. Check the path.") from error
    except OSError as error:
        raise FileFormatError(f"{path}: cannot be opened ({error.strerror}); expected a readable GGUF file.") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):  # a pipe would block for ever, and a folder cannot be mapped
            raise FileFormatError(
                f"{path}: not a regular file; expected a GGUF file. Give the path of the file itself."
            )
        return mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) if status.st_size else b""
    except (OSError, ValueError) as error:
        raise FileFormatError(f"{path}: cannot be mapped ({error}); expected a local, readable GGUF file.") from error
    finally:
        os.close(descriptor)


def _shard_name(path: Path) -> tuple[Path, ShardName | None]:
    """A link that is not named like a shard (ds4flash.gguf) may point to one."""
    name = parse_shard_name(path.name)
    if name is None and path.is_symlink():
        target = path.resolve()
        if target_name := parse_shard_name(target.name):
            return target, target_name
    return path, name
