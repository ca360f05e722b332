"""The system's files, with a disk that fails as it is told to."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

from whitedwarf.weights.os_files import FileState, OsFiles

Fault = Callable[[int, int], int | None]  # offset, size -> how many bytes come at most; may raise or wait


class FaultyFiles(OsFiles):
    """Real reads of real files; `fault` is asked before each, `is_direct` False refuses O_DIRECT like a memory disk."""

    def __init__(self, fault: Fault | None = None, *, is_direct: bool = True) -> None:
        super().__init__()
        self.fault = fault
        self.is_direct = is_direct
        self.reads: list[tuple[int, int]] = []  # offset, bytes that came
        self.dropped: list[tuple[int, int]] = []
        self._lock = threading.Lock()

    def open(self, path: Path) -> tuple[int, bool]:
        descriptor, is_direct = super().open(path)
        if is_direct and not self.is_direct:
            self.make_ordinary(descriptor)
        return descriptor, is_direct and self.is_direct

    def read(self, descriptor: int, into: memoryview, offset_bytes: int) -> int:
        most = self.fault(offset_bytes, into.nbytes) if self.fault is not None else None
        came = super().read(descriptor, into, offset_bytes)
        if most is not None and most < came:
            into[most:came] = b"\xee" * (came - most)  # did not come
            came = most
        with self._lock:
            self.reads.append((offset_bytes, came))
        return came

    def drop(self, descriptor: int, offset_bytes: int, size_bytes: int) -> None:
        self.dropped.append((offset_bytes, size_bytes))
        super().drop(descriptor, offset_bytes, size_bytes)

    def state(self, descriptor: int) -> FileState:
        return super().state(descriptor)


def late(delays_s: Callable[[int], float]) -> Fault:
    """Reads at an offset come after a while of their own, so that they overtake each other."""

    def wait(offset_bytes: int, size_bytes: int) -> None:
        time.sleep(delays_s(offset_bytes))

    return wait
