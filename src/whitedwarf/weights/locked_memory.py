"""Anonymous memory that begins at a page, and stays in RAM where the system lets it.

Promises that what says it is locked is; that a refusal is told, with its reason, and never raised: whoever asked
decides what to do with less. Children of a fork do not have this memory, so that the disk may write into it at any time
(open(2), NOTES: O_DIRECT and fork). Knows nothing of what lies in it.
"""

import contextlib
import ctypes
import errno
import mmap
import sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol

STEP_BYTES = 1 << 28  # is locked at a time: a refusal is met this close to what would have been possible
_NO_LIMIT = 1 << 62


class Refusal(Enum):
    """Why memory could not be locked."""

    LIMIT = "limit"  # only RLIMIT_MEMLOCK: the memory itself is there
    MEMORY = "memory"  # there is not so much to be had
    UNSUPPORTED = "unsupported"  # this system does not lock


@dataclass(frozen=True, slots=True)
class Locking:
    """What became of an attempt to lock: `locked_bytes` from the beginning on are."""

    asked_bytes: int
    locked_bytes: int
    refusal: Refusal | None = None
    room_bytes: int | None = None  # what the limit left at first, where that was the reason


class LockSystem(Protocol):
    """The few calls to the system that locking takes."""

    def lock(self, address: int, size_bytes: int) -> int:
        """0, or the number of the error."""
        ...

    def unlock(self, address: int, size_bytes: int) -> None: ...

    def room_bytes(self) -> int | None:
        """What the limit of this process leaves, after it was raised as far as may be; None where there is none."""
        ...


class OsLocking:
    """mlock and RLIMIT_MEMLOCK of this process."""

    def __init__(self) -> None:
        self._libc = None if sys.platform == "win32" else ctypes.CDLL(None, use_errno=True)

    def lock(self, address: int, size_bytes: int) -> int:
        if self._libc is None or not hasattr(self._libc, "mlock"):
            return errno.ENOSYS
        if self._libc.mlock(ctypes.c_void_p(address), ctypes.c_size_t(size_bytes)) == 0:
            return 0
        return ctypes.get_errno() or errno.ENOMEM

    def unlock(self, address: int, size_bytes: int) -> None:
        if self._libc is not None and hasattr(self._libc, "munlock"):
            self._libc.munlock(ctypes.c_void_p(address), ctypes.c_size_t(size_bytes))

    def room_bytes(self) -> int | None:
        if sys.platform == "win32":
            return None
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
        if soft != hard:
            with contextlib.suppress(OSError, ValueError):
                resource.setrlimit(resource.RLIMIT_MEMLOCK, (hard, hard))
                soft = hard
        return None if soft == resource.RLIM_INFINITY or soft >= _NO_LIMIT else max(0, soft - _locked_now())


class AnonymousMemory:
    """Zeros, `size_bytes` rounded up to whole pages; given back when neither it nor a view of it is left."""

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = max(1, -(-size_bytes // mmap.PAGESIZE)) * mmap.PAGESIZE
        self._map = _anonymous(self.size_bytes)
        for advice in ("MADV_DONTFORK", "MADV_DONTDUMP", "MADV_HUGEPAGE"):
            self._advise(advice)
        self._view = memoryview(self._map)

    def view(self, offset_bytes: int = 0, size_bytes: int | None = None) -> memoryview:
        """A part of it, to be read and written."""
        end = self.size_bytes if size_bytes is None else offset_bytes + size_bytes
        return self._view[offset_bytes:end]

    def lock(self, system: LockSystem) -> Locking:
        """Into RAM with it, step by step until all is locked or a step is refused."""
        room_bytes, address = system.room_bytes(), self._address()
        for first in range(0, self.size_bytes, STEP_BYTES):
            step_bytes = min(STEP_BYTES, self.size_bytes - first)
            if error := system.lock(address + first, step_bytes):
                refusal = _refusal(error, first, step_bytes, room_bytes)
                return Locking(self.size_bytes, first, refusal, room_bytes if refusal is Refusal.LIMIT else None)
        return Locking(self.size_bytes, self.size_bytes)

    def unlock(self, system: LockSystem) -> None:
        """Let the system page all of it out again."""
        system.unlock(self._address(), self.size_bytes)

    def _address(self) -> int:
        return ctypes.addressof(ctypes.c_char.from_buffer(self._map))

    def _advise(self, name: str) -> None:
        advice = getattr(mmap, name, None)
        if advice is not None:
            with contextlib.suppress(OSError):  # advice only: a kernel without it refuses
                self._map.madvise(advice)


def _anonymous(size_bytes: int) -> mmap.mmap:
    if sys.platform == "win32":
        return mmap.mmap(-1, size_bytes)
    return mmap.mmap(-1, size_bytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def _locked_now() -> int:
    """By this process, for whatever purpose; 0 where the system does not say."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("VmLck:")), 0)


def _refusal(error: int, had_bytes: int, step_bytes: int, room_bytes: int | None) -> Refusal:
    if error in (errno.ENOSYS, errno.EOPNOTSUPP):
        return Refusal.UNSUPPORTED
    if error == errno.EPERM:
        return Refusal.LIMIT
    is_bound = room_bytes is not None and had_bytes <= room_bytes < had_bytes + step_bytes  # else: privileged
    if error == errno.ENOMEM and is_bound:
        return Refusal.LIMIT
    return Refusal.MEMORY
