"""What a model needs and what this machine has, from file sizes and /proc; and the wait until a GPU gave memory back.

Promises: never raises for what is not there (no file: 0 bytes; no /proc, no nvidia-smi: unknown); bounded in time.
The needs are an estimate: weights are as large as their files, the context a guess that errs upwards. Whoever knows
better says `memory_bytes`.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

from whitedwarf.supervisor.config import Backend, ManagedModel
from whitedwarf.supervisor.sizes import files_bytes

_SHARE_FOR_MODELS = 0.9
_PROGRAM_BYTES = 256 << 20
_OWN_BYTES_A_TOKEN = 8 << 10  # Flash takes 4.2 KB (ARCHITECTURE.md), PRO more
_LLAMA_BYTES_A_TOKEN = 48 << 10  # an 8B model with the default KV types; grows with the model, see below
_LLAMA_SIZE_OF_IT = 5 << 30
_SETTLE_TIMEOUT_S = 4.0
_SETTLE_PAUSE_S = 0.2


def needed_bytes(model: ManagedModel) -> int:
    """`memory_bytes`, or an estimate; 0 where the file is not there."""
    return model.memory_bytes or estimated_bytes(model.path, model.context_size, model.backend)


def estimated_bytes(path: Path, context_size: int, backend: Backend) -> int:
    """The weights of all parts, what a full context of it takes, and the program itself."""
    weights = files_bytes(path)
    if weights == 0:
        return 0
    if backend is Backend.WHITEDWARF:
        a_token = float(_OWN_BYTES_A_TOKEN)
    else:
        a_token = _LLAMA_BYTES_A_TOKEN * max(0.1, weights / _LLAMA_SIZE_OF_IT) ** 0.5
    return weights + int(context_size * a_token) + _PROGRAM_BYTES


def automatic_budget(root: Path = Path("/")) -> int | None:
    """What models may have of this machine's memory, all together; None where it is not known."""
    limits = [limit for limit in (_machine_bytes(root), *_cgroup_bytes(root)) if limit is not None]
    return int(min(limits) * _SHARE_FOR_MODELS) if limits else None


def _machine_bytes(root: Path) -> int | None:
    """What could be had now, ourselves and what is cached not counted."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB$", _text(root / "proc/meminfo"), re.MULTILINE)
    return int(found[1]) * 1024 if found else None


def _cgroup_bytes(root: Path) -> list[int]:
    """Limits of the groups that we are in, less what they use beyond caches; version 2, and 1's own name for it."""
    mounted = root / "sys/fs/cgroup"
    free: list[int] = []
    for folder in _cgroup_folders(root, mounted):
        for limit_name, used_name in (
            ("memory.max", "memory.current"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ):
            limit, used = _text(folder / limit_name).strip(), _text(folder / used_name).strip()
            if limit.isdigit() and used.isdigit():
                free.append(max(0, int(limit) - int(used) + _cached_bytes(folder)))
    return free


def _cgroup_folders(root: Path, mounted: Path) -> list[Path]:
    """Each group that contains us, from ours up to the root, of whichever version is mounted."""
    folders = {mounted, mounted / "memory"}
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, name = line.split(":", 2) if line.count(":") >= 2 else ("", "none", "")
        if controllers not in ("", "memory") or ".." in name:
            continue
        top = mounted / controllers
        folder = top / name.strip("/")
        folders |= {folder, *(parent for parent in folder.parents if top in (parent, *parent.parents))}
    return sorted(folders)


def _cached_bytes(folder: Path) -> int:
    found = re.search(r"^(?:inactive_file|total_inactive_file) (\d+)$", _text(folder / "memory.stat"), re.MULTILINE)
    return int(found[1]) if found else 0


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


async def graphics_memory_used() -> int | None:
    """MiB in use on all GPUs, as nvidia-smi says; None where it does not."""
    try:
        process = await asyncio.create_subprocess_exec(
            "nvidia-smi",
            "--query-gpu=memory.used",
            "--format=csv,noheader,nounits",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:
        return None
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    numbers = re.findall(rb"^\s*(\d+)\s*$", output, re.MULTILINE)
    return sum(map(int, numbers)) if process.returncode == 0 and numbers else None


async def settled(
    used: Callable[[], Awaitable[int | None]] = graphics_memory_used,
    timeout_s: float = _SETTLE_TIMEOUT_S,
    pause_s: float = _SETTLE_PAUSE_S,
) -> None:
    """Wait until memory of the GPUs no longer falls after a process ended, or for `timeout_s` (spec 2.22)."""
    try:
        async with asyncio.timeout(timeout_s):
            before = await used()
            while before is not None:
                await asyncio.sleep(pause_s)
                now = await used()
                if now is None or now >= before:
                    return
                before = now
    except TimeoutError:
        return
