"""A meeting place and members in processes of their own on this machine, for `bench cluster`."""

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from whitedwarf.errors import ClusterError

_LONGEST_S = 300.0
_MEETING = r"meeting place at \w+://\S+:(\d+)"


class LocalCluster:
    """Files go to `folder`. `trust` are the options by which its processes believe each other."""

    def __init__(self, folder: Path, trust: tuple[str, ...], model: tuple[str, ...]) -> None:
        self._folder = folder
        self._trust = trust
        self._model = model
        self._running: list[subprocess.Popen[bytes]] = []
        place = self._start("start", "--port", "0", *trust)
        self.port = int(self._waited(place, _MEETING)[1])

    def join(self, layers: str, core: int | None) -> None:
        """A member with one thread, on one core where the system can do that; returns when it is there."""
        words = ("join", f"127.0.0.1:{self.port}", "--layers", layers, "--threads", "1", "--backend", "cpu")
        member = self._start(*words, *self._trust, *self._model, core=core)
        self._waited(member, "joined as")

    def part(self) -> None:
        """All members leave."""
        for member in self._running[1:]:
            _end(member)
        del self._running[1:]

    def close(self) -> None:
        self.part()
        for place in self._running:
            _end(place)

    def _start(self, *words: str, core: int | None = None) -> "subprocess.Popen[bytes]":
        log = self._log(len(self._running))
        with log.open("wb") as file:
            command = [sys.executable, "-m", "whitedwarf", "cluster", *words]
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        self._running.append(process)
        if core is not None:
            pin(process.pid, core)
        return process

    def _log(self, number: int) -> Path:
        return self._folder / f"process-{number}.log"

    def _waited(self, process: "subprocess.Popen[bytes]", words: str) -> re.Match[str]:
        log, give_up = self._log(self._running.index(process)), time.monotonic() + _LONGEST_S
        while (found := re.search(words, log.read_text())) is None:
            if process.poll() is not None or time.monotonic() > give_up:
                raise ClusterError(f"a process of the cluster did not start: {log.read_text().strip()}")
            time.sleep(0.02)
        return found


@contextmanager
def local_cluster(folder: Path, trust: tuple[str, ...], model: tuple[str, ...]) -> Iterator[LocalCluster]:
    """Closed at the end."""
    cluster = LocalCluster(folder, trust, model)
    try:
        yield cluster
    finally:
        cluster.close()


def pin(pid: int, core: int) -> bool:
    """Have a process (0: this one) and the threads it will start run on one core; whether the system can do that."""
    process = psutil.Process(pid or None)
    if not hasattr(process, "cpu_affinity"):
        return False
    process.cpu_affinity([core])
    return True


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
