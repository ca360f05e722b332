"""Will it fit? Asked before anything is loaded, answered by arithmetic.

Weights are mapped from their file: their pages come and go with the page cache, so a model larger than memory is slow,
not impossible. What must really fit is what only this process has: the KV state and the buffers. `judge` is pure; the
machine is read by `probe_memory` alone. Neither knows how a model computes its needs.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from whitedwarf.errors import OutOfMemoryError

_NO_LIMIT = 1 << 60  # cgroup v1 writes "no limit" as a number near 2^63
_CONTEXT_STEP = 256
_SIZE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


@dataclass(frozen=True, slots=True)
class Need:
    """`context_bytes` grow with the context length; `fixed_bytes` do not (buffers, decoded copies of weights).

    A server has `parallel` contexts at most, and up to `prefix_bytes` of earlier ones.
    """

    weights_bytes: int  # in the mapped files
    context_bytes: int
    fixed_bytes: int
    context_length: int
    parallel: int = 1
    prefix_bytes: int = 0

    @property
    def own_bytes(self) -> int:
        """Of one context, without the weights: what must fit."""
        return self.context_bytes + self.fixed_bytes + self.prefix_bytes

    @property
    def all_contexts_bytes(self) -> int:
        """With every context full."""
        return self.own_bytes + (self.parallel - 1) * self.context_bytes


@dataclass(frozen=True, slots=True)
class CgroupUse:
    """One control group around this process: what it may hold, holds, and could give up without swapping."""

    limit_bytes: int
    used_bytes: int
    file_cache_bytes: int

    @property
    def free_bytes(self) -> int:
        return max(0, self.limit_bytes - self.used_bytes + self.file_cache_bytes)


@dataclass(frozen=True, slots=True)
class Probe:
    """The machine as found; `available_bytes` counts the page cache as free."""

    total_bytes: int
    available_bytes: int
    cgroups: tuple[CgroupUse, ...] = ()

    @property
    def usable_bytes(self) -> int:
        """What can really be had: the tightest of the machine and every group around us."""
        return min((self.available_bytes, *(group.free_bytes for group in self.cgroups)))

    @property
    def ceiling_bytes(self) -> int:
        """What could be had if nothing else ran."""
        return min((self.total_bytes, *(group.limit_bytes for group in self.cgroups)))


def judge(need: Need, probe: Probe, *, force: bool = False) -> tuple[str, ...]:
    """Warnings for the user, none when all is well; OutOfMemoryError when it cannot fit and is not forced."""
    warnings = []
    own_bytes = need.own_bytes
    if own_bytes > probe.usable_bytes:
        if not force:
            raise OutOfMemoryError(f"{_shortage(need, probe)}: {_remedies(need, probe)}")
        warnings.append(f"{_shortage(need, probe)}; going on because of --force")
    elif need.all_contexts_bytes > probe.usable_bytes:
        warnings.append(
            f"{need.parallel} requests whose contexts are all full need {size_text(need.all_contexts_bytes)}, but "
            f"{size_text(probe.usable_bytes)} of memory are available: long ones side by side may run out of it; "
            "a smaller --parallel, --ctx or --kv-ram-mb avoids that"
        )
    if need.weights_bytes + own_bytes > probe.ceiling_bytes:
        warnings.append(
            f"the weights ({size_text(need.weights_bytes)}) and the context ({size_text(own_bytes)}) together exceed "
            f"memory ({size_text(probe.ceiling_bytes)}): weights are read from disk again and again, "
            "which is slow; --ssd-streaming reads them better, a smaller quantisation avoids it"
        )
    return tuple(warnings)


def fitting_context(need: Need, usable_bytes: int) -> int:
    """The largest context length that fits, in steps of 256 tokens; 0 when none does."""
    room_bytes = usable_bytes - need.fixed_bytes - need.prefix_bytes
    if need.context_bytes <= 0 or room_bytes <= 0:
        return 0
    length = min(need.context_length, room_bytes * need.context_length // need.context_bytes)
    return length - length % _CONTEXT_STEP


def size_text(size_bytes: int) -> str:
    """A size for people: three digits are enough to decide."""
    size = float(size_bytes)
    for unit in _SIZE_UNITS:
        if size < 1024 or unit == _SIZE_UNITS[-1]:
            break
        size /= 1024
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"


def probe_memory(root: Path = Path("/")) -> Probe:
    """Read this machine; `root` is where /proc and /sys are found."""
    memory = psutil.virtual_memory()
    return Probe(memory.total, memory.available, cgroup_uses(root))


def cgroup_uses(root: Path) -> tuple[CgroupUse, ...]:
    """Every memory-limited control group around this process, v1 and v2, innermost first. None outside Linux."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return ()
    uses: list[CgroupUse] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            uses += _limited_groups(root / "sys/fs/cgroup", path, _V2)
        elif "memory" in controllers.split(","):
            uses += _limited_groups(root / "sys/fs/cgroup/memory", path, _V1)
    return tuple(uses)


@dataclass(frozen=True, slots=True)
class _Files:
    """Where one version of control groups keeps its numbers."""

    limit: str
    used: str
    cache_keys: tuple[str, ...]  # in memory.stat


_V1 = _Files("memory.limit_in_bytes", "memory.usage_in_bytes", ("total_inactive_file", "total_active_file"))
_V2 = _Files("memory.max", "memory.current", ("inactive_file", "active_file"))


def _limited_groups(mount: Path, path: str, files: _Files) -> list[CgroupUse]:
    """The groups from `path` up to the mount: every one of them limits us.

    Inside a container the path may be the host's and lead nowhere; then the mount itself is our group.
    """
    group = mount / path.lstrip("/")
    folders = [group, *group.parents][: len(group.parts) - len(mount.parts) + 1]
    return [use for folder in folders if (use := _read_group(folder, files)) is not None]


def _read_group(folder: Path, files: _Files) -> CgroupUse | None:
    """None where the group sets no limit, or is not there to be read."""
    try:
        limit_text = (folder / files.limit).read_text().strip()
        if limit_text == "max" or int(limit_text) >= _NO_LIMIT:
            return None
        used_bytes = int((folder / files.used).read_text())
        stat = dict(line.split(maxsplit=1) for line in (folder / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        return None
    return CgroupUse(int(limit_text), used_bytes, sum(int(stat.get(key, 0)) for key in files.cache_keys))


def _shortage(need: Need, probe: Probe) -> str:
    prefix = f" and beginnings of prompts {size_text(need.prefix_bytes)}" if need.prefix_bytes else ""
    return (
        f"a context of {need.context_length} tokens needs {size_text(need.context_bytes)} and the buffers "
        f"{size_text(need.fixed_bytes)}{prefix}, but {size_text(probe.usable_bytes)} of memory are available"
    )


def _remedies(need: Need, probe: Probe) -> str:
    room_bytes = probe.usable_bytes - need.context_bytes - need.fixed_bytes
    if need.prefix_bytes and room_bytes >= 0:
        return f"use --kv-ram-mb {room_bytes >> 20} or less, or stop other programs; --force tries anyway"
    length, flags = fitting_context(need, probe.usable_bytes), ""
    if need.prefix_bytes and not length:
        length, flags = fitting_context(replace(need, prefix_bytes=0), probe.usable_bytes), " and --kv-ram-mb 0"
    if length:
        return f"use --ctx {length} or less{flags}, or stop other programs; --force tries anyway"
    return "stop other programs or raise this container's limit, or use a smaller model; --force tries anyway"
