"""A cluster in real processes: a meeting place and members, as their commands make them, on this machine.

What they say goes to files, so that nobody waits for a pipe; `until` waits for words in them.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

HANG_S = 120.0
COMMAND = (sys.executable, "-m", "whitedwarf")
_MEETING = re.compile(r"meeting place at \w+://(\S+):(\d+)")
Start = Callable[..., "subprocess.Popen[str]"]


@dataclass(slots=True)
class Process:
    """One of them."""

    process: "subprocess.Popen[str]"
    log: Path

    @property
    def said(self) -> str:
        return self.log.read_text()

    def until(self, words: str, times: int = 1) -> "re.Match[str]":
        """Wait until this has been said so often."""
        pattern, give_up = re.compile(words), time.monotonic() + HANG_S
        while len(found := list(pattern.finditer(self.said))) < times:
            has_ended = self.process.poll() is not None
            if time.monotonic() > give_up or (has_ended and len(list(pattern.finditer(self.said))) < times):
                raise AssertionError(f"waited for {words!r}, got:\n{self.said}")
            time.sleep(0.05)
        return found[times - 1]

    def kill(self, number: int = signal.SIGKILL) -> None:
        self.process.send_signal(number)
        if number not in (signal.SIGSTOP, signal.SIGCONT):
            self.process.wait(HANG_S)

    def end(self, number: int = signal.SIGTERM) -> int:
        """As a user would; its exit code."""
        self.process.send_signal(signal.SIGCONT)
        self.process.send_signal(number)
        return self.process.wait(HANG_S)


def environment() -> dict[str, str]:
    """Of a process that runs this tree, and for which warnings are errors."""
    source = str(Path(__file__).parents[2] / "src")
    path = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH", "")]))
    return os.environ | {"PYTHONWARNINGS": "error", "OMP_NUM_THREADS": "1", "PYTHONPATH": path}


@dataclass(slots=True)
class ClusterProcesses:
    """Close it. `trust` are the options that all of them get."""

    folder: Path
    trust: tuple[str, ...]
    patience_s: float = 2.0
    all: list[Process] = field(default_factory=list)
    port: int = 0

    def meet(self, *words: str, start: Start = subprocess.Popen, host: str = "127.0.0.1") -> Process:
        """Start the meeting place, at the port that it had before, if it had one."""
        place = self._start(start, "cluster", "start", "--host", host, "--port", str(self.port), *words)
        self.port = int(place.until(_MEETING.pattern)[2])
        return place

    def join(self, *words: str, start: Start = subprocess.Popen, host: str = "127.0.0.1") -> Process:
        """Start a member; it is not there yet when this returns."""
        return self._start(start, "cluster", "join", f"{host}:{self.port}", "--threads", "1", *words)

    def coordinate(self, *words: str, start: Start = subprocess.Popen, host: str = "127.0.0.1") -> Process:
        """Start a command with a model over this cluster."""
        return self._start(start, *words, "--cluster", f"{host}:{self.port}", "--threads", "1")

    def run_python(self, code: str, *words: str) -> Process:
        """A command of a program that is not quite ours."""
        return self._start(subprocess.Popen, *words, before=(sys.executable, "-c", code))

    def patience(self) -> tuple[str, ...]:
        return (*self.trust, "--cluster-patience", str(self.patience_s))

    def _start(self, start: Start, *words: str, before: tuple[str, ...] = COMMAND) -> Process:
        log = self.folder / f"{len(self.all)}.log"
        with log.open("w") as file:
            command = [*before, *words, *self.patience()]
            process = start(command, stdout=file, stderr=file, env=environment())
        self.all.append(Process(process, log))
        return self.all[-1]

    def close(self) -> None:
        """End what is left, members first."""
        alive = [one for one in reversed(self.all) if one.process.poll() is None]
        for one in alive:
            one.process.send_signal(signal.SIGCONT)
            one.process.kill()
        for one in alive:
            one.process.wait(HANG_S)
