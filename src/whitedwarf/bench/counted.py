"""What a process counts while it works: bytes that it read from disks, and where its experts came from."""

from collections.abc import Callable, Mapping

import psutil

READ_BYTES = "disk_bytes"
_NOW = ("slots", "held")  # are no counts


def counted(experts: Callable[[], Mapping[str, float]] | None = None) -> dict[str, float]:
    """All so far. Without bytes of disks where the system does not tell them."""
    found = (
        {} if experts is None else {f"experts_{name}": value for name, value in experts().items() if name not in _NOW}
    )
    read_bytes = disk_bytes()
    return found if read_bytes is None else {READ_BYTES: read_bytes, **found}


def disk_bytes() -> int | None:
    """What this process caused to be read from disks, also by touching mapped files; None where nobody counts."""
    process = psutil.Process()
    return int(process.io_counters().read_bytes) if hasattr(process, "io_counters") else None
