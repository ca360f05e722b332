"""A program in a memory group, watched from outside: what it holds of memory, and what it reads from disks.

Promises that the program has ended when this returns or raises. Memory is looked at every tenth of a second.
"""

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from whitedwarf.bench.memory_group import GroupUse, MemoryGroup
from whitedwarf.errors import WhitedwarfError

EVERY_S = 0.1


@dataclass(frozen=True, slots=True)
class Watched:
    """`peak`: the moment at which the group held the most; `read_bytes`: from disks, None where nobody counts."""

    output: str
    seconds: float
    peak: GroupUse
    peak_anonymous_bytes: int
    peak_file_bytes: int
    read_bytes: int | None


def run_watched(group: MemoryGroup, command: Sequence[str], environment: Mapping[str, str]) -> Watched:
    """Run to the end; WhitedwarfError with its last words where it fails or is killed for memory."""
    start_s = time.monotonic()
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            group.command(command), stdout=said, stderr=log, env={**os.environ, **environment}, start_new_session=True
        )
        watch = _Watch(group)
        try:
            watch.start()
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # its counters are still there
            read_bytes = _read_bytes(process.pid)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # nothing but what failed has one left
            process.wait()
            watch.stop()
        said.seek(0)
        log.seek(0)
        output, words = said.read().decode(errors="replace"), log.read().decode(errors="replace").strip()
    if process.returncode:
        raise WhitedwarfError(f"{command[0]} {_end(process.returncode)}: {(words.splitlines() or ['no word'])[-1]}")
    return Watched(
        output, time.monotonic() - start_s, watch.peak, watch.most_anonymous_bytes, watch.most_file_bytes, read_bytes
    )


class _Watch(threading.Thread):
    """Looks at a group until it is stopped."""

    def __init__(self, group: MemoryGroup) -> None:
        super().__init__(name="memory-watch", daemon=True)
        self.peak = GroupUse(0, 0)
        self.most_anonymous_bytes = self.most_file_bytes = 0
        self._group, self._is_over = group, threading.Event()

    def run(self) -> None:
        while True:
            with contextlib.suppress(OSError, KeyError, ValueError):
                self._look()
            if self._is_over.wait(EVERY_S):
                return

    def stop(self) -> None:
        self._is_over.set()
        self.join()

    def _look(self) -> None:
        now = self._group.use()
        self.peak = max(self.peak, now, key=lambda use: use.size_bytes)
        self.most_anonymous_bytes = max(self.most_anonymous_bytes, now.anonymous_bytes)
        self.most_file_bytes = max(self.most_file_bytes, now.file_bytes)


def _read_bytes(pid: int) -> int | None:
    try:
        lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith("read_bytes:")), None)


def _end(code: int) -> str:
    if code == -signal.SIGKILL:
        return "was killed, probably because its memory was not enough"
    return f"ended with {code}"
