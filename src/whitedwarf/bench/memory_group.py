"""A control group of Linux with a memory limit, made for the length of a measurement, and what is seen of it outside.

Promises that the group is gone when it is left, and that a system which lets us make none is told with a way out.
Page cache counts where it was filled: a file that others had read before costs a group nothing, so drop it first
(`dropped_from_cache`). Both versions of control groups; knows no model.
"""

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from whitedwarf.errors import UsageError

_ROOT = Path("/")
_ENTER = 'echo $$ > "$0" && exec "$@"'  # the group is entered before the program begins
_REMOVE_TIMEOUT_S = 10.0
WAY_OUT = (
    "run it as root, or as `systemd-run --user --scope -p Delegate=yes whitedwarf bench streaming …`, where control "
    "groups may be made"
)


@dataclass(frozen=True, slots=True)
class GroupUse:
    """Memory of a group now. `file_bytes`: its page cache, of files that it maps or reads."""

    anonymous_bytes: int
    file_bytes: int

    @property
    def size_bytes(self) -> int:
        return self.anonymous_bytes + self.file_bytes


@dataclass(frozen=True, slots=True)
class _Names:
    """What one version of control groups calls its files."""

    limit: str
    swap_limit: str
    anonymous: str  # in memory.stat
    file: str

    def swap_text(self, limit_bytes: int) -> str:
        """Version 1 limits memory and swap together, version 2 swap alone."""
        return str(limit_bytes) if self is _V1 else "0"


_V1 = _Names("memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "rss", "cache")
_V2 = _Names("memory.max", "memory.swap.max", "anon", "file")


@dataclass(frozen=True, slots=True)
class MemoryGroup:
    """A group that holds at most `limit_bytes`, without swap."""

    folder: Path
    limit_bytes: int
    names: _Names

    def command(self, words: Sequence[str]) -> list[str]:
        """The same program, begun inside the group."""
        return ["/bin/sh", "-c", _ENTER, str(self.folder / "cgroup.procs"), *words]

    def use(self) -> GroupUse:
        """What it holds now."""
        stat = dict(line.split(maxsplit=1) for line in (self.folder / "memory.stat").read_text().splitlines())
        return GroupUse(int(stat[self.names.anonymous]), int(stat[self.names.file]))


@contextmanager
def memory_group(name: str, limit_bytes: int, root: Path = _ROOT) -> Iterator[MemoryGroup]:
    """A new group; UsageError with the way out where none can be made."""
    group = _made(name, limit_bytes, root)
    try:
        yield group
    finally:
        _remove(group.folder)


def _made(name: str, limit_bytes: int, root: Path) -> MemoryGroup:
    refusals = []
    for parent, names in _parents(root):
        try:
            if names is _V2:
                _delegate_memory(parent)
            folder = parent / name
            folder.mkdir()
        except OSError as error:
            refusals.append(f"{parent}: {error.strerror}")
            continue
        try:
            (folder / names.limit).write_text(str(limit_bytes))
            with contextlib.suppress(OSError):  # a kernel that does not count swap
                (folder / names.swap_limit).write_text(names.swap_text(limit_bytes))
            return MemoryGroup(folder, limit_bytes, names)
        except OSError as error:
            refusals.append(f"{folder}: {error.strerror}")
            _remove(folder)
    why = f" ({refusals[0]})" if refusals else ""
    raise UsageError(f"no control group with a memory limit can be made here{why}: {WAY_OUT}")


def _parents(root: Path) -> Iterator[tuple[Path, _Names]]:
    """Where a group could be made: in our own one, or in one around it."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        names = _V1 if "memory" in controllers.split(",") else _V2
        mount = root / "sys/fs/cgroup" / ("memory" if names is _V1 else "")
        if names is _V2 and (controllers or not (mount / "cgroup.controllers").exists()):
            continue
        group = mount / path.lstrip("/")
        folders = [group, *group.parents][: len(group.parts) - len(mount.parts) + 1]
        yield from ((folder, names) for folder in folders if folder.is_dir())


def _delegate_memory(parent: Path) -> None:
    """Let groups below `parent` have limits. One with processes may not: alone in it, we move one down."""
    control = parent / "cgroup.subtree_control"
    if "memory" in control.read_text().split():
        return
    try:
        control.write_text("+memory")
    except OSError:
        if (parent / "cgroup.procs").read_text().split() != [str(os.getpid())]:
            raise
        below = parent / "whitedwarf-bench-itself"
        below.mkdir(exist_ok=True)
        (below / "cgroup.procs").write_text(str(os.getpid()))
        control.write_text("+memory")


def _remove(folder: Path) -> None:
    """Its processes have ended; the kernel may need a moment to see it."""
    empty = folder / "memory.force_empty"  # version 1: page cache would go to the group around it
    with contextlib.suppress(OSError):
        if empty.exists():
            empty.write_text("0")
    end_s = time.monotonic() + _REMOVE_TIMEOUT_S
    while time.monotonic() < end_s:
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.05)
        else:
            return


def dropped_from_cache(paths: Sequence[Path]) -> None:
    """Ask the page cache to forget these files. Nobody may have them mapped."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fdatasync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
