"""Real coding agents on the real engine: what is computed twice, also when the server is stopped or killed on the way.

The bundled model's answers are dictated (dictated.py): it would never call a tool. While an agent waits for its tool,
the server behind it is started anew, and the agent's next request comes to the new one. What is dictated is cut into
other ids, and numbers are written otherwise, than anybody would who writes it down again: it is known all the same.
Tokens are guessed ahead, by n-grams and by the model's block, which may change nothing of this.
"""

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from clients.agents import AGENTS, ALL, PATIENCE_S, PI, VARIANTS, Agent, Home, ended, settle, stop
from clients.server_process import Request, ServerProcess, letter_by_letter, serving, whole
from whitedwarf.weights.store import bundled_model

pytestmark = [pytest.mark.clients, pytest.mark.slow]

BLOCK = str(bundled_model().with_name("nano-mtp.gguf"))
CONTEXT = ("--ctx", "32768", "--draft", "auto", "--mtp", BLOCK)  # the model's own; no first prompt is above 26,000
LONG_TOKENS = 25_000
FILLER = "The sky has many stars. "  # 9 tokens
BARE_TOKENS = {"pi": 2_200, "codex": 14_300, "claude": 18_500, "opencode": 11_300}  # of a first prompt without filler
EXACT = 1
"""Of what was known before, the last token may be computed again: an answer needs its logits."""


def test_names_are_those_of_the_programs() -> None:
    assert BARE_TOKENS.keys() == {agent.program for agent in ALL}


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
def test_a_long_prompt_is_computed_once_whatever_becomes_of_the_server(
    agent: Agent, clients: Path, have: Callable[[Agent], None], tmp_path: Path
) -> None:
    have(agent)
    first = _run_through_restarts(agent, _long_prompt(agent), clients, tmp_path)
    assert first.prompt >= LONG_TOKENS


@pytest.mark.parametrize("agent", VARIANTS, ids=lambda agent: agent.name)
def test_other_interfaces_compute_nothing_twice_either(
    agent: Agent, clients: Path, have: Callable[[Agent], None], tmp_path: Path
) -> None:
    have(agent)
    _run_through_restarts(agent, "Find the star.", clients, tmp_path)


def test_what_a_killed_server_had_saved_is_not_computed_again(
    clients: Path, have: Callable[[Agent], None], tmp_path: Path
) -> None:
    have(PI)
    disk = ("--kv-disk-dir", str(tmp_path / "kv"))
    with serving(tmp_path, [_waiting_call(PI, "one"), _final()], *CONTEXT, *disk, is_scripted=False) as server:
        home = settle(PI, clients, tmp_path, server.url)
        with home.start("Find the star.") as run:
            try:
                _restart_during(home, server, "one", 1, signal.SIGKILL)
                printed = ended(run)
            finally:
                stop(run)
        first, second = server.wait_for_requests(2)
    assert "The star is found." in printed
    print(f"pi: {first.prompt}, killed, then {second.prompt} of which {second.cached} known ({second.reuse})")
    assert second.reuse == "disk"
    assert second.cached >= first.prompt - 100  # all before the question


def _run_through_restarts(agent: Agent, prompt: str, clients: Path, folder: Path) -> Request:
    """Three calls: the server goes on, is ended, is killed. Nothing known before may be computed again -> the first."""
    answers = [_call(agent, "one"), _waiting_call(agent, "two"), _waiting_call(agent, "three"), _final()]
    disk = ("--kv-disk-dir", str(folder / "kv"))
    with serving(folder, answers, *CONTEXT, *disk, is_scripted=False) as server:
        home = settle(agent, clients, folder, server.url)
        with home.start(prompt) as run:
            try:
                _restart_during(home, server, "two", 2, signal.SIGTERM)
                _restart_during(home, server, "three", 3, signal.SIGKILL)
                printed = ended(run)
            finally:
                stop(run)
        requests = server.wait_for_requests(4)
    assert "The star is found." in printed
    for name in ("one", "two", "three"):
        assert (home.work / f"{name}.txt").read_text() == f"{name}-42\n"
    for request in requests:
        print(f"{agent.name}: {request.prompt} of which {request.cached} known ({request.reuse})")
    first, in_memory, after_end, after_kill = requests
    assert in_memory.cached >= first.known_after - EXACT
    assert (after_end.reuse, after_kill.reuse) == ("disk", "disk")
    assert after_end.cached >= in_memory.known_after - EXACT
    assert after_kill.cached >= in_memory.known_after - EXACT  # what the killed server had found there
    return first


def _call(agent: Agent, name: str) -> dict[str, object]:
    return letter_by_letter(f"I look.</think>Looking.{_spelt(agent.call(_proof(name)))}")


def _waiting_call(agent: Agent, name: str) -> dict[str, object]:
    """A call that ends when somebody allows it."""
    wait = f"touch {name}.waits; until [ -e {name}.goes ]; do sleep 0.05; done"
    return letter_by_letter(f"I look again.</think>Looking again.{_spelt(agent.call(f'{wait}; {_proof(name)}'))}")


def _spelt(call: str) -> str:
    """Numbers as no client writes them when it sends the call back."""
    return call.replace('string="false">30000<', 'string="false">  30000<')


def _proof(name: str) -> str:
    return f"echo {name}-$((6*7)) | tee {name}.txt"


def _final() -> dict[str, object]:
    return whole("Now I know.</think>The star is found.")


def _long_prompt(agent: Agent) -> str:
    return "Find the star. " + FILLER * ((LONG_TOKENS + 500 - BARE_TOKENS[agent.program]) // 9)


def _restart_during(home: Home, server: ServerProcess, name: str, number: int, how: signal.Signals) -> None:
    """When the tool of answer `number` waits: end the server so, start it, and let the tool go on."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not (home.work / f"{name}.waits").exists():
        assert time.monotonic() < deadline_s, server.log[-2000:]
        time.sleep(0.05)
    server.wait_for_requests(number)  # the tool may begin before its answer has ended
    server.end(how)
    server.start()
    (home.work / f"{name}.goes").touch()
