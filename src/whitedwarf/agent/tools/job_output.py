"""What a command prints: in a private file up to a bound, its first and last part in memory. For several threads."""

import os
import threading
from pathlib import Path

MAX_FILE_BYTES = 16 << 20  # more is not read by our tools either
KEPT_BYTES = 32 << 10  # of the beginning and of the end, each


class JobOutput:
    """Takes bytes as they come. A disk that is full loses what it cannot hold, and `loss` says so."""

    def __init__(self, path: Path, max_file_bytes: int = MAX_FILE_BYTES) -> None:
        self.path = path
        self.num_bytes = 0
        self.num_line_ends = 0
        self.loss = ""
        self._most = max_file_bytes
        self._lock = threading.Lock()
        self._head = b""
        self._tail = b""
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)

    @property
    def num_lines(self) -> int:
        """A last line without an end counts."""
        return self.num_line_ends + bool(self._tail and not self._tail.endswith(b"\n"))

    def add(self, data: bytes) -> None:
        """The next bytes."""
        with self._lock:
            room = max(0, self._most - self.num_bytes)
            self._store(data[:room])
            if len(data) > room:
                self.loss = f"only the first {self._most} bytes are kept"
            self.num_bytes += len(data)
            self.num_line_ends += data.count(b"\n")
            self._head += data[: KEPT_BYTES - len(self._head)]
            self._tail = (self._tail + data)[-KEPT_BYTES:]

    def head(self, most_lines: int, most_bytes: int) -> str:
        """Its beginning."""
        with self._lock:
            lines = _whole(self._head[:most_bytes]).split(b"\n")
        text = b"\n".join(lines[:most_lines]) + (b"\n" if len(lines) > most_lines else b"")
        return _decoded(text)

    def tail(self, most_lines: int, most_bytes: int) -> str:
        """Its end, in whole lines where they fit."""
        with self._lock:
            kept, is_all = self._tail[-most_bytes:], self.num_bytes <= most_bytes
        lines = kept.split(b"\n")
        if not is_all and len(lines) > 2:
            lines = lines[1:]  # begins within a line
        most = most_lines + (not lines[-1])
        return _decoded(b"\n".join(lines[-most:]))

    def since(self, place: int) -> tuple[str, int]:
        """What came after the first `place` bytes, as far as it is in memory, and up to which byte that is."""
        with self._lock:
            new = self.num_bytes - place
            kept = _whole(self._tail[max(0, len(self._tail) - new) :] if new else b"")
            gap = max(0, new - len(self._tail))
            return (f"\n[{gap} bytes are not shown]\n" if gap else "") + _decoded(kept), place + gap + len(kept)

    def close(self) -> None:
        """No more will come; more than once is well."""
        with self._lock:
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1

    def _store(self, data: bytes) -> None:
        try:
            while data and self._descriptor >= 0 and not self.loss:
                data = data[os.write(self._descriptor, data) :]
        except OSError as error:
            self.loss = f"the file is not whole: {error.strerror}"


def _whole(data: bytes) -> bytes:
    """Without the beginning of a character whose other bytes are still to come."""
    for length in (1, 2, 3):
        lead = data[-length] if length <= len(data) else 0
        if lead >= 0xC0:
            return data[:-length] if length < (2 if lead < 0xE0 else 3 if lead < 0xF0 else 4) else data
        if lead < 0x80:
            return data
    return data


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")
