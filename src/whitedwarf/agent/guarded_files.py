"""Opening and replacing files below a folder so that nobody can lead us out of it meanwhile.

Promises: from the folder down, each step is opened by its own descriptor and no symlink is followed, so a folder that
is swapped for a symlink after its path was checked is met as an error. A file is replaced whole or not at all.
Errors are OSError; `agent/workspace.py` makes words of them.
"""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PERMISSIONS = 0o777  # a rewritten file keeps these, and neither setuid nor setgid


@dataclass(frozen=True, slots=True)
class Version:
    """What tells that a file is still the one that was read."""

    inode: int
    size_bytes: int
    changed_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> "Version":
        """Of a file's status."""
        return cls(status.st_ino, status.st_size, status.st_mtime_ns)


class ChangedMeanwhileError(OSError):
    """The file is no longer the one that was read; it was left alone."""


class NotAFileError(OSError):
    """A folder, pipe, socket or device; `kind` says which."""

    def __init__(self, kind: str) -> None:
        super().__init__(errno.EINVAL, kind)
        self.kind = kind


class ReadOnlyFileError(OSError):
    """The file's own permissions say that nobody is to write it."""


def kind_of(mode: int) -> str:
    """What a path leads to, in words."""
    names = {
        stat.S_IFDIR: "a folder",
        stat.S_IFREG: "a file",
        stat.S_IFIFO: "a pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
        stat.S_IFLNK: "a symlink",
    }
    return names.get(stat.S_IFMT(mode), "no file")


def read_file(path: Path, most_bytes: int) -> tuple[bytes, Version]:
    """At most `most_bytes` + 1 bytes of a regular file; NotAFileError for anything else, which is not even opened."""
    _check_kind(path.stat())
    return _read(os.open(path, _FILE), most_bytes)


def read_file_below(root: Path, parts: Sequence[str], most_bytes: int) -> tuple[bytes, Version]:
    """As `read_file`, of a path below `root` that holds no symlink."""
    with _folder_below(root, parts[:-1]) as folder:
        _check_kind(os.stat(parts[-1], dir_fd=folder, follow_symlinks=False))
        return _read(os.open(parts[-1], _FILE | os.O_NOFOLLOW, dir_fd=folder), most_bytes)


def replace_file_below(root: Path, parts: Sequence[str], data: bytes, expected: Version | None) -> None:
    """Write a file below `root` beside itself and rename it; folders on the way are made.

    Its permissions (and where allowed its owner) stay. With `expected`, only if the file is still that one.
    """
    with _folder_below(root, parts[:-1], is_made=True) as folder:
        name = parts[-1]
        before = _status(folder, name)
        if before is not None:
            _check_kind(before)
            if not before.st_mode & 0o222:
                raise ReadOnlyFileError(errno.EACCES, os.strerror(errno.EACCES))
        partial = f".{secrets.token_hex(8)}.partial"
        try:
            _write_new(folder, partial, data, before)
            _check_unchanged(folder, name, expected)
            os.replace(partial, name, src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(partial, dir_fd=folder)


def _write_new(folder: int, name: str, data: bytes, before: os.stat_result | None) -> None:
    mode = 0o666 if before is None else 0o600  # what others may not read they do not see meanwhile, either
    with os.fdopen(os.open(name, _NEW, mode, dir_fd=folder), "wb") as file:
        file.write(data)
        file.flush()
        if before is not None:
            with contextlib.suppress(PermissionError):  # only root may give files away
                if (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
                    os.fchown(file.fileno(), before.st_uid, before.st_gid)
            os.fchmod(file.fileno(), before.st_mode & _PERMISSIONS)
        os.fsync(file.fileno())


def _check_unchanged(folder: int, name: str, expected: Version | None) -> None:
    if expected is None:
        return
    now = _status(folder, name)
    if now is None or Version.of(now) != expected:
        raise ChangedMeanwhileError(errno.EBUSY, os.strerror(errno.EBUSY))


def _status(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _check_kind(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise NotAFileError(kind_of(status.st_mode))


def _read(descriptor: int, most_bytes: int) -> tuple[bytes, Version]:
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        _check_kind(status)
        return file.read(most_bytes + 1) or b"", Version.of(status)  # None: a kernel's file with nothing to say yet


@contextlib.contextmanager
def _folder_below(root: Path, parts: Sequence[str], is_made: bool = False) -> Iterator[int]:
    folder = os.open(root, _FOLDER)
    try:
        for part in parts:
            if is_made:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=folder)
            inner = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
            os.close(folder)
            folder = inner
        yield folder
    finally:
        os.close(folder)
