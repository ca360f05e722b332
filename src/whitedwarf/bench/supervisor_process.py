"""A real supervisor in a process of its own, in front of a scripted server, for the instrument that measures it.

Promises: when `supervised` yields, the port is answered; when it is left, the supervisor and its model are gone.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from whitedwarf.errors import WhitedwarfError

_START_TIMEOUT_S, _STOP_TIMEOUT_S = 60.0, 30.0
_SCRIPTED = [sys.executable, "-m", "whitedwarf.bench.scripted_llama"]


@dataclass(frozen=True, slots=True)
class SupervisorProcess:
    """A running one. `port` is its model's public port, `model_port` the model's own."""

    pid: int
    port: int
    model_port: int

    @property
    def cpu_s(self) -> float:
        """Processor seconds it has used, all threads together; Linux counts in hundredths."""
        times = psutil.Process(self.pid).cpu_times()
        return times.user + times.system

    @property
    def resident_bytes(self) -> int:
        """Its memory, without the model's."""
        return int(psutil.Process(self.pid).memory_info().rss)


@contextmanager
def supervised() -> Iterator[SupervisorProcess]:
    """One with a scripted model that is not loaded yet; WhitedwarfError with its last words where it ends early."""
    with tempfile.TemporaryDirectory() as folder:
        port, model_port = _free_ports()
        path = Path(folder, "models.json")
        path.write_text(json.dumps(_config(port, model_port, folder)), encoding="utf-8")
        command = [sys.executable, "-m", "whitedwarf", "supervise", str(path)]
        with tempfile.TemporaryFile() as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
            try:
                _wait(process, port, log.fileno())
                yield SupervisorProcess(process.pid, port, model_port)
                process.send_signal(signal.SIGTERM)
                process.wait(_STOP_TIMEOUT_S)
            finally:
                process.kill()


@contextmanager
def relayed(target: int) -> Iterator[int]:
    """The port of a bare relay to another port, in a process of its own."""
    port, _ = _free_ports()
    words = [sys.executable, "-m", "whitedwarf.bench.bare_relay", str(port), str(target)]
    with subprocess.Popen(words) as process:
        try:
            _wait(process, port, None)
            yield port
        finally:
            process.kill()


def scripted_start_s() -> float:
    """How long the scripted model takes by itself, from its start until its port takes connections."""
    port, _ = _free_ports()
    start_s = time.monotonic()
    with subprocess.Popen([*_SCRIPTED, "--port", str(port)]) as process:
        try:
            _wait(process, port, None)
            return time.monotonic() - start_s
        finally:
            process.kill()


def _config(port: int, model_port: int, folder: str) -> dict[str, object]:
    model = Path(folder, "scripted.gguf")
    model.write_bytes(b"GGUF")
    entry = {"name": "scripted", "path": str(model), "publicPort": port, "internalPort": model_port, "args": []}
    return {
        "llamaServer": {"bin": _SCRIPTED},
        "startSettleSec": 0,
        "defaults": {"softContextRatio": 0},  # counting asks the model, whose time is not ours
        "stateDir": folder,
        "models": [{**entry, "keepsState": False}],
    }


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


def _wait(process: "subprocess.Popen[bytes]", port: int, log: int | None) -> None:
    end_s = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < end_s and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.002)
    said = b"" if log is None else os.pread(log, 1 << 16, 0)
    last = (said.decode(errors="replace").strip().splitlines() or ["no word"])[-1]
    raise WhitedwarfError(f"what is measured did not start: {last}")
