"""A real DSH, a supervisor that only looks like one, and a model that answers when the commands have run."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from fakes import llama_child, supervisor_stand_in
from supervisor.dsh.agent import Dsh, route, settle


@pytest.fixture
def dsh(dsh_program: Path, tmp_path: Path) -> Dsh:
    """Freshly installed."""
    return settle(dsh_program, tmp_path)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        return int(bound.getsockname()[1])


@dataclass
class StandIn:
    """How the plugin is told to run fakes/supervisor_stand_in.py, and what that noted."""

    folder: Path
    port: int = field(default_factory=free_port)

    @property
    def options(self) -> dict[str, Any]:
        """The plugin's."""
        command = [sys.executable, supervisor_stand_in.__file__]
        return {"command": command, "supervisorConfig": str(self._config), "publicPorts": [self.port]}

    def behave(self, **how: Any) -> None:
        """Write its config."""
        model = {"key": "star", "state": "unloaded", "kind": "managed", "public_port": self.port}
        told = {"ports": [self.port], "log": str(self._log), "models": [model], **how}
        self._config.write_text(json.dumps(told))

    def notes(self, what: str) -> list[dict[str, Any]]:
        """What happened, of one kind."""
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        return [note for note in map(json.loads, lines) if note["what"] == what]

    def asked(self, method: str) -> list[str]:
        """Paths, in their order."""
        return [note["path"] for note in self.notes(method)]

    @property
    def living(self) -> list[int]:
        """The processes that have not ended."""
        return [note["pid"] for note in self.notes("born") if _is_running(note["pid"])]

    @property
    def _config(self) -> Path:
        return self.folder / "models.json"

    @property
    def _log(self) -> Path:
        return self.folder / "stand_in.log"


@pytest.fixture
def stand_in(tmp_path: Path) -> Iterator[StandIn]:
    """None runs when the test has ended."""
    here = StandIn(tmp_path)
    here.behave()
    yield here
    for pid in here.living:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _is_running(pid: int) -> bool:
    try:
        return supervisor_stand_in.__file__ in psutil.Process(pid).cmdline()
    except psutil.NoSuchProcess:
        return False


@pytest.fixture
def answering(dsh: Dsh, tmp_path: Path) -> Iterator[Path]:
    """A patch with the route to a model that answers at once when no commands are to be run, else after them."""
    port = free_port()
    command = [sys.executable, llama_child.__file__, "--port", str(port), "-c", "200000", "--reply", "All is well."]
    with subprocess.Popen([*command, "--answer-when", str(dsh.commands_done)], stderr=subprocess.PIPE) as model:
        assert model.stderr is not None
        assert b"listening" in model.stderr.readline()
        patch = tmp_path / "route.yml"
        patch.write_text(json.dumps(route(port)))
        yield patch
        model.kill()
