"""`whitedwarf supervise` as a process of its own, and what it leaves behind: nothing."""

import json
import re
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
from supervisor.dsh.stand_in import free_port


@dataclass(frozen=True, slots=True)
class Supervised:
    """A running supervisor."""

    config: Path
    port: int
    process: "subprocess.Popen[bytes]"

    @property
    def model(self) -> dict[str, Any]:
        """What is told of the first model."""
        first: dict[str, Any] = status_of(self.port)["models"][0]
        return first

    def export(self, model: str | None = None, *, has_policy: bool = True) -> Path:
        """A patch with the routes, of which this model's becomes DSH's default, or the first one's.

        Without the policy for DSH's own compaction only the soft limit is left to make it compact.
        """
        words = [self.config, "--for", "dsh", "--patch-file", "--default", model or self.model["key"]]
        command = [sys.executable, "-m", "whitedwarf", "export-routes", *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        rows = re.split("^(?=- )", done.stdout, flags=re.MULTILINE)
        patch = self.config.with_name("routes.yml")
        patch.write_text("".join(row for row in rows if has_policy or "compaction-basic" not in row))
        return patch


def status_of(port: int) -> dict[str, Any]:
    """What the supervisor on this port tells of itself."""
    told: dict[str, Any] = httpx2.get(f"http://127.0.0.1:{port}/__supervisor/status", timeout=10).json()
    return told


@contextmanager
def supervising(folder: Path, *models: Mapping[str, Any], **top: Any) -> Iterator[Supervised]:
    """With these models; ended in order, and then no process names the folder any more."""
    config = folder / "models.json"
    with_ports = [{"publicPort": free_port(), **model} for model in models]
    ports = {"internalBase": free_port()}
    told = {"models": with_ports, "ports": ports, "startSettleSec": 0, "stateDir": str(folder / "state"), **top}
    config.write_text(json.dumps(told))
    command = [sys.executable, "-m", "whitedwarf", "supervise", config]
    with (folder / "supervisor.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    running = Supervised(config, with_ports[0]["publicPort"], process)
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
    assert [other for other in psutil.process_iter() if names(other, str(folder))] == []


def played(folder: Path, name: str = "star", **behaviour: object) -> dict[str, Any]:
    """A model that fakes/llama_child.py plays; `asked` says what came. Its context is large and has no soft limit."""
    behaviour["log"] = folder / f"{name}.log"
    words = [word for option, value in behaviour.items() for word in (f"--{option.replace('_', '-')}", str(value))]
    return {
        "name": name,
        "path": llama_child.__file__,  # some file
        "backend": "llama-server",
        "bin": [sys.executable, llama_child.__file__, *words],
        "ctxSize": 200_000,
        "softContextLimit": 0,
    }


def asked(folder: Path, name: str = "star") -> list[dict[str, Any]]:
    """Requests with tools that came to the stand-in: not the one that warms it up, and not the one for a title."""
    log = folder / f"{name}.log"
    notes = map(json.loads, log.read_text().splitlines() if log.exists() else ())
    return [note for note in notes if note["what"] == "ask" and note["tools"]]


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


def names(process: psutil.Process, text: str) -> bool:
    """Whether it was started with that in a word."""
    try:
        return any(text in word for word in process.cmdline())
    except psutil.Error:
        return False
