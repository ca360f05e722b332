"""Where figures were measured, a processor or a graphics card: what every report of an instrument begins with."""

import os
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from whitedwarf.bench.bandwidth import read_bandwidth
from whitedwarf.ops.base import Ops
from whitedwarf.ops.cpu import CpuOps


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


def measured_machine(cpu: str, ops: Ops) -> Machine:
    """Reads (or on a card copies) a gigabyte again and again to know the memory's speed."""
    load, time = os.getloadavg()[0], datetime.now(UTC).isoformat(timespec="seconds")
    if isinstance(ops, CpuOps):
        return Machine(cpu, ops.kernels.threads, ops.level, read_bandwidth(ops.kernels.read_all), load, time)
    from whitedwarf.ops.torch_cards import copy_speed, device_name

    device = device_of(ops)
    return Machine(device_name(device), 0, ops.name, copy_speed(device), load, time)


def device_of(ops: Ops) -> Any:
    """The torch device that all of a backend is on; None for others, such as several cards together."""
    return getattr(ops, "device", None)
