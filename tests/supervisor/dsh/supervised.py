"""`whitedwarf supervise` as a process of its own, and what it leaves behind: nothing."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import psutil

from fakes import llama_child
from supervisor.dsh.agent import PATIENCE_S


@dataclass(frozen=True, slots=True)
class Supervised:
    """A running supervisor."""

    config: Path
    port: int
    process: "subprocess.Popen[bytes]"

    @property
    def model(self) -> dict[str, Any]:
        """What is told of the first model."""
        told = httpx2.get(f"http://127.0.0.1:{self.port}/__supervisor/status", timeout=10).json()
        first: dict[str, Any] = told["models"][0]
        return first

    def export(self, *flags: str) -> Path:
        """The routes to it, as `whitedwarf export-routes` writes them for DSH."""
        command = [sys.executable, "-m", "whitedwarf", "export-routes", self.config, "--for", "dsh", *flags]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        patch = self.config.with_name("routes.yml")
        patch.write_text(done.stdout)
        return patch


@contextmanager
def supervising(folder: Path, port: int, model: Mapping[str, Any], **top: Any) -> Iterator[Supervised]:
    """With one model on this port; ended in order, and then no process names the folder any more."""
    config = folder / "models.json"
    config.write_text(json.dumps({"models": [{"publicPort": port, **model}], "startSettleSec": 0, **top}))
    command = [sys.executable, "-m", "whitedwarf", "supervise", config]
    environment = os.environ | {"XDG_STATE_HOME": str(folder / "state")}
    with (folder / "supervisor.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
    running = Supervised(config, port, process)
    try:
        _until_it_answers(running)
        yield running
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(PATIENCE_S)
        finally:
            process.kill()
    assert code == 0, (folder / "supervisor.log").read_text()[-2000:]
    assert [other for other in psutil.process_iter() if _names(other, str(config.parent / "state"))] == []


def stand_in(folder: Path, **behaviour: object) -> dict[str, Any]:
    """A model that fakes/llama_child.py plays; `asked` says what came."""
    behaviour["log"] = folder / "child.log"
    words = [word for name, value in behaviour.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    return {
        "name": "star",
        "path": "/none.gguf",
        "backend": "llama-server",
        "bin": [sys.executable, llama_child.__file__, *words],
    }


def asked(folder: Path) -> list[dict[str, Any]]:
    """Requests for an answer that came to the stand-in, but for the one that warms it up."""
    notes = map(json.loads, (folder / "child.log").read_text().splitlines())
    return [note for note in notes if note["what"] == "ask" and note["size"] > 1000]


def _until_it_answers(running: Supervised) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s and running.process.poll() is None:
        try:
            assert running.model["key"]
        except httpx2.TransportError:
            time.sleep(0.02)
        else:
            return
    raise AssertionError(running.config.with_name("supervisor.log").read_text()[-2000:])


def _names(process: psutil.Process, text: str) -> bool:
    try:
        return any(text in word for word in process.cmdline())
    except psutil.Error:
        return False
