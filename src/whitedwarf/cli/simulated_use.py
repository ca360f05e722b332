"""Memory that is taken away before a model is loaded, as if other programs had it (--simulate-used-memory)."""

from collections.abc import Callable

import numpy as np

from whitedwarf.engine.memory import Probe, probe_memory, size_text
from whitedwarf.errors import OutOfMemoryError
from whitedwarf.weights.locked_memory import AnonymousMemory, LockSystem, OsLocking

STEP_BYTES = 256 << 20


class SimulatedUse:
    """Holds memory for as long as it lives. `locked_bytes` of it cannot be paged out."""

    def __init__(
        self, size_bytes: int, probe: Callable[[], Probe] = probe_memory, locking: LockSystem | None = None
    ) -> None:
        """In steps, each only while there is so much left: OutOfMemoryError says how far it went."""
        if size_bytes > probe().usable_bytes:
            raise OutOfMemoryError(_refusal(size_bytes, 0, probe().usable_bytes))
        self.locked_bytes = 0
        self._parts: list[AnonymousMemory] = []
        system, done = locking or OsLocking(), 0
        while done < size_bytes:
            step_bytes = min(STEP_BYTES, size_bytes - done)
            self._parts.append(_taken(step_bytes, done, size_bytes, probe().usable_bytes))
            self.locked_bytes += self._parts[-1].lock(system).locked_bytes
            done += step_bytes

    def describe(self, size_bytes: int) -> str:
        """One line."""
        if self.locked_bytes >= size_bytes:
            return f"{size_text(size_bytes)} of memory are taken away, as if other programs had them"
        return (
            f"{size_text(size_bytes)} of memory are taken away, of which {size_text(self.locked_bytes)} could be "
            "locked: the rest may be paged out (`ulimit -l` allows no more)"
        )


def _taken(step_bytes: int, done: int, size_bytes: int, usable_bytes: int) -> AnonymousMemory:
    """One step, every page of it touched."""
    if step_bytes > usable_bytes:
        raise OutOfMemoryError(_refusal(size_bytes, done, usable_bytes))
    try:
        memory = AnonymousMemory(step_bytes)
    except (OSError, MemoryError) as error:
        raise OutOfMemoryError(_refusal(size_bytes, done, usable_bytes)) from error
    np.frombuffer(memory.view(), np.uint8).fill(1)
    return memory


def _refusal(size_bytes: int, done: int, usable_bytes: int) -> str:
    after = f"after {size_text(done)} " if done else ""
    return (
        f"--simulate-used-memory: {size_text(size_bytes)} were asked for; {after}only {size_text(usable_bytes)} are "
        "left; ask for less"
    )
