"""A real server in a process of its own, for instruments that speak to it over sockets.

Promises: when `started` yields, the server listens; when it is left, the process is gone, whatever happened.
Its log is kept in a file without a name and shown where it fails to start. Reads /proc, so Linux only where said.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from whitedwarf.errors import WhitedwarfError

START_TIMEOUT_S = 600.0  # a large file on a slow disk
STOP_TIMEOUT_S = 120.0
_ADDRESS = re.compile(r"served at http://127\.0\.0\.1:(\d+)")


@dataclass(frozen=True, slots=True)
class ServedProcess:
    """A running server. `port` is on loopback."""

    process: "subprocess.Popen[bytes]"
    port: int

    @property
    def cpu_s(self) -> float | None:
        """Processor seconds it has used, all threads together, to a hundredth; None without /proc."""
        try:
            stat = Path(f"/proc/{self.process.pid}/stat").read_text()
        except OSError:
            return None
        user, system = stat.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Ask it to end as a user would -> its exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout_s)


@contextmanager
def started(flags: Sequence[str]) -> Iterator[ServedProcess]:
    """`whitedwarf serve` with these flags on a free port; WhitedwarfError with its last words where it ends early."""
    command = [sys.executable, "-m", "whitedwarf", "serve", "--port", "0", *flags]
    with tempfile.TemporaryFile() as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            yield ServedProcess(process, _port(process, log))
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.wait(STOP_TIMEOUT_S)
        finally:
            process.kill()


def _port(process: "subprocess.Popen[bytes]", log: IO[bytes]) -> int:
    end_s = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < end_s:
        ended = process.poll() is not None
        said = os.pread(log.fileno(), 1 << 20, 0).decode(errors="replace")
        if found := _ADDRESS.search(said):
            return int(found[1])
        if ended:
            raise WhitedwarfError(f"the server did not start: {(said.strip().splitlines() or ['no word'])[-1]}")
        time.sleep(0.02)
    raise WhitedwarfError(f"the server did not listen within {START_TIMEOUT_S:g} s")
