"""Bytes of a model's files past the page cache, several runs at a time.

Promises that what is handed out are the bytes of the file as it was opened: a run that came short, an error of the
disk, a file that was truncated or written to since is one ModelReadError, never other bytes. A file that another one
replaced by its name is read on as it was. Reads that are waited for overtake those that were begun just in case.

O_DIRECT where the file system takes it, in whole blocks, so that the wanted bytes begin somewhere in the first one;
elsewhere ordinary reads whose pages the cache is told to drop. Knows nothing of what the bytes mean.
"""

import mmap
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from whitedwarf.errors import ModelReadError
from whitedwarf.weights.expert_extents import Extent
from whitedwarf.weights.locked_memory import AnonymousMemory
from whitedwarf.weights.os_files import Files, FileState, OsFiles

BLOCK_BYTES = 4096  # of every disk known, this or a divisor of it
PIECE_BYTES = 4 << 20  # longer runs are read in several pieces, side by side
DEFAULT_IN_FLIGHT = 8

Bytes: TypeAlias = npt.NDArray[np.uint8]


def room_bytes(size_bytes: int) -> int:
    """What a run of so many bytes needs of memory, wherever it begins: it is read in whole blocks."""
    return -(-(size_bytes + BLOCK_BYTES - 1) // BLOCK_BYTES) * BLOCK_BYTES


@dataclass(slots=True)
class _File:
    path: Path
    descriptor: int
    is_direct: bool
    opened: FileState


class Reading:
    """A run of bytes on its way into memory. It ends by itself; whoever wants the bytes waits for them."""

    __slots__ = ("_arrived", "_error", "_pieces_left", "_queue", "_view", "extent")

    def __init__(self, extent: Extent, view: memoryview, num_pieces: int, queue: "_Queue") -> None:
        self.extent = extent
        self._view, self._queue = view, queue
        self._pieces_left = num_pieces
        self._error: Exception | None = None
        self._arrived = threading.Event()
        if not num_pieces:
            self._arrived.set()

    @property
    def is_over(self) -> bool:
        """Whether waiting takes no time; it may have failed."""
        return self._arrived.is_set()

    @property
    def has_failed(self) -> bool:
        """Whether it is known that waiting raises; the rest may still be on its way."""
        return self._error is not None

    def wait(self) -> Bytes:
        """Exactly the run's bytes, in the memory that was given for them. ModelReadError where they did not come."""
        self.settle()
        if self._error is not None:
            raise ModelReadError(str(self._error)) from self._error
        return np.frombuffer(self._view, np.uint8)

    def settle(self) -> None:
        """Wait until nothing is written into the memory any more, whether the bytes came or not."""
        if not self._arrived.is_set():
            self._queue.hurry(self)
            self._arrived.wait()

    def cancel(self) -> None:
        """Leave out what was not begun; then it has failed. What is being read goes on, see `settle`."""
        self._queue.drop(self)

    def _end_piece(self, error: Exception | None) -> None:  # with the queue's lock held
        self._error = self._error or error
        self._pieces_left -= 1
        if not self._pieces_left:
            self._arrived.set()


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    """Whole blocks to read: of `into`, at least `least_bytes` must come."""

    reading: Reading
    file: _File
    offset_bytes: int
    into: memoryview
    least_bytes: int


class _Queue:
    """Pieces that no thread has begun: those that are waited for first, each kind in the order it was asked for."""

    def __init__(self) -> None:
        self._lock = threading.Condition(threading.Lock())
        self._soon: deque[_Piece] = deque()
        self._later: deque[_Piece] = deque()
        self._is_closed = False

    def put(self, pieces: Sequence[_Piece], *, is_urgent: bool) -> None:
        with self._lock:
            (self._soon if is_urgent else self._later).extend(pieces)
            self._lock.notify(len(pieces))

    def take(self) -> _Piece | None:
        """The next one, as soon as there is one; None after `close`."""
        with self._lock:
            while not (self._soon or self._later or self._is_closed):
                self._lock.wait()
            if self._is_closed:
                return None
            return self._soon.popleft() if self._soon else self._later.popleft()

    def done(self, piece: _Piece, error: Exception | None) -> None:
        with self._lock:
            piece.reading._end_piece(error)

    def hurry(self, reading: Reading) -> None:
        with self._lock:
            if self._later:
                self._soon.extend(piece for piece in self._later if piece.reading is reading)
                self._later = deque(piece for piece in self._later if piece.reading is not reading)

    def drop(self, reading: Reading) -> None:
        with self._lock:
            self._drop([piece for piece in (*self._soon, *self._later) if piece.reading is reading])

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._drop([*self._soon, *self._later])
            self._lock.notify_all()

    def _drop(self, pieces: list[_Piece]) -> None:
        for piece in pieces:
            (self._soon if piece in self._soon else self._later).remove(piece)
            piece.reading._end_piece(ModelReadError(f"{piece.file.path}: a read was given up before it began"))


class DirectReader:
    """The model's files, opened once, with `in_flight` threads that read them. Close it, or use it in a `with`."""

    def __init__(
        self,
        paths: Sequence[Path],
        in_flight: int = DEFAULT_IN_FLIGHT,
        files: Files | None = None,
        piece_bytes: int = PIECE_BYTES,
    ) -> None:
        """`files`: the calls to the system, for tests. ModelReadError where a file cannot be opened."""
        if in_flight < 1 or piece_bytes < BLOCK_BYTES or piece_bytes % BLOCK_BYTES:
            raise ValueError(f"expected at least one read in flight, in whole blocks; got {in_flight}, {piece_bytes}")
        self._system = OsFiles() if files is None else files
        self._piece_bytes = piece_bytes
        self._files: list[_File] = []
        self._bytes_read, self._count_lock = 0, threading.Lock()
        self._queue, self._is_closed = _Queue(), False
        self._threads: list[threading.Thread] = []
        try:
            self._files += [self._opened(Path(path)) for path in paths]
        except BaseException:
            self.close()
            raise
        for number in range(in_flight):
            thread = threading.Thread(target=self._work, name=f"model-reader-{number}", daemon=True)
            thread.start()
            self._threads.append(thread)

    @property
    def bytes_read(self) -> int:
        """What the system was asked for and gave: with the rest of first and last blocks, again where repeated."""
        return self._bytes_read

    @property
    def is_direct(self) -> bool:
        """Whether every file is read past the page cache; else pages are dropped from it afterwards."""
        return all(file.is_direct for file in self._files)

    @property
    def in_flight(self) -> int:
        """Reads that go on at a time."""
        return len(self._threads)

    def size_bytes(self, file: int) -> int:
        """Of a file, as it was opened."""
        return self._files[file].opened.size_bytes

    def read(self, extent: Extent) -> Bytes:
        """The bytes, in memory of their own. ModelReadError."""
        return self.begin(extent, AnonymousMemory(room_bytes(extent.size_bytes)).view()).wait()

    def begin(self, extent: Extent, into: memoryview, *, is_urgent: bool = True) -> Reading:
        """Start to read into writable memory that begins at a block and has `room_bytes(extent.size_bytes)`.

        Nobody else may touch that memory until the reading is over.
        """
        if self._is_closed:
            raise ValueError("expected an open reader; it was closed")
        file = self._files[extent.file]
        first = extent.offset_bytes // BLOCK_BYTES * BLOCK_BYTES
        head_bytes = extent.offset_bytes - first
        needed_bytes = head_bytes + extent.size_bytes
        whole_bytes = -(-needed_bytes // BLOCK_BYTES) * BLOCK_BYTES
        if into.nbytes < whole_bytes:
            raise ValueError(f"expected room for {room_bytes(extent.size_bytes)} bytes, got {into.nbytes}")
        starts = range(0, whole_bytes, self._piece_bytes) if extent.size_bytes else range(0)
        reading = Reading(extent, into[head_bytes:needed_bytes], len(starts), self._queue)
        pieces = []
        for start in starts:
            end = min(start + self._piece_bytes, whole_bytes)
            least_bytes = min(end, needed_bytes) - start
            pieces.append(_Piece(reading, file, first + start, into[start:end], least_bytes))
        self._queue.put(pieces, is_urgent=is_urgent)
        return reading

    def close(self) -> None:
        """Give up what was not begun, wait for what was, and close the files."""
        self._is_closed = True
        self._queue.close()
        for thread in self._threads:
            thread.join()
        for file in self._files:
            self._system.close(file.descriptor)
        self._threads, self._files = [], []

    def __enter__(self) -> "DirectReader":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _opened(self, path: Path) -> _File:
        try:
            descriptor, is_direct = self._system.open(path)
        except OSError as error:
            raise ModelReadError(
                f"{path}: cannot be opened for reading ({error.strerror}); expected the model's file. Check the path"
            ) from error
        try:
            opened = self._system.state(descriptor)
            if is_direct and opened.size_bytes:
                is_direct = self._takes_blocks(descriptor)
            return _File(path, descriptor, is_direct, opened)
        except OSError as error:
            self._system.close(descriptor)
            raise ModelReadError(f"{path}: cannot be read ({error.strerror}). {_REMEDY}") from error

    def _takes_blocks(self, descriptor: int) -> bool:
        """Some file systems open a file for direct reads and then refuse them."""
        try:
            self._system.read(descriptor, AnonymousMemory(mmap.PAGESIZE).view(0, BLOCK_BYTES), 0)
        except OSError:  # whatever it is: an ordinary read tells it again, if it is not that
            self._system.make_ordinary(descriptor)
            return False
        return True

    def _work(self) -> None:
        while (piece := self._queue.take()) is not None:
            error: Exception | None = None
            try:
                self._fill(piece)
                self._check_unchanged(piece.file)
            except Exception as failure:  # is raised again where the bytes are waited for
                error = failure if isinstance(failure, ModelReadError) else _failed(piece, failure)
            self._queue.done(piece, error)

    def _fill(self, piece: _Piece) -> None:
        done = 0
        while done < piece.least_bytes:
            came = self._system.read(piece.file.descriptor, piece.into[done:], piece.offset_bytes + done)
            with self._count_lock:
                self._bytes_read += came
            end = done + came
            if end < piece.least_bytes and piece.file.is_direct:
                end = end // BLOCK_BYTES * BLOCK_BYTES  # goes on where a block begins
            if end <= done:
                self._check_unchanged(piece.file)
                raise _short(piece, done + came)
            done = end
        if not piece.file.is_direct:
            self._system.drop(piece.file.descriptor, piece.offset_bytes, piece.into.nbytes)

    def _check_unchanged(self, file: _File) -> None:
        found = self._system.state(file.descriptor)
        if found != file.opened:
            what = "written to"
            if found.size_bytes != file.opened.size_bytes:
                what = f"changed from {file.opened.size_bytes} to {found.size_bytes} bytes"
            raise ModelReadError(
                f"{file.path}: the model's file was {what} while it was in use, expected the file as it was opened. "
                "Start again with a file that stays as it is"
            )


_REMEDY = "Check the disk and the file, then try again"


def _failed(piece: _Piece, error: Exception) -> ModelReadError:
    why = error.strerror if isinstance(error, OSError) and error.strerror else repr(error)
    failure = ModelReadError(
        f"{piece.file.path}: expected {piece.least_bytes} bytes at {piece.offset_bytes}, but reading failed: {why}. "
        f"{_REMEDY}"
    )
    failure.__cause__ = error
    return failure


def _short(piece: _Piece, came: int) -> ModelReadError:
    return ModelReadError(
        f"{piece.file.path}: expected {piece.least_bytes} bytes at {piece.offset_bytes}, got {came}: the file ends "
        f"too early. {_REMEDY}"
    )
