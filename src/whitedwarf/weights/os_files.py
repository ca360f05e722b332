"""The few calls to the system by which a model's files are read past the page cache, on Linux and macOS.

Promises the bare calls: errors are OSErrors, a read may come short. What follows from that is the reader's business;
tests put their own disk in this place.
"""

import contextlib
import fcntl
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

_DIRECT = getattr(os, "O_DIRECT", 0)  # Linux
_PAST_CACHE = getattr(fcntl, "F_NOCACHE", None)  # macOS


@dataclass(frozen=True, slots=True)
class FileState:
    """What changes when somebody truncates a file or writes to it."""

    size_bytes: int
    modified_ns: int


class Files(Protocol):
    """Open files by their descriptors."""

    def open(self, path: Path) -> tuple[int, bool]:
        """A descriptor for reading, and whether its reads go past the page cache."""
        ...

    def read(self, descriptor: int, into: memoryview, offset_bytes: int) -> int:
        """How many bytes came; 0 at the end of the file."""
        ...

    def state(self, descriptor: int) -> FileState: ...

    def make_ordinary(self, descriptor: int) -> None:
        """From now on its reads go through the page cache."""
        ...

    def drop(self, descriptor: int, offset_bytes: int, size_bytes: int) -> None:
        """The page cache need not keep this."""
        ...

    def close(self, descriptor: int) -> None: ...


class OsFiles:
    """Those of the system."""

    def open(self, path: Path) -> tuple[int, bool]:
        flags = os.O_RDONLY | os.O_CLOEXEC
        if _DIRECT:
            try:
                return os.open(path, flags | _DIRECT), True
            except OSError:  # EINVAL where it is not taken; any other comes again
                pass
        descriptor = os.open(path, flags)
        self._advise(descriptor, 0, 0, "POSIX_FADV_RANDOM")
        return descriptor, self._keep_uncached(descriptor)

    def read(self, descriptor: int, into: memoryview, offset_bytes: int) -> int:
        return os.preadv(descriptor, [into], offset_bytes)

    def state(self, descriptor: int) -> FileState:
        status = os.fstat(descriptor)
        return FileState(status.st_size, status.st_mtime_ns)

    def make_ordinary(self, descriptor: int) -> None:
        fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) & ~_DIRECT)
        self._advise(descriptor, 0, 0, "POSIX_FADV_RANDOM")

    def drop(self, descriptor: int, offset_bytes: int, size_bytes: int) -> None:
        self._advise(descriptor, offset_bytes, size_bytes, "POSIX_FADV_DONTNEED")

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    def _keep_uncached(self, descriptor: int) -> bool:
        if _PAST_CACHE is None:
            return False
        try:
            fcntl.fcntl(descriptor, _PAST_CACHE, 1)
        except OSError:
            return False
        return True

    def _advise(self, descriptor: int, offset_bytes: int, size_bytes: int, advice: str) -> None:
        number = getattr(os, advice, None)
        if number is not None:
            with contextlib.suppress(OSError):  # advice only: a strange file system refuses
                os.posix_fadvise(descriptor, offset_bytes, size_bytes, number)
