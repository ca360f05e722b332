"""A real server in a process of its own, for instruments that speak to it over sockets.

Promises: when `started` yields, the server listens; when it is left, the process is gone, whatever happened.
Its log is kept in a file without a name, and its last line told where it does not start.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil

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
    def cpu_s(self) -> float:
        """Processor seconds it has used, all threads together; Linux counts in hundredths."""
        times = psutil.Process(self.process.pid).cpu_times()
        return times.user + times.system

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


@contextmanager
def peer_started(binary: Path, model: Path, parallel: int, context: int, flags: Sequence[str] = ()) -> Iterator[int]:
    """llama.cpp's llama-server on the same file, `context` tokens for each of `parallel` streams -> its port."""
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        port = chosen.getsockname()[1]
    size = ["-np", str(parallel), "-c", str(parallel * context)]
    command = [str(binary), "-m", str(model), "--host", "127.0.0.1", "--port", str(port), *size, *flags]
    try:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except OSError as error:
        raise WhitedwarfError(f"--peer {binary}: {error.strerror}") from error
    with process:
        try:
            _wait_until_healthy(process, port)
            yield port
        finally:
            process.kill()


def _wait_until_healthy(process: "subprocess.Popen[bytes]", port: int) -> None:
    end_s = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < end_s and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
                return
        except OSError:  # it does not listen yet, or loads its model
            time.sleep(0.1)
    raise WhitedwarfError(f"the peer did not start: status {process.poll()}")
