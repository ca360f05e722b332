"""What this machine has: processor, cores, memory and the limits around this process. Reads, decides nothing."""

import os
import platform
from dataclasses import dataclass
from pathlib import Path

import psutil

from whitedwarf.cli.cpu_quota import quota_threads
from whitedwarf.engine.memory import probe_memory


@dataclass(frozen=True, slots=True)
class Machine:
    """Hardware and system; `usable_threads` is what this process may run on."""

    system: str
    cpu: str
    architecture: str
    cores: int | None
    threads: int | None
    usable_threads: int
    python: str


@dataclass(frozen=True, slots=True)
class Memory:
    """`usable_bytes` is the tightest of what is available and of every control group around us."""

    total_bytes: int
    available_bytes: int
    cgroup_limit_bytes: int | None
    usable_bytes: int


def read_machine() -> Machine:
    """Look at the hardware."""
    return Machine(
        system=f"{platform.system()} {platform.release()}",
        cpu=_cpu_name(),
        architecture=platform.machine(),
        cores=psutil.cpu_count(logical=False),
        threads=psutil.cpu_count(),
        usable_threads=available_threads(),
        python=platform.python_version(),
    )


def read_memory() -> Memory:
    """Look at the memory."""
    probe = probe_memory()
    limits = [group.limit_bytes for group in probe.cgroups]
    limit = min(limits) if limits else None
    return Memory(probe.total_bytes, probe.available_bytes, limit, probe.usable_bytes)


def available_threads() -> int:
    """One for each hardware thread this process may use, within what its control groups allow."""
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(threads, quota_threads() or threads)


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"
