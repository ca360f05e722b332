"""A supervisor that only looks like one, as the plugin is told to run it, and what it noted."""

import json
import socket
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from fakes import supervisor_stand_in


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

    def lives(self, count: int) -> bool:
        """Whether so many processes go on, once those that end have ended."""
        deadline_s = time.monotonic() + 20
        while len(self.living) != count and time.monotonic() < deadline_s:
            time.sleep(0.02)
        return len(self.living) == count

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


def _is_running(pid: int) -> bool:
    try:
        return supervisor_stand_in.__file__ in psutil.Process(pid).cmdline()
    except psutil.NoSuchProcess:
        return False
