"""A GGUF file on its way: written in order beside its final name, with a journal, so that a later run can go on.

Promises: nothing incomplete ever lies under the final name; the journal counts only bytes that are on the disk; a part
is continued only by the very same work (its digest), and one process at a time has it. Knows nothing of quantisation.
"""

import contextlib
import errno
import hashlib
import json
import os
import shutil
import stat
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Protocol, TypeVar

from whitedwarf.errors import UsageError, WhitedwarfError
from whitedwarf.gguf.copying import DISK_FULL
from whitedwarf.gguf.file_lock import is_still_there, sync_folder, try_lock
from whitedwarf.gguf.header import align
from whitedwarf.gguf.layout import Layout
from whitedwarf.gguf.split import parse_shard_name

JOURNAL_STEP_BYTES = 256 << 20
JOURNAL_STEP_S = 15.0
_MOST_JOURNAL_BYTES = 4096
_NONBLOCK = getattr(os, "O_NONBLOCK", 0)  # a pipe would hold us up
_OWN = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | _NONBLOCK


class SizedPiece(Protocol):
    """A run of bytes of one tensor."""

    @property
    def size_bytes(self) -> int: ...


_PieceT = TypeVar("_PieceT", bound=SizedPiece)


def digest_of(layout: Layout, sources: Iterable[Path], *further: str) -> str:
    """What decides every byte: the header (names, types, metadata), the files read, and further options."""
    digest = hashlib.sha256(layout.header)
    for path in sources:
        status = path.stat()
        digest.update(f"{path.name}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    for text in further:
        digest.update(f"{text}\0".encode())
    return digest.hexdigest()


class PartModel:
    """The open part of one file; a context manager. `begun_bytes`: how much an earlier run left, 0 if nothing.

    Leaving the context keeps what is done; `publish` gives it the final name, `discard` takes it away. Raises
    WhitedwarfError when another process has it or the disk does not take it, UsageError for an impossible target
    and for the part of other work, unless it may be replaced.
    """

    def __init__(self, layout: Layout, digest: str, *, replace: bool = False) -> None:
        self._layout = layout
        self._digest = digest
        self._replace = replace
        self.path = layout.path.with_name(f".{layout.path.name}.part")
        self._journal = layout.path.with_name(f".{layout.path.name}.journal")
        self._ends = _tensor_ends(layout)
        check_target(layout.path, replace)
        self._descriptor = self._open()
        try:
            known = self._read_journal()
            self.was_other_work = known is not None and known[0] != digest
            if self.was_other_work and not replace:
                raise UsageError(self._other_text())
            self.begun_bytes = 0 if known is None or self.was_other_work else known[1]
            self._check_space()
            self._written_bytes = 0
            self._begin()
        except BaseException:
            if not os.fstat(self._descriptor).st_size:
                self.path.unlink(missing_ok=True)  # nobody could go on from nothing
            os.close(self._descriptor)
            raise
        self.done_bytes = self._written_bytes  # of whole pieces
        self._kept_bytes, self._kept_s = self.done_bytes, time.monotonic()

    def missing(self, pieces: Iterable[_PieceT]) -> Iterator[_PieceT]:
        """Those of the file's pieces, in order, that are not there yet. Padding is written on the way."""
        place = len(self._layout.header)
        rest = iter(pieces)
        for tensor in self._layout.tensors:
            end = place + tensor.size_bytes
            while place < end:
                piece = next(rest)
                place += piece.size_bytes
                if place > self.begun_bytes:
                    yield piece
            place = align(end, self._layout.alignment)

    def write(self, data: memoryview) -> None:
        """The next bytes; after the last one of a tensor, its padding."""
        self._put(data)
        if self._written_bytes in self._ends:
            self._put(memoryview(bytes(align(self._written_bytes, self._layout.alignment) - self._written_bytes)))
        self.done_bytes = self._written_bytes
        due = time.monotonic() - self._kept_s >= JOURNAL_STEP_S
        if due or self.done_bytes - self._kept_bytes >= JOURNAL_STEP_BYTES:
            self.keep()

    def keep(self) -> None:
        """Bring what was written to the disk, and then say so in the journal."""
        with self._disk_trouble():
            os.fsync(self._descriptor)
            self._write_journal()
        self._kept_bytes, self._kept_s = self.done_bytes, time.monotonic()

    def publish(self) -> None:
        """Give the complete file its name. Raises UsageError if something has it by now and may not be replaced."""
        if self.done_bytes != self._layout.size_bytes:
            raise ValueError(f"{self.path} has {self.done_bytes} of {self._layout.size_bytes} bytes")
        with self._disk_trouble():
            os.fsync(self._descriptor)
        check_target(self._layout.path, self._replace)
        with self._disk_trouble():
            self.path.replace(self._layout.path)
            self._journal.unlink(missing_ok=True)
            sync_folder(self.path.parent)

    def discard(self) -> None:
        """Take part and journal away: nobody can go on from them."""
        self._journal.unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)

    def __enter__(self) -> "PartModel":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is not None and self.path.exists():
                with contextlib.suppress(WhitedwarfError):
                    self.keep()
        finally:
            os.close(self._descriptor)  # gives the lock back

    def _open(self) -> int:
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | _OWN, 0o666)
        except OSError as error:
            what = "a symbolic link is in its place" if error.errno == errno.ELOOP else error.strerror
            raise WhitedwarfError(f"{self.path}: cannot be written ({what}). Check the folder.") from error
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            os.close(descriptor)
            raise WhitedwarfError(f"{self.path}: no file of its own, but a device or one with other names. Remove it.")
        if not try_lock(descriptor) or not is_still_there(self.path, descriptor):
            os.close(descriptor)
            raise WhitedwarfError(f"{self.path}: another process is writing it. Wait for that one, or end it.")
        return descriptor

    def _read_journal(self) -> tuple[str, int] | None:
        """Digest and bytes of an earlier run; None where there was none, or not enough of it."""
        try:
            known = json.loads(_beginning_of(self._journal))
            digest, done_bytes = known["digest"], known["done_bytes"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None
        size_bytes = os.fstat(self._descriptor).st_size
        if not isinstance(digest, str) or not isinstance(done_bytes, int) or not 0 < done_bytes <= size_bytes:
            return None
        return digest, min(done_bytes, self._layout.size_bytes)

    def _write_journal(self) -> None:
        done = sum(end <= self.done_bytes for end in self._ends)
        known = {"digest": self._digest, "done_bytes": self.done_bytes, "done_tensors": done}
        beside = self._journal.with_name(f"{self._journal.name}.new")
        beside.unlink(missing_ok=True)  # whatever it is, nothing is written through it
        with beside.open("x") as file:
            file.write(json.dumps(known))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self._journal)

    def _begin(self) -> None:
        """Cut away what nobody vouches for, and go to where the next byte belongs."""
        with self._disk_trouble():
            os.ftruncate(self._descriptor, self.begun_bytes)
            os.lseek(self._descriptor, self.begun_bytes, os.SEEK_SET)
            self._written_bytes = self.begun_bytes
            if not self.begun_bytes:
                self._journal.unlink(missing_ok=True)
                self._put(memoryview(self._layout.header))

    def _put(self, data: memoryview) -> None:
        with self._disk_trouble():
            while len(data):
                count = os.write(self._descriptor, data)
                self._written_bytes += count
                data = data[count:]

    def _check_space(self) -> None:
        free_bytes = shutil.disk_usage(self.path.parent).free + os.fstat(self._descriptor).st_size
        if free_bytes < self._layout.size_bytes:
            raise WhitedwarfError(self._full_text(free_bytes))

    def _other_text(self) -> str:
        size_bytes = os.fstat(self._descriptor).st_size
        return (
            f"{self.path}: {size_bytes:,} bytes of another run, with other options or from another source. Repeat that "
            "command to go on with it; --overwrite begins anew in its place."
        )

    def _full_text(self, free_bytes: int) -> str:
        return (
            f"{self._layout.path}: the disk is full: {self._layout.size_bytes:,} bytes are needed and {free_bytes:,} "
            f"are free in {self.path.parent}, with what is there of the file. Free some space and run the same "
            "command: it goes on where it was."
        )

    @contextlib.contextmanager
    def _disk_trouble(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno in DISK_FULL:
                held = os.fstat(self._descriptor).st_size
                raise WhitedwarfError(self._full_text(shutil.disk_usage(self.path.parent).free + held)) from error
            raise WhitedwarfError(
                f"{self.path}: cannot be written ({error.strerror or error}); what is done stays there. Check the disk."
            ) from error


def check_target(path: Path, replace: bool) -> None:
    """UsageError unless the file may be written, and would be a whole model under that name."""
    if not path.parent.is_dir():
        raise UsageError(f"{path.parent}: no such folder; expected one to write {path.name} into. Make it first.")
    if path.exists() and not path.is_file():
        raise UsageError(f"{path}: not a regular file; expected a file to write. Choose another name.")
    name = parse_shard_name(path.name)
    if name is not None and name.count > 1:
        raise UsageError(
            f"{path}: this is the name of one shard of {name.count}, and the output is a complete model. "
            "Choose a name without -00001-of-..."
        )
    if path.exists() and not replace:
        raise UsageError(f"{path}: exists already. Choose another name, or replace it with --overwrite.")


def _tensor_ends(layout: Layout) -> frozenset[int]:
    """Where each tensor's data ends, before its padding."""
    ends, place = set(), len(layout.header)
    for tensor in layout.tensors:
        ends.add(place + tensor.size_bytes)
        place = align(place + tensor.size_bytes, layout.alignment)
    return frozenset(ends)


def _beginning_of(path: Path) -> bytes:
    """More than a journal has; a pipe without a writer is empty."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | _NONBLOCK)) as file:
        return file.read(_MOST_JOURNAL_BYTES) or b""
