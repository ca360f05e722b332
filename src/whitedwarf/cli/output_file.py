"""Files that a command writes: may they be written here (asked before the work), and then whole or not at all."""

import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from whitedwarf.errors import UsageError, WhitedwarfError


def check_output(path: Path, sources: Iterable[Path] = ()) -> None:
    """UsageError unless `path` can become, or is, a regular file other than the `sources` being read.

    Devices and pipes are refused, too: our files appear by renaming, and that would put a plain file in the place of,
    say, /dev/null, for everybody on the machine.
    """
    try:
        fault = _fault(path, sources)
        if fault is None:
            _try_folder(path)
    except OSError as error:
        fault = str(error.strerror)
    if fault is not None:
        raise UsageError(f"cannot write {path}: {fault}; give the name of a file")


def write_text(path: Path, text: str) -> None:
    """The text under `path`; when the disk does not take it, WhitedwarfError, and what was there stays."""
    _write(path, text.encode(), 0o666)


def write_bytes(path: Path, data: bytes) -> None:
    """The same with bytes."""
    _write(path, data, 0o666)


def write_private(path: Path, text: str) -> None:
    """The same, for nobody but the owner to read."""
    _write(path, text.encode(), 0o600)


def _write(path: Path, data: bytes, mode: int) -> None:
    partial = path.parent / f".{path.name}.{os.getpid()}.partial"
    try:
        partial.unlink(missing_ok=True)  # of a process that had this number before us and was killed
        file = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with open(file, "wb") as stream:  # noqa: PTH123
            stream.write(data)
        partial.replace(path)
    except OSError as error:
        raise WhitedwarfError(f"cannot write {path}: {error.strerror}") from error
    finally:
        partial.unlink(missing_ok=True)


def _try_folder(path: Path) -> None:
    """OSError where files cannot be made beside it: no right to, a disk without writing, a name that is too long."""
    trial = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.partial")
    os.close(os.open(trial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    trial.unlink()


def _fault(path: Path, sources: Iterable[Path]) -> str | None:
    if path.is_dir() or not path.name:
        return "it is a folder"
    if not path.parent.is_dir():
        return f"there is no folder {path.parent}"
    if not path.exists():
        return None
    if not path.is_file():
        return "it is not a regular file"
    source = next((source for source in sources if source.exists() and path.samefile(source)), None)
    return None if source is None else f"it is {source}, which is being read"
