"""What a store has done and holds, in numbers, for whoever watches it from another thread."""

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from whitedwarf.kvstore.header import Reason


@dataclass(frozen=True, slots=True)
class StoreStats:
    """What is held now, as far as this process knows, and counts since its start."""

    files: int = 0  # usable or not
    bytes: int = 0
    budget_bytes: int = 0
    hits: int = 0
    consumed: int = 0  # files that were deleted when a longer one had been saved after their hit
    read_bytes: int = 0  # of the hits
    read_s: float = 0.0
    stored: Mapping[str, int] = field(default_factory=dict)  # by the reason's name in lower case
    written_bytes: int = 0
    written_s: float = 0.0
    skipped: int = 0  # files that cannot be used: damaged, of another model, of other settings
    evicted: int = 0
    failed: int = 0  # states that could not be written: no room, a broken disk
    dropped: int = 0  # states that were not written because the disk was behind


class Tally:
    """Sums by name, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums: Counter[str] = Counter()
        self._stored: Counter[str] = Counter()

    def add(self, **amounts: float) -> None:
        """Names are those of StoreStats."""
        with self._lock:
            for name, amount in amounts.items():
                self._sums[name] += amount  # type: ignore[assignment]  # a Counter also sums seconds

    def stored(self, reason: Reason, size_bytes: int, elapsed_s: float) -> None:
        self.add(written_bytes=size_bytes, written_s=elapsed_s)
        with self._lock:
            self._stored[reason.name.lower()] += 1

    def stats(self, files: int, size_bytes: int, budget_bytes: int) -> StoreStats:
        with self._lock:
            return StoreStats(files, size_bytes, budget_bytes, stored=dict(self._stored), **self._sums)
