"""Where figures were measured: what every report of an instrument begins with."""

import os
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from whitedwarf.bench.bandwidth import read_bandwidth
from whitedwarf.ops.cpu import CpuOps


@dataclass(frozen=True, slots=True)
class Machine:
    """A processor, how much of it was used, and what else it was doing."""

    cpu: str
    threads: int
    level: str
    read_bytes_per_s: float  # measured, all threads
    load: float = 0.0  # of the run queue when it began
    time: str = ""  # UTC

    def __str__(self) -> str:
        return f"{self.cpu}, {self.threads} threads, {self.level}"

    def at_its_best(self, later: "Machine") -> "Machine":
        """With the better memory speed of two measurements: other work can only make it look slower."""
        return replace(self, read_bytes_per_s=max(self.read_bytes_per_s, later.read_bytes_per_s))


def measured_machine(cpu: str, ops: CpuOps) -> Machine:
    """Reads a gigabyte again and again to know the memory's speed."""
    load, time = os.getloadavg()[0], datetime.now(UTC).isoformat(timespec="seconds")
    return Machine(cpu, ops.kernels.threads, ops.level, read_bandwidth(ops.kernels.read_all), load, time)
