"""`--trace FILE`: all that is known about each request, written while it happens (spec/product.md B.20).

One block for each request, from `===== request N TIME =====` to `===== end request N =====`. What is written goes out
at once, sections as a whole and generated text as it comes. Where requests run side by side, a line
`--- trace: request N ---` stands wherever what follows belongs to another request than what came before.
Promises: only its owner may read the file; a request never fails because of it, and after the first piece that cannot
be written (a full disk) nothing more is, which the log says once. No header of a request, so no key, ever gets here.
"""

import errno
import io
import logging
import os
import stat
import threading
from pathlib import Path

from whitedwarf.errors import UsageError

log = logging.getLogger(__name__)

FIRST_LINE = "whitedwarf trace\n"
"""By which an earlier trace is known: no other file is ever overwritten."""
BLOCK_START = "\n===== request "
"""How the first piece of each block begins."""

_FLAGS = os.O_RDWR | os.O_CREAT
_CAREFUL = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)


class TraceFile:
    """An open trace, to be written from any thread; close it."""

    def __init__(self, file: io.RawIOBase) -> None:
        self._file = file
        self._lock = threading.Lock()
        self._last_number = 0
        self._has_failed = False

    @classmethod
    def open(cls, path: Path) -> "TraceFile":
        """An empty file that only its owner may use; UsageError where that cannot be had."""
        try:
            return cls(_private_file(path))
        except OSError as error:
            why = "it is a symbolic link" if error.errno == errno.ELOOP else error.strerror or str(error)
            raise UsageError(f"--trace {path}: expected a new file, or an earlier trace; {why}") from error

    def write(self, number: int, text: str) -> None:
        """More about request `number`, at once."""
        with self._lock:
            if self._has_failed or self._file.closed:
                return
            is_told = number == self._last_number or text.startswith(BLOCK_START)
            mark = "" if is_told else f"\n--- trace: request {number} ---\n"
            self._last_number = number
            self._write(mark + text)

    def close(self) -> None:
        """Later writes do nothing."""
        with self._lock:
            self._file.close()

    def _write(self, text: str) -> None:
        left = memoryview(text.encode("utf-8", "backslashreplace"))
        try:
            while left:
                left = left[self._file.write(left) or 0 :]
        except OSError as error:
            self._has_failed = True
            log.warning("trace_stopped", extra={"why": error.strerror or str(error)})


def _private_file(path: Path) -> io.RawIOBase:
    descriptor = os.open(path, _FLAGS | _CAREFUL, 0o600)
    file = io.FileIO(descriptor, "r+")
    try:
        _make_ours(file)
    except OSError:
        file.close()
        raise
    return file


def _make_ours(file: io.FileIO) -> None:
    """Empty but for the first line. No device and no pipe, which could hold up whoever writes."""
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        raise OSError(errno.EINVAL, "it is no regular file")
    first_line = FIRST_LINE.encode()
    if file.read(len(first_line)) not in (b"", first_line):
        raise OSError(errno.EEXIST, "it is something else: remove it or give another name")
    if hasattr(os, "fchmod"):
        os.fchmod(file.fileno(), 0o600)  # one that was there may have been open to others
    file.seek(0)
    file.truncate()
    file.write(first_line)
