"""Real coding agents against `serve --script`: a tool call, its result sent back, the answer printed, nothing re-read.

$WHITEDWARF_CLIENTS names the folder of the installed clients. Without it pi and codex are installed by npm into a
temporary folder; claude and opencode run only where they are installed already.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from clients.agents import CLAUDE, CODEX, CONTEXT_LENGTH, OPENCODE, PI, Agent, environment
from fakes.scripted_server import calls
from whitedwarf.prompt.special import SpecialToken

pytestmark = [pytest.mark.clients, pytest.mark.slow]

PATIENCE_S = 60.0
INSTALLED_BY_DEFAULT = (PI, CODEX)
LONG_PROMPT = "Find the star. " + "The sky has many stars. " * 4500  # one argument may have 128 KiB
LONG_TOKENS = 25_000
_SPECIAL = re.compile(f"({SpecialToken.THINK_CLOSE}|{SpecialToken.DSML})")
_ADDRESS = re.compile(r"served at (http://\S+)")


@pytest.fixture(scope="session")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the clients."""
    named = os.environ.get("WHITEDWARF_CLIENTS")
    return Path(named) if named else tmp_path_factory.mktemp("clients")


@pytest.fixture(scope="session")
def failures() -> dict[str, str]:
    """Why a client could not be installed: npm that does not answer is asked once, not for every test."""
    return {}


@pytest.mark.parametrize("prompt", ["Find the star.", LONG_PROMPT], ids=["short", "long"])
@pytest.mark.parametrize("agent", [PI, CODEX, CLAUDE, OPENCODE], ids=lambda agent: agent.name)
def test_an_agent_runs_a_tool_and_reads_nothing_twice(
    agent: Agent, prompt: str, clients: Path, failures: dict[str, str], tmp_path: Path
) -> None:
    _have(agent, clients, failures)
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    home.mkdir()
    script = tmp_path / "script.jsonl"
    script.write_text("".join(json.dumps(_line(answer)) + "\n" for answer in _answers(agent)))
    with _served(script, tmp_path / "log") as url:
        settings = agent.configure(home, url)
        ended = subprocess.run(
            agent.command(clients, prompt),
            cwd=work,
            env=environment(home, settings),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr[-2000:]
        last = httpx2.get(f"{url}/debug/last", timeout=PATIENCE_S).json()
    assert (work / "proof.txt").read_text() == "star-42\n"
    assert "The star is found." in ended.stdout
    assert last["number"] == 2
    assert "star-42" in last["prompt"]
    first_prompt, first_generated = _first_request((tmp_path / "log").read_text())
    assert last["reused_tokens"] >= first_prompt + first_generated - 1
    if prompt == LONG_PROMPT:
        assert first_prompt >= LONG_TOKENS


def _have(agent: Agent, clients: Path, failures: dict[str, str]) -> None:
    """Install a client if that is ours to do; skip the test where it is not there."""
    if failures:  # of whichever client: it is the same npm
        pytest.skip(f"{agent.name} cannot be installed: {'; '.join(failures.values())}")
    if agent.program(clients).exists():
        return
    if "WHITEDWARF_CLIENTS" in os.environ or agent not in INSTALLED_BY_DEFAULT:
        pytest.skip(f"{agent.name} is not installed under $WHITEDWARF_CLIENTS (docs/clients.md)")
    command = ["npm", "install", "--prefix", str(clients / agent.name), "--no-audit", "--no-fund", agent.package]
    try:
        subprocess.run(command, capture_output=True, text=True, timeout=2 * PATIENCE_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        failures[agent.name] = str(error)
        pytest.skip(f"{agent.name} cannot be installed: {error}")


def _answers(agent: Agent) -> tuple[str, str]:
    arguments = {agent.argument: "echo star-$((6*7)) | tee proof.txt"}
    if agent in (CLAUDE, OPENCODE):
        arguments["description"] = "Prove it"
    call = calls(agent.tool, **arguments)
    return f"I look.</think>Looking.{call}", "Now I know.</think>The star is found."


def _line(answer: str) -> dict[str, Any]:
    """Text in whole pieces, so that its ids are those that it has when it comes back."""
    pieces = [part for part in _SPECIAL.split(answer) if part]
    return {"pieces": [{"special": part} if _SPECIAL.fullmatch(part) else part for part in pieces]}


def _first_request(log: str) -> tuple[int, int]:
    """Tokens of its prompt and of its answer, from the server's log."""
    found = re.search(r"request_ended .* prompt=(\d+) .* generated=(\d+)", log)
    assert found is not None, log
    return int(found[1]), int(found[2])


@contextmanager
def _served(script: Path, log: Path) -> Iterator[str]:
    flags = ("--script", str(script), "--port", "0", "--ctx", str(CONTEXT_LENGTH))
    command = [sys.executable, "-m", "whitedwarf", "serve", *flags]
    with (
        log.open("w") as written,
        subprocess.Popen(command, stderr=written, env=os.environ | {"PYTHONUTF8": "1"}) as it,
    ):
        try:
            yield _address(it, log)
        finally:
            it.terminate()
            it.wait(PATIENCE_S)


def _address(process: "subprocess.Popen[bytes]", log: Path) -> str:
    while process.poll() is None:
        found = _ADDRESS.search(log.read_text())
        if found is not None:
            return found[1]
    pytest.fail(f"the server ended before it listened: {log.read_text()}")
