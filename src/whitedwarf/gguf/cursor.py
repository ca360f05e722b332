"""Reading the header of a GGUF file, which nobody has checked yet.

Promises: nothing is read past the end of the header space, nothing is allocated because of a count that the remaining
bytes cannot hold, and every refusal names the file, the place, what was found, what was expected and what to do.
Does not know what the values mean.
"""

import mmap
import struct
from pathlib import Path
from typing import NoReturn, TypeAlias

import numpy as np

from whitedwarf.errors import FileFormatError

# All metadata and tensor descriptions together. V4's need about 5 MB; without a bound, one flipped bit in a count would
# make us walk through 80 GB of weights as if they were empty strings.
HEADER_LIMIT_BYTES = 64 << 20
CORRUPT_ADVICE = "The file is corrupt or incomplete: download or convert it again."

# A mapped file; its slices are copies. Not a memoryview: that slices more slowly and keeps the map from closing.
FileBytes: TypeAlias = "bytes | mmap.mmap"

UINT32 = struct.Struct("<I")
UINT64 = struct.Struct("<Q")
STRING_OVERHEAD_BYTES = UINT64.size


def refusal(path: Path, subject: str, found: str, expected: str, advice: str = CORRUPT_ADVICE) -> FileFormatError:
    """The one form of this package's messages about a bad file."""
    return FileFormatError(f"{path}: {subject}: found {found}; expected {expected}. {advice}")


class Cursor:
    """A position in the header of one file; `subject` says what is being read, for the messages."""

    __slots__ = ("_buffer", "_limit", "offset", "path", "subject")

    def __init__(self, path: Path, buffer: FileBytes) -> None:
        self.path = path
        self.subject = "header"
        self.offset = 0
        self._limit = min(len(buffer), HEADER_LIMIT_BYTES)
        self._buffer = buffer

    def refuse(self, found: str, expected: str, advice: str = CORRUPT_ADVICE) -> NoReturn:
        """Raise the error about the thing being read."""
        raise refusal(self.path, self.subject, found, expected, advice)

    def require(self, size_bytes: int, what: str) -> None:
        """Refuse unless that many bytes are still there."""
        left = self._limit - self.offset
        if size_bytes > left:
            where = "the header space" if self._limit == HEADER_LIMIT_BYTES else "the file"
            self.refuse(f"{what} of {size_bytes} bytes at offset {self.offset}", f"at most {left}, where {where} ends")

    def take(self, layout: struct.Struct, what: str) -> int | float:
        """One little-endian number."""
        self.require(layout.size, what)
        (number,) = layout.unpack_from(self._buffer, self.offset)
        self.offset += layout.size
        return number  # type: ignore[no-any-return]

    def uint32(self, what: str) -> int:
        return int(self.take(UINT32, what))

    def uint64(self, what: str) -> int:
        return int(self.take(UINT64, what))

    def count(self, what: str, least_bytes_each: int) -> int:
        """A u64 count of things that follow, each at least so many bytes long."""
        count = self.uint64(what)
        left = self._limit - self.offset
        if count * least_bytes_each > left:
            self.refuse(f"{what} {count}", f"at most {left // least_bytes_each}, as only {left} bytes follow")
        return count

    def string(self, what: str) -> str:
        length = self.uint64(f"length of the {what}")
        self.require(length, what)
        raw = self._buffer[self.offset : self.offset + length]
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            self.refuse(f"{what} {raw[:80]!r}, which is not valid UTF-8 ({error.reason})", "UTF-8 text")
        self.offset += length
        return text

    def strings(self, count: int) -> list[str]:
        """Many strings in one pass: V4's vocabulary and merges are 257,021 of them."""
        texts: list[str] = []
        append, unpack = texts.append, UINT64.unpack_from
        buffer, limit, end = (
            self._buffer,
            self._limit,
            self.offset,
        )  # locals: this loop is most of the time to open a model
        try:
            for _ in range(count):
                begin = end + STRING_OVERHEAD_BYTES
                (length,) = unpack(buffer, end)
                end = begin + length
                if end > limit:
                    self.refuse(
                        f"string {len(texts)} of {count}, {length} bytes long", f"at most {limit - begin} bytes"
                    )
                append(buffer[begin:end].decode())
        except struct.error:
            self.refuse(f"{len(texts)} strings before the end of the header", f"{count} strings")
        except UnicodeDecodeError as error:
            self.refuse(f"string {len(texts)} = {error.object[:80]!r}, which is not valid UTF-8", "UTF-8 text")
        self.offset = end
        return texts

    def numbers(self, dtype: np.dtype, count: int, what: str) -> np.ndarray:
        """A read-only copy of `count` packed numbers."""
        self.require(count * dtype.itemsize, what)
        values = np.frombuffer(self._buffer, dtype, count, self.offset).copy()
        values.flags.writeable = False
        self.offset += count * dtype.itemsize
        return values
