"""Where figures were measured, a processor or a graphics card: what every report of an instrument begins with."""

import os
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from whitedwarf._native import Kernels
from whitedwarf.bench.bandwidth import SIZE_BYTES, read_bandwidth
from whitedwarf.ops.base import Ops


@dataclass(frozen=True, slots=True)
class Machine:
    """A processor, how much of it was used, and what else it was doing; or a card."""

    cpu: str
    threads: int  # 0: of a card
    level: str
    read_bytes_per_s: float  # measured, all threads; of a card, what a copy reads and writes
    load: float = 0.0  # of the run queue when it began
    time: str = ""  # UTC

    def __str__(self) -> str:
        return f"{self.cpu}, {self.threads} threads, {self.level}" if self.threads else f"{self.cpu}, {self.level}"

    def at_its_best(self, later: "Machine") -> "Machine":
        """With the better memory speed of two measurements: other work can only make it look slower."""
        return replace(self, read_bytes_per_s=max(self.read_bytes_per_s, later.read_bytes_per_s))


SMALL_BYTES = 1 << 27  # still beyond any cache, where there is no room for more


def measured_machine(cpu: str, ops: Ops, size_bytes: int = SIZE_BYTES) -> Machine:
    """Reads so many bytes (on a card copies a gigabyte) again and again to know the memory's speed."""
    load, time = os.getloadavg()[0], datetime.now(UTC).isoformat(timespec="seconds")
    kernels = cpu_kernels(ops)
    if kernels is not None:
        return Machine(cpu, kernels.threads, kernels.level, read_bandwidth(kernels.read_all, size_bytes), load, time)
    from whitedwarf.ops.torch_cards import copy_speed, device_name

    device = device_of(ops)
    return Machine(device_name(device), 0, ops.name, copy_speed(device), load, time)


def cpu_kernels(ops: Ops) -> Kernels | None:
    """Of the native backend, also where something is wrapped around it; None for others."""
    kernels = getattr(ops, "kernels", None)
    return kernels if isinstance(kernels, Kernels) else None


def device_of(ops: Ops) -> Any:
    """The torch device that all of a backend is on; None for others, such as several cards together."""
    return getattr(ops, "device", None)
