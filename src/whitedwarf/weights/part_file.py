"""A file on its way: bytes gather under another name, are checked, and only then appear under the final one.

Promises: nothing incomplete or wrong ever lies under the final name, what was received survives a cut, Ctrl+C and a
kill, two processes do not write into one part, and an existing file is not replaced. The part's name holds the start
of the digest, so that a file which changed on the hub is not continued with the bytes of another.
Knows nothing of networks.
"""

import contextlib
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from whitedwarf.gguf.file_lock import is_still_there, sync_folder, try_lock, wait_for_lock

PART_SUFFIX = ".part"
_BLOCK_BYTES = 8 << 20
_TAG_LENGTH = 12
_SHA256 = re.compile(r"[0-9a-f]{64}")
_GIT_BLOB = re.compile(r"[0-9a-f]{40}")


class Hasher(Protocol):
    """What is used of a hash."""

    def update(self, data: bytes, /) -> None: ...
    def hexdigest(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Identity:
    """What the whole file must be. `digest`: SHA-256 of large files, git's blob hash of small ones, or unknown."""

    size_bytes: int
    digest: str

    def hasher(self) -> Hasher | None:
        """A fresh hash of the digest's kind; None where the digest is of no kind we know."""
        if _SHA256.fullmatch(self.digest):
            return hashlib.sha256()
        if _GIT_BLOB.fullmatch(self.digest):
            return hashlib.sha1(b"blob %d\0" % self.size_bytes, usedforsecurity=False)
        return None

    @property
    def tag(self) -> str:
        """A few letters for names of files."""
        letters = "".join(letter for letter in self.digest if letter.isalnum() and letter.isascii())
        return letters[:_TAG_LENGTH] or str(self.size_bytes)


def part_path(final: Path, identity: Identity) -> Path:
    """Where the file gathers until it is whole."""
    return final.with_name(f"{final.name}.{identity.tag}{PART_SUFFIX}")


def part_size(final: Path, identity: Identity) -> int:
    """How much is there already."""
    try:
        return part_path(final, identity).stat().st_size
    except OSError:
        return 0


def is_whole(path: Path, identity: Identity, step: Callable[[int], None] = lambda done: None) -> bool:
    """Whether `path` is the file meant, by its size and every byte; `step` hears how far it is."""
    hasher = identity.hasher()
    if path.stat().st_size != identity.size_bytes or hasher is None:
        return path.stat().st_size == identity.size_bytes
    with path.open("rb") as stream:
        _hash_all(stream.fileno(), hasher, step)
    return hasher.hexdigest() == identity.digest


class PartFile:
    """An open, locked part. Made by `open_part`."""

    def __init__(self, path: Path, descriptor: int, identity: Identity) -> None:
        self.path = path
        self.identity = identity
        self._descriptor = descriptor
        self._hasher = identity.hasher()
        self.size_bytes = 0

    def take_over(self, step: Callable[[int], None]) -> int:
        """Count and hash what an earlier run left; returns how much that is. More than the whole is thrown away."""
        size = os.fstat(self._descriptor).st_size
        if size > self.identity.size_bytes:
            self.clear()
            return 0
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        self.size_bytes = _hash_all(self._descriptor, self._hasher, step)
        return self.size_bytes

    def append(self, data: bytes) -> None:
        """Write all of it; OSError with ENOSPC on a full disk, and what fitted stays counted."""
        rest = memoryview(data)
        while rest:
            written = os.write(self._descriptor, rest)
            if self._hasher is not None:
                self._hasher.update(bytes(rest[:written]))
            self.size_bytes += written
            rest = rest[written:]

    def clear(self) -> None:
        """Start again from nothing."""
        os.ftruncate(self._descriptor, 0)
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        self._hasher = self.identity.hasher()
        self.size_bytes = 0

    def has_right_digest(self) -> bool:
        """Whether all bytes together are those that were promised (true where nothing was)."""
        return self._hasher is None or self._hasher.hexdigest() == self.identity.digest

    def publish(self, final: Path) -> bool:
        """Give it the final name, once it is on the disk; False where something has that name by now, and is kept."""
        os.fsync(self._descriptor)
        try:
            os.link(self.path, final)  # unlike a rename, replaces nothing
        except FileExistsError:
            return False
        except OSError:  # a filesystem without hard links
            if final.exists():
                return False
            self.path.rename(final)
        else:
            self.path.unlink()
        sync_folder(final.parent)
        return True


@contextlib.contextmanager
def open_part(final: Path, identity: Identity, on_wait: Callable[[], None]) -> Iterator[PartFile | None]:
    """The part for us alone; `on_wait` is called if another process has it. None if that one has finished meanwhile."""
    path = part_path(final, identity)
    while not final.exists():
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
        try:
            _lock(descriptor, on_wait)
            if is_still_there(path, descriptor):  # else it was given its final name, or removed, while we waited
                yield PartFile(path, descriptor, identity)
                return
        finally:
            os.close(descriptor)  # gives the lock back
    yield None


def _hash_all(descriptor: int, hasher: Hasher | None, step: Callable[[int], None]) -> int:
    if hasher is None:
        return os.lseek(descriptor, 0, os.SEEK_END)
    done = 0
    while block := os.read(descriptor, _BLOCK_BYTES):
        hasher.update(block)
        done += len(block)
        step(done)
    return done


def _lock(descriptor: int, on_wait: Callable[[], None]) -> None:
    if not try_lock(descriptor):
        on_wait()
        wait_for_lock(descriptor)
