"""The files in one directory: which there are, reading those that may be damaged, writing whole ones.

Promises: a file appears whole or not at all, whenever the process dies; one that cannot be read is skipped with one
line in the log, and looked at again only when it is another one. Files are private: written so, made so when they are
found otherwise, and not used when somebody else could have made them. Any thread may ask and read; one at a time
writes. Does not know which prefixes are worth anything.
"""

import os
import re
import stat
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from whitedwarf.errors import FileFormatError
from whitedwarf.kvstore.file import OTHERS, KvFile, write_all
from whitedwarf.kvstore.policy import Entry
from whitedwarf.kvstore.stats import Tally

FILE_NAME = re.compile(r"([0-9a-f]{40})\.kv")
TEMPORARY_NAME = re.compile(r"(?:[0-9a-f]{40}|sysprompt)\.kv\.tmp\.([0-9]{1,9})")

T = TypeVar("T")
Log = Callable[[str], None]
Signature = tuple[int, int, int]  # inode, size, time of change: another file, or the same one changed


@dataclass(frozen=True, slots=True)
class _Seen:
    """A file as it was last time; no entry when it cannot be used."""

    signature: Signature
    entry: Entry | None


class Directory:
    """`accept` makes the entry of an opened file, or raises FileFormatError saying why it is not for us."""

    def __init__(self, path: Path, log: Log, tally: Tally, accept: Callable[[KvFile], Entry]) -> None:
        """Make it, private, and clear what dead writers left. Raises OSError."""
        self.path = path
        self._log, self._tally, self._accept = log, tally, accept
        self._listing = threading.Lock()
        self._seen: dict[str, _Seen] = {}
        self._refused: dict[str, Signature] = {}  # their payloads turned out to be useless
        self._is_listed = True
        self._make()
        self._warn_of_others()
        self._remove_stale()

    def entries(self) -> dict[str, Entry]:
        """The usable files as they are now, by name; only files that changed are opened."""
        with self._listing:
            self._look()
            return {name: seen.entry for name, seen in self._seen.items() if seen.entry is not None}

    def _look(self) -> None:
        now: dict[str, _Seen] = {}
        for name, signature in self._listed():
            seen = self._seen.get(name)
            if self._refused.get(name) == signature:
                now[name] = _Seen(signature, None)
            elif seen is None or seen.signature != signature:
                now[name] = _Seen(signature, self.read(name, self._look_at))
            else:
                now[name] = seen
        self._seen = now
        self._refused = {name: signature for name, signature in self._refused.copy().items() if name in now}

    def _look_at(self, file: KvFile) -> Entry:
        if file.make_private():
            self._log(f"kv cache: {file.path.name} could be read by others; now it cannot")
        return self._accept(file)

    @property
    def held(self) -> tuple[int, int]:
        """Files, usable or not, and their bytes, when it was last looked."""
        seen = self._seen  # is replaced, never changed
        return len(seen), sum(file.signature[1] for file in seen.values())

    def signature(self, name: str) -> Signature | None:
        """The file's when it was last looked."""
        seen = self._seen.get(name)
        return seen.signature if seen else None

    def path_of(self, name: str) -> Path:
        return self.path / f"{name}.kv"

    def read(self, name: str, read: Callable[[KvFile], T]) -> T | None:
        """Read from a file that may be damaged, or gone since the directory was listed."""
        try:
            with KvFile(self.path_of(name)) as file:
                return read(file)
        except FileNotFoundError:
            return None
        except (OSError, FileFormatError) as error:
            self.skip(str(error))
            return None

    def skip(self, what: str) -> None:
        """Tell and count a file that is not used."""
        self._log(f"kv cache: skipped {what}")
        self._tally.add(skipped=1)

    def refuse(self, name: str) -> None:
        """Do not use this file again until it is another one."""
        with suppress(OSError):
            self._refused[name] = _signature(self.path_of(name).lstat())

    def remove(self, name: str) -> None:
        """Raises OSError, unless it is gone already."""
        self.path_of(name).unlink(missing_ok=True)

    def write(self, name: str, parts: Iterable[bytes | memoryview]) -> None:
        """Put a whole file in the place of any other of the name. Raises OSError and what the parts raise.

        The folder is made again where somebody has deleted it, perhaps to be rid of the files.
        """
        self._make()
        path = self.path_of(name)
        temporary = path.with_name(f"{path.name}.tmp.{os.getpid()}")
        try:
            _write_new(temporary, parts)
            temporary.replace(path)
        finally:
            with suppress(OSError):
                temporary.unlink()

    def _make(self) -> None:
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _listed(self) -> list[tuple[str, Signature]]:
        try:
            found = _files_in(self.path)
        except OSError as error:
            if self._is_listed:  # once, not with every request
                self._log(f"kv cache: cannot list {self.path}: {error}")
            self._is_listed = False
            return []
        self._is_listed = True
        return found

    def _warn_of_others(self) -> None:
        """Not more: the folder may hold other things, or be one that everybody uses."""
        mode = stat.S_IMODE(self.path.stat().st_mode)
        if mode & OTHERS:
            self._log(
                f"kv cache: others may look into {self.path} (mode {mode:04o}) and see sizes and times, not contents; "
                f"if it is only for this, run: chmod 700 {self.path}"
            )

    def _remove_stale(self) -> None:
        for path in self.path.iterdir():
            match = TEMPORARY_NAME.fullmatch(path.name)
            if match and not _is_other_process(int(match[1])):
                with suppress(OSError):
                    path.unlink()


def _files_in(folder: Path) -> list[tuple[str, Signature]]:
    """Those with the name of one of ours. Raises OSError."""
    found = []
    with os.scandir(folder) as listing:
        for item in listing:
            if match := FILE_NAME.fullmatch(item.name):
                with suppress(FileNotFoundError):
                    found.append((match[1], _signature(item.stat(follow_symlinks=False))))
    return found


def _write_new(path: Path, parts: Iterable[bytes | memoryview]) -> None:
    """A new private file, on the disk when this returns: the payload has no checksum that would tell a lost page."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        offset = 0
        for part in parts:
            offset = write_all(descriptor, part, offset)
        os.fsync(descriptor)
        if os.fstat(descriptor).st_size != offset:
            raise OSError(f"{path.name} was cut short on its way to the disk")
    finally:
        os.close(descriptor)


def _signature(status: os.stat_result) -> Signature:
    return status.st_ino, status.st_size, status.st_mtime_ns


def _is_other_process(pid: int) -> bool:
    """Whether a process other than this one has the id."""
    if pid in (0, os.getpid()):
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
