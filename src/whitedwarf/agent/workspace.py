"""The files of a session: where the model's paths lead, what it may read and what it may write.

Promises: nothing is written outside the root and the folders that were allowed beside it, wherever symlinks, `..` or a
folder swapped at the wrong moment lead. Reading is free unless the workspace is strict: headers and libraries lie
outside of every project, and a shell could read them anyway. What is written is there whole or not at all.
ToolError says what was expected, what came and what to do.
"""

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from whitedwarf.agent.guarded_files import (
    ChangedMeanwhileError,
    NotAFileError,
    ReadOnlyFileError,
    Version,
    read_file,
    read_file_below,
    replace_file_below,
)
from whitedwarf.agent.tool import ToolError

MAX_FILE_BYTES = 16 << 20
_OWN_FOLDERS = {".git": "git", ".whitedwarf": "whitedwarf"}
_REASONS = {
    errno.ENOENT: "there is no such file or folder; look at the folder with list",
    errno.ENOTDIR: "a part of the path is a file, not a folder",
    errno.EISDIR: "is a folder; give the path of a file",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.ELOOP: "leads through a symlink that must not be followed, or that leads to itself",
    errno.ENAMETOOLONG: "the name is too long",
    errno.ENOSPC: "the disk is full; free some space first",
    errno.EROFS: "the disk is read-only",
    errno.EDQUOT: "the disk quota is used up",
}


@dataclass(frozen=True, slots=True)
class File:
    """A file as it was read: where it really is, what it held, and which version that was."""

    path: Path
    data: bytes
    version: Version


class Workspace:
    """See the module. `root` is the working folder; `allowed` are further folders to write in. ToolError if one is not
    a folder."""

    def __init__(self, root: Path, allowed: Sequence[Path] = (), is_strict: bool = False) -> None:
        self.root = _real_folder(root)
        self.allowed = tuple(_real_folder(folder) for folder in allowed)
        self.is_strict = is_strict
        self._readable: list[Path] = []

    def let_read(self, folder: Path) -> None:
        """What tools leave there may be read, also where the workspace is strict."""
        self._readable.append(_real_folder(folder))

    def locate(self, path: str) -> Path:
        """Where a path of the model leads, symlinks followed; whether anything is there is not looked at. ToolError for
        what is no path, and outside of a strict workspace."""
        real = self._follow(path)
        is_inside = any(real.is_relative_to(folder) for folder in (self.root, *self.allowed, *self._readable))
        if self.is_strict and not is_inside:
            raise ToolError(f"{shown(path)}: is outside of the workspace {self.root}, which is all that may be read")
        return real

    def locate_writable(self, path: str) -> Path:
        """As `locate`, for a file to be written; ToolError outside of root and allowed folders."""
        real = self._follow(path)
        home = self._home(real)
        if home is None:
            places = " and ".join(str(folder) for folder in (self.root, *self.allowed))
            leads = "" if str(real) == path else f" (it leads to {shown(str(real))})"
            raise ToolError(f"{shown(path)}{leads}: files are only written below {places}")
        if real == home:
            raise ToolError(f"{shown(path)}: is a folder; give the path of a file")
        return real

    def read(self, path: str) -> File:
        """A regular file, whole; ToolError for anything else, above 16 MiB, and what cannot be read."""
        real = self.locate(path)
        home = self._home(real)
        try:
            if home is None or real == home:
                data, version = read_file(real, MAX_FILE_BYTES)
            else:
                data, version = read_file_below(home, real.relative_to(home).parts, MAX_FILE_BYTES)
        except OSError as error:
            raise ToolError(reason(path, error)) from error
        if len(data) > MAX_FILE_BYTES:
            size_mib = max(version.size_bytes, len(data)) / (1 << 20)
            raise ToolError(
                f"{shown(path)}: has {size_mib:.1f} MiB, and at most {MAX_FILE_BYTES >> 20} MiB are handled; "
                "take a part of it with bash (head, tail, sed -n)"
            )
        return File(real, data, version)

    def read_if_there(self, path: str) -> File | None:
        """As `read`; None where there is no file yet."""
        try:
            return self.read(path)
        except ToolError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return None
            raise

    def version(self, path: str) -> Version:
        """Which version a file is now, without reading it."""
        try:
            return Version.of(self.locate(path).stat())
        except OSError as error:
            raise ToolError(reason(path, error)) from error

    def write(self, path: str, data: bytes, expected: Version | None = None) -> None:
        """Create or replace a file, atomically; its permissions stay. With `expected`, only if it is still that one."""
        real = self.locate_writable(path)
        if len(data) > MAX_FILE_BYTES:
            raise ToolError(f"{shown(path)}: {len(data)} bytes are too many; at most {MAX_FILE_BYTES} are written")
        home = self._home(real)
        assert home is not None
        try:
            replace_file_below(home, real.relative_to(home).parts, data, expected)
        except OSError as error:
            raise ToolError(f"{reason(path, error)}; nothing was written") from error

    def risk_of_writing(self, path: str) -> str:
        """What is unusual about writing there: git's own files, and ours, make the one or the other run commands."""
        try:
            real = self.locate_writable(path)
        except ToolError:
            return ""
        parts = {part.casefold() for part in real.parts}
        owner = next((owner for folder, owner in _OWN_FOLDERS.items() if folder in parts), "")
        return f"writes into {owner}'s own files ({shown(path)})" if owner else ""

    def _follow(self, path: str) -> Path:
        if not path.strip():
            raise ToolError("the path is empty; give the path of a file or folder")
        if "\0" in path:
            raise ToolError(f"{shown(path)}: a path cannot hold a NUL character")
        try:
            return Path(os.path.realpath(self.root / Path(path).expanduser()))
        except (OSError, RuntimeError, ValueError) as error:  # no such user's home; lone surrogates
            raise ToolError(f"{shown(path)}: is no path ({error})") from error

    def _home(self, real: Path) -> Path | None:
        """The root or allowed folder that a real path is in."""
        return next((folder for folder in (self.root, *self.allowed) if real.is_relative_to(folder)), None)


def shown(path: str) -> str:
    """A path for one line of text: control characters and lone surrogates escaped, very long ones cut."""
    text = path if len(path) <= 500 else path[:497] + "..."
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def reason(path: str, error: OSError) -> str:
    """What an OSError means for a path, in words for the model."""
    match error:
        case ChangedMeanwhileError():
            return f"{shown(path)}: somebody else changed it meanwhile; read it again"
        case NotAFileError():
            return f"{shown(path)}: is {error.kind}, not a regular file"
        case ReadOnlyFileError():
            return f"{shown(path)}: is read-only; if it has to change, make it writable with chmod u+w first"
    known = _REASONS.get(error.errno or 0)
    return f"{shown(path)}: {known or error.strerror or error}"


def _real_folder(folder: Path) -> Path:
    real = Path(os.path.realpath(folder.expanduser()))
    if not real.is_dir():
        raise ToolError(f"{folder}: is no folder; a workspace is one")
    return real
