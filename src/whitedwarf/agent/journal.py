"""The tokens of a session since its file was written: appended after every answer and every tool's result.

It is also the lock: whoever has it open has the session, and no other process gets it. Records say from where on which
tokens follow, so the same ones may be read over a newer file of the session and give the same. Promises: what was
appended is found again after the process was killed, of a record that was cut off nothing; a journal that does not
belong to the tokens it is read over changes nothing.

After 4 bytes "WDJ1" come records, little-endian: u32 from, u32 count, u32 CRC-32 of all tokens after it, u32 CRC-32
of those three numbers and the tokens, then u32 token[count].
"""

import os
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from whitedwarf.agent.transcript import Ids
from whitedwarf.engine.seen_prefixes import common_length
from whitedwarf.errors import FileFormatError, UsageError
from whitedwarf.gguf.file_lock import is_still_there, try_lock
from whitedwarf.kvstore.file import write_all

MAGIC = b"WDJ1"
NUMBERS = struct.Struct("<III")
CHECK = struct.Struct("<I")
HEAD_BYTES = NUMBERS.size + CHECK.size


class SessionInUseError(UsageError):
    """Another process has the session open."""


@dataclass(frozen=True, slots=True)
class Record:
    """From the first `start` tokens on, `ids` follow; all tokens together then have the checksum `whole`."""

    start: int
    ids: Ids
    whole: int


class Journal:
    """Open it, then nobody else can; close it."""

    def __init__(self, path: Path, name: str) -> None:
        """SessionInUseError when another process has it; `name` is what it calls the session. Raises OSError."""
        self.path = path
        self._descriptor = _locked(path, name)
        try:
            data = _whole(self._descriptor)
            self._end = _end(data)
            self.records = records_in(data)
            if self._end == 0:
                self._end = write_all(self._descriptor, MAGIC, 0)
            os.ftruncate(self._descriptor, self._end)
        except BaseException:
            os.close(self._descriptor)
            raise

    @property
    def end(self) -> int:
        """Its length in bytes; a later one has more in it."""
        return self._end

    @property
    def is_empty(self) -> bool:
        return self._end == len(MAGIC)

    def append(self, before: Ids, now: Ids) -> None:
        """The tokens are `now`, and were `before` when they were last told. On the disk when this returns.

        Raises OSError; then nothing was appended.
        """
        start = common_length(before, now)
        if start == len(before) == len(now):
            return
        numbers = NUMBERS.pack(start, len(now) - start, checksum(now))
        ids = np.ascontiguousarray(now[start:], "<u4").tobytes()
        try:
            end = write_all(
                self._descriptor, numbers + CHECK.pack(zlib.crc32(ids, zlib.crc32(numbers))) + ids, self._end
            )
            os.fsync(self._descriptor)
        except OSError:
            os.ftruncate(self._descriptor, self._end)
            raise
        self._end = end

    def clear(self) -> None:
        """All of it is in the session's file now. Raises OSError."""
        os.ftruncate(self._descriptor, len(MAGIC))
        self._end = len(MAGIC)

    def close(self) -> None:
        """Give the session back; an empty journal goes away. Again does nothing."""
        if self._descriptor < 0:
            return
        try:
            if self.is_empty and is_still_there(self.path, self._descriptor):
                self.path.unlink(missing_ok=True)  # while it is still locked
        finally:
            os.close(self._descriptor)
            self._descriptor = -1


def records_in(data: bytes) -> list[Record]:
    """What a journal holds, up to the first record that is not whole."""
    found, offset = [], len(MAGIC)
    while data.startswith(MAGIC) and (record := _record_at(data, offset)) is not None:
        found.append(record)
        offset += HEAD_BYTES + 4 * len(record.ids)
    return found


def replayed(ids: Ids, records: list[Record]) -> Ids:
    """The tokens after the last record with which all is right; `ids` themselves when there is none.

    They may be of any time since the first record: what a later one says again comes out the same.
    """
    best = now = ids
    for record in records:
        if record.start > len(now):
            continue  # the file is of after a cut that comes later
        now = np.concatenate([now[: record.start], record.ids])
        if checksum(now) == record.whole:
            best = now
    return best


def checksum(ids: Ids) -> int:
    """CRC-32 of the tokens as they are written."""
    return zlib.crc32(np.ascontiguousarray(ids, "<u4").tobytes())


def read_records(path: Path) -> list[Record]:
    """Those of a journal that somebody may have open; none where there is no file."""
    try:
        return records_in(path.read_bytes())
    except FileNotFoundError:
        return []


def is_in_use(path: Path) -> bool:
    """Whether some process has the journal open, perhaps this one."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not try_lock(descriptor)
    finally:
        os.close(descriptor)


def remove_unused(path: Path, is_needed: Callable[[], bool]) -> None:
    """Take a journal away that no process has open, unless it is needed; that is asked while nobody can open it."""
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if try_lock(descriptor) and not is_needed() and is_still_there(path, descriptor):
            path.unlink()
    finally:
        os.close(descriptor)


def _locked(path: Path, name: str) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            if not try_lock(descriptor):
                raise SessionInUseError(f"session {name} is open in another process; leave it there first")
            if is_still_there(path, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # its last owner took it away just now


def _whole(descriptor: int) -> bytes:
    size = os.fstat(descriptor).st_size
    parts, offset = [], 0
    while offset < size and (part := os.pread(descriptor, size - offset, offset)):
        parts.append(part)
        offset += len(part)
    return b"".join(parts)


def _end(data: bytes) -> int:
    """Where the next record goes; 0 for a file that has to be begun. FileFormatError when it is no journal."""
    if len(data) < len(MAGIC) and MAGIC.startswith(data):
        return 0
    if not data.startswith(MAGIC):
        raise FileFormatError(f"a session's journal begins with {data[:4]!r}, expected {MAGIC!r}: move it away")
    return len(MAGIC) + sum(HEAD_BYTES + 4 * len(record.ids) for record in records_in(data))


def _record_at(data: bytes, offset: int) -> Record | None:
    body = offset + HEAD_BYTES
    if body > len(data):
        return None
    start, count, whole = NUMBERS.unpack_from(data, offset)
    end = body + 4 * count
    if end > len(data):
        return None
    numbers, check = data[offset : offset + NUMBERS.size], CHECK.unpack_from(data, offset + NUMBERS.size)[0]
    ids = data[body:end]
    if zlib.crc32(ids, zlib.crc32(numbers)) != check:
        return None
    return Record(start, np.frombuffer(ids, "<u4").astype(np.int32), whole)
