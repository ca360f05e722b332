"""`whitedwarf serve` as a process that answers from a script, by a scripted engine or the bundled model."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

from clients import dictated
from clients.agents import PATIENCE_S
from whitedwarf.prompt.special import SpecialToken

_ADDRESS = re.compile(r"served at (http://\S+:(\d+))")
_FACT = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|\S+)')
_SPECIAL = re.compile(f"({SpecialToken.THINK_CLOSE}|{SpecialToken.DSML})")


def whole(answer: str, **line: Any) -> dict[str, Any]:
    """A script's line with text in whole pieces, so that its ids are those that it has when it comes back."""
    pieces = [part for part in _SPECIAL.split(answer) if part]
    return {"pieces": [{"special": part} if _SPECIAL.fullmatch(part) else part for part in pieces], **line}


def letter_by_letter(answer: str) -> dict[str, Any]:
    """The same text in ids that no tokenizer would choose for it."""
    pieces = [part for part in _SPECIAL.split(answer) if part]
    spelt = [[{"special": part}] if _SPECIAL.fullmatch(part) else list(part) for part in pieces]
    return {"pieces": [piece for part in spelt for piece in part]}


@dataclass(frozen=True, slots=True)
class Request:
    """What the server's log says of a request that has ended."""

    dialect: str
    end: str
    prompt: int
    cached: int
    generated: int
    reuse: str

    @property
    def computed(self) -> int:
        """Tokens of the prompt that were not known."""
        return self.prompt - self.cached

    @property
    def known_after(self) -> int:
        """Tokens that a later prompt need not compute again; the last one was drawn, but not run."""
        return self.prompt + self.generated - 1


@dataclass
class ServerProcess:
    """A server that can be ended and started again at the same address, going on with the script's next line."""

    folder: Path
    lines: Sequence[dict[str, Any]]
    flags: Sequence[str]
    is_scripted: bool
    url: str = ""
    _port: str = "0"
    _process: "subprocess.Popen[bytes] | None" = None
    _answered: int = 0
    _log: Path = field(init=False)

    def __post_init__(self) -> None:
        self._log = self.folder / "server.log"
        self._log.touch()

    def start(self) -> None:
        """Returns when it answers."""
        assert self._process is None
        before = len(self.log)
        script = self.folder / "script.jsonl"
        script.write_text("".join(json.dumps(line) + "\n" for line in self.lines[self._answered :]))
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                self._command(script), stderr=log, env=os.environ | {"PYTHONUTF8": "1"}, start_new_session=True
            )
        self.url, self._port = self._address(before)
        httpx2.get(f"{self.url}/health", timeout=PATIENCE_S)  # it listens a little before it heeds signals

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Send it a signal and wait."""
        assert self._process is not None
        self._answered = len(self.requests)
        self._process.send_signal(how)
        code = self._process.wait(PATIENCE_S)
        self._process = None
        assert code == (0 if how is signal.SIGTERM else -how), self.log[-2000:]

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def requests(self) -> list[Request]:
        """Those that have ended, of all lives of this server."""
        lines = [line for line in self.log.splitlines() if " request_ended " in line]
        return [_request(dict(_FACT.findall(line))) for line in lines]

    def wait_for_requests(self, count: int) -> list[Request]:
        """The log is a little later than the client, who has read the answer already."""
        deadline_s = time.monotonic() + PATIENCE_S
        while len(self.requests) < count:
            assert time.monotonic() < deadline_s, self.log[-2000:]
            time.sleep(0.02)
        return self.requests

    @property
    def last(self) -> dict[str, Any]:
        """With a scripted engine: the last request as it came there."""
        found: dict[str, Any] = httpx2.get(f"{self.url}/debug/last", timeout=PATIENCE_S).json()
        return found

    def _command(self, script: Path) -> list[str]:
        flags = [*self.flags, "--port", self._port]
        if self.is_scripted:
            return [sys.executable, "-m", "whitedwarf", "serve", *flags, "--script", str(script)]
        return [sys.executable, dictated.__file__, str(script), "serve", *flags]

    def _address(self, before: int) -> tuple[str, str]:
        assert self._process is not None
        deadline_s = time.monotonic() + PATIENCE_S
        while self._process.poll() is None and time.monotonic() < deadline_s:
            found = _ADDRESS.search(self.log, before)
            if found is not None:
                return found[1], found[2]
            time.sleep(0.02)
        raise AssertionError(f"the server ended before it listened: {self.log}")


@contextmanager
def serving(
    folder: Path, lines: Sequence[dict[str, Any]], *flags: str, is_scripted: bool = True
) -> Iterator[ServerProcess]:
    """A running server; ended in the end, if it still runs."""
    folder.mkdir(parents=True, exist_ok=True)
    server = ServerProcess(folder, lines, flags, is_scripted)
    try:
        server.start()
        yield server
    finally:
        if server._process is not None:
            server.end()


def _request(facts: dict[str, str]) -> Request:
    return Request(
        facts["dialect"],
        facts["end"],
        int(facts["prompt"]),
        int(facts["cached"]),
        int(facts["generated"]),
        facts.get("reuse", ""),
    )
