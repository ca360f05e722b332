"""May a file be written here? Asked before the work, not after it."""

from collections.abc import Iterable
from pathlib import Path

from whitedwarf.errors import UsageError


def check_output(path: Path, sources: Iterable[Path] = ()) -> None:
    """UsageError unless `path` can become, or is, a regular file other than the `sources` being read.

    Devices and pipes are refused, too: our files appear by renaming, and that would put a plain file in the place of,
    say, /dev/null, for everybody on the machine.
    """
    try:
        fault = _fault(path, sources)
    except OSError as error:
        fault = str(error.strerror)
    if fault is not None:
        raise UsageError(f"cannot write {path}: {fault}; give the name of a file")


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
