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

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
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
            raise UsageError(f"--trace {path}: expected a file that can be written; {why}") from error

    def write(self, number: int, text: str) -> None:
        """More about request `number`, at once."""
        with self._lock:
            if self._has_failed or self._file.closed:
                return
            mark = "" if number == self._last_number else f"\n--- trace: request {number} ---\n"
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
    """No device and no pipe, which could hold up whoever writes."""
    descriptor = os.open(path, _FLAGS | _CAREFUL, 0o600)
    file = io.FileIO(descriptor, "w")
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        if hasattr(os, "fchmod"):
            os.fchmod(descriptor, 0o600)  # one that was there may have been open to others
    except OSError:
        file.close()
        raise
    return file
