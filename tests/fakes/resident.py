"""How much of a mapped file is in this process's memory (Linux)."""

from pathlib import Path

import pytest

SMAPS = Path("/proc/self/smaps")
needs_smaps = pytest.mark.skipif(not SMAPS.exists(), reason="needs Linux's /proc")


def resident_kib(path: Path) -> int:
    """Resident size of the one mapping of `path`."""
    lines = SMAPS.read_text().splitlines()
    (start,) = (number for number, line in enumerate(lines) if line.endswith(str(path)))
    return next(int(line.split()[1]) for line in lines[start:] if line.startswith("Rss:"))
