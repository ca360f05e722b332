"""The legacy importance matrix: llama.cpp's old binary, which the original writes (model.md 8.5).

    i32 entries; per entry: i32 length, name, i32 calls, i32 values, f32 values...; then, optional, i32 chunks,
    i32 length, name of the dataset

All little-endian. The values are sums over the calls; the original writes 1 call, that is, means.
"""

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import numpy as np

from whitedwarf.errors import FileFormatError
from whitedwarf.gguf.cursor import FileBytes
from whitedwarf.gguf.importance import Imatrix, ImatrixEntry

_INT32 = struct.Struct("<i")
_FLOAT32 = np.dtype("<f4")
_LEAST_ENTRY_BYTES = 3 * _INT32.size + 1 + _FLOAT32.itemsize
_MAX_NAME_BYTES = 4096
_ADVICE = "The file is no importance matrix, or it is cut: collect or copy it again."


def read_dat(path: Path) -> Imatrix:
    """Raises FileFormatError."""
    return parse_dat(str(path), _mapped(path))


def parse_dat(source: str, buffer: FileBytes) -> Imatrix:
    """The bytes of a whole file; values stay views of them. Raises FileFormatError that names `source`."""
    reader = _Reader(source, buffer)
    count = reader.int32("number of entries")
    if not 1 <= count <= reader.left // _LEAST_ENTRY_BYTES:
        most = reader.left // _LEAST_ENTRY_BYTES
        reader.refuse(f"{count} entries", f"1 to {most}, as {reader.left} bytes follow" if most else "a larger file")
    entries: dict[str, ImatrixEntry] = {}
    for _ in range(count):
        name = reader.name()
        if name in entries:
            reader.refuse(f"entry {name!r} a second time", "every tensor once")
        entries[name] = reader.entry(name)
    chunks, dataset = reader.trailer()
    return Imatrix(entries, dataset, chunks, source=source)


def dat_pieces(imatrix: Imatrix) -> Iterator[bytes]:
    """The bytes of a file: means, one call each."""
    yield _INT32.pack(len(imatrix.entries))
    for name, entry in imatrix.entries.items():
        yield _counted(name) + _INT32.pack(1) + _INT32.pack(entry.sums.size)
        yield entry.means().astype(_FLOAT32).tobytes()
    yield _INT32.pack(min(imatrix.chunks, 2**31 - 1)) + _counted(imatrix.dataset)


def _counted(text: str) -> bytes:
    raw = text.encode(errors="replace")
    return _INT32.pack(len(raw)) + raw


def _mapped(path: Path) -> FileBytes:
    try:
        with path.open("rb") as file:
            is_empty = path.stat().st_size == 0
            return b"" if is_empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        raise FileFormatError(f"{path}: cannot be read ({error}); expected an importance matrix.") from error


class _Reader:
    """A position in the file."""

    def __init__(self, source: str, buffer: FileBytes) -> None:
        self._source, self._buffer, self._offset = source, buffer, 0

    @property
    def left(self) -> int:
        return len(self._buffer) - self._offset

    def refuse(self, found: str, expected: str) -> NoReturn:
        raise FileFormatError(f"{self._source}: found {found}; expected {expected}. {_ADVICE}")

    def int32(self, what: str) -> int:
        if self.left < _INT32.size:
            self.refuse(f"the end of the file at byte {len(self._buffer)}", f"the {what}")
        (number,) = _INT32.unpack_from(self._buffer, self._offset)
        self._offset += _INT32.size
        return int(number)

    def raw(self, length: int, most: int, what: str) -> bytes:
        if not 0 <= length <= min(most, self.left):
            self.refuse(f"{what} of {length} bytes at byte {self._offset}", f"0 to {min(most, self.left)}")
        self._offset += length
        return self._buffer[self._offset - length : self._offset]

    def name(self) -> str:
        raw = self.raw(self.int32("length of a name"), _MAX_NAME_BYTES, "a name")
        try:
            name = raw.decode()
        except UnicodeDecodeError:
            self.refuse(f"a name that is no UTF-8 text: {raw[:60]!r}", "the name of a tensor")
        if not name:
            self.refuse(f"an empty name at byte {self._offset}", "the name of a tensor")
        return name

    def entry(self, name: str) -> ImatrixEntry:
        calls = self.int32(f"number of calls of {name!r}")
        count = self.int32(f"number of values of {name!r}")
        most = self.left // _FLOAT32.itemsize
        if not 1 <= count <= most:
            self.refuse(f"{count} values of {name!r}", f"1 to {most}, as {self.left} bytes follow")
        values = np.frombuffer(self._buffer, _FLOAT32, count, self._offset)
        self._offset += values.nbytes
        if not np.isfinite(values).all() or values.min() < 0:
            self.refuse(f"values of {name!r} that are NaN, infinite or negative", "means of squares")
        return ImatrixEntry(values.reshape(1, -1), np.array([max(calls, 1)], np.int64))

    def trailer(self) -> tuple[int, str]:
        """Chunks and dataset, (0, "") where the file ends before them."""
        if not self.left:
            return 0, ""
        chunks = self.int32("number of chunks")
        if not self.left:
            return max(chunks, 0), ""
        dataset = self.raw(self.int32("length of the dataset's name"), self.left, "the dataset's name")
        if self.left:
            self.refuse(f"{self.left} bytes behind the dataset's name", "the end of the file")
        return max(chunks, 0), dataset.decode(errors="replace")
