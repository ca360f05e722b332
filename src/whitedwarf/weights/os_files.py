"""The few calls to the system by which a model's files are read past the page cache.

On Linux with O_DIRECT, on macOS with F_NOCACHE; elsewhere through the cache.

Promises the bare calls: errors are OSErrors, a read may come short. What follows from that is the reader's business;
tests put their own disk in this place.
"""

import contextlib
import os
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

_DIRECT = getattr(os, "O_DIRECT", 0)  # Linux


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

    def __init__(self) -> None:
        self._seeking = threading.Lock()  # where a read has no offset of its own

    def open(self, path: Path) -> tuple[int, bool]:
        flags = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
        if _DIRECT:
            try:
                return os.open(path, flags | _DIRECT), True
            except OSError:  # EINVAL where it is not taken; any other comes again
                pass
        descriptor = os.open(path, flags)
        self._advise(descriptor, 0, 0, "POSIX_FADV_RANDOM")
        return descriptor, self._keep_uncached(descriptor)

    def read(self, descriptor: int, into: memoryview, offset_bytes: int) -> int:
        if sys.platform == "win32":
            with self._seeking:
                os.lseek(descriptor, offset_bytes, os.SEEK_SET)
                found = os.read(descriptor, into.nbytes)
            into[: len(found)] = found
            return len(found)
        return os.preadv(descriptor, [into], offset_bytes)

    def state(self, descriptor: int) -> FileState:
        status = os.fstat(descriptor)
        return FileState(status.st_size, status.st_mtime_ns)

    def make_ordinary(self, descriptor: int) -> None:
        if sys.platform != "win32":
            import fcntl

            fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) & ~_DIRECT)
        self._advise(descriptor, 0, 0, "POSIX_FADV_RANDOM")

    def drop(self, descriptor: int, offset_bytes: int, size_bytes: int) -> None:
        self._advise(descriptor, offset_bytes, size_bytes, "POSIX_FADV_DONTNEED")

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    def _keep_uncached(self, descriptor: int) -> bool:
        if sys.platform == "darwin":
            import fcntl

            with contextlib.suppress(OSError):
                fcntl.fcntl(descriptor, fcntl.F_NOCACHE, 1)
                return True
        return False

    def _advise(self, descriptor: int, offset_bytes: int, size_bytes: int, advice: str) -> None:
        number = getattr(os, advice, None)
        if number is not None:
            with contextlib.suppress(OSError):  # advice only: a strange file system refuses
                os.posix_fadvise(descriptor, offset_bytes, size_bytes, number)
