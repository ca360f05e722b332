"""What a child says: into a file of its own, and the last of it kept for errors and for whoever listens.

Promises: the file is private (0600) and bounded, with one older file beside it; a disk that is full or a folder that
may not be written to is told in `trouble` and stops nothing; whatever bytes come, lines are readable text. Does not
know what they mean.
"""

import asyncio
import contextlib
import os
import re
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable
from datetime import UTC, datetime
from pathlib import Path

from whitedwarf.supervisor.clock import Clock

_MOST_LINES = 500
_LONGEST_LINE_BYTES = 4096
_MOST_UNHEARD = 1000
_TRY_AGAIN_S = 10.0
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b.|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# Without waiting, should it be a pipe.
_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NONBLOCK", 0)
_BREAKS = re.compile(rb"\r\n|\n|\r")


class ChildLog:
    """One model's, over all its starts."""

    def __init__(self, path: Path, most_bytes: int, clock: Clock = time.monotonic) -> None:
        self.path = path
        self.trouble: str | None = None
        self.total_bytes = 0
        self._clock = clock
        self._file = _BoundedFile(path, most_bytes)
        self._try_at_s = 0.0
        self._lines: deque[str] = deque(maxlen=_MOST_LINES)
        self._num_lines = 0
        self._begun_at = 0  # how many lines there were before this start
        self._open_line = b""
        self._listeners: set[_Listener] = set()

    def begin(self, what: str) -> None:
        """A new start: `tail` does not look back behind it."""
        self.end()
        self._try_at_s = 0.0
        now = datetime.now(UTC).astimezone().isoformat(timespec="seconds")
        self.write(f"--- {now} {what}\n".encode("utf-8", "replace"))
        self._begun_at = self._num_lines

    def write(self, data: bytes) -> None:
        """Some more of it, cut anywhere."""
        self.total_bytes += len(data)
        self._save(data)
        *whole, self._open_line = _BREAKS.split(self._open_line + data)
        self._num_lines += max(0, len(whole) - _MOST_UNHEARD)
        for line in whole[-_MOST_UNHEARD:]:  # of more at once nobody could be told, and each takes its time
            self._add(line)
        if len(self._open_line) > _LONGEST_LINE_BYTES:
            self._add(self._open_line)
            self._open_line = b""

    def end(self) -> None:
        """The child is gone: nothing more comes of its last line."""
        if self._open_line:
            self._add(self._open_line)
            self._open_line = b""
        self._file.close()

    def tail(self, lines: int = 20) -> tuple[str, ...]:
        """The last lines since this start, also one that is not finished."""
        fresh = [*self._lines][-min(self._num_lines - self._begun_at, _MOST_LINES) :]
        if self._num_lines == self._begun_at:
            fresh = []
        if self._open_line:
            fresh.append(_text(self._open_line))
        return tuple(line for line in fresh if line.strip())[-lines:]

    async def follow(self, lines: int = _MOST_LINES) -> AsyncIterator[str]:
        """The last lines that are kept, then each new one. Who listens too slowly misses the oldest."""
        listener = _Listener([*self._lines][-lines:])
        self._listeners.add(listener)
        try:
            while True:
                yield await listener.next_line()
        finally:
            self._listeners.discard(listener)

    def _add(self, line: bytes) -> None:
        text = _text(line)
        self._lines.append(text)
        self._num_lines += 1
        for listener in self._listeners:
            listener.hear(text)

    def _save(self, data: bytes) -> None:
        if self._clock() < self._try_at_s:
            return
        try:
            self._file.write(data)
            self.trouble = None
        except OSError as error:
            self.trouble = f"cannot write the log {self.path}: {error.strerror or error}; the model runs without it"
            self._file.close()
            self._try_at_s = self._clock() + _TRY_AGAIN_S


class _BoundedFile:
    """Opened when there is something to write; moved aside when it is full."""

    def __init__(self, path: Path, most_bytes: int) -> None:
        self._path = path
        self._most_bytes = most_bytes
        self._descriptor: int | None = None
        self._size = 0

    def write(self, data: bytes) -> None:
        """OSError where it cannot."""
        if self._descriptor is not None and self._size + len(data) > self._most_bytes:
            self.close()
        if self._descriptor is None:
            self._descriptor = self._open(len(data))
        os.write(self._descriptor, data)
        self._size += len(data)

    def close(self) -> None:
        """Until the next write."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self, more_bytes: int) -> int:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            if self._path.stat().st_size + more_bytes > self._most_bytes:
                self._path.replace(self._path.with_name(self._path.name + ".1"))
        descriptor = os.open(self._path, _APPEND, 0o600)
        self._size = os.fstat(descriptor).st_size
        return descriptor


class _Listener:
    """Lines that somebody has still to read."""

    def __init__(self, kept: Iterable[str]) -> None:
        self._unheard = deque(kept, maxlen=_MOST_UNHEARD)
        self._news = asyncio.Event()

    def hear(self, line: str) -> None:
        self._unheard.append(line)
        self._news.set()

    async def next_line(self) -> str:
        while not self._unheard:
            self._news.clear()
            await self._news.wait()
        return self._unheard.popleft()


def _text(line: bytes) -> str:
    return _ESCAPES.sub("", line[:_LONGEST_LINE_BYTES].decode("utf-8", "replace"))
