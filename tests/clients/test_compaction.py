"""An agent whose context is nearly full has it summed up by the model, and goes on from there."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clients.agents import CLAUDE, CODEX, PI, Agent, settle
from clients.server_process import ServerProcess, serving, whole

pytestmark = [pytest.mark.clients, pytest.mark.slow]

SUMMARY = "We look for a star, and one was seen."
FOUND = "The star is found."
READ_S = 0.3


@pytest.mark.parametrize(
    ("agent", "small_context", "asks"),
    [
        (CODEX, ("model_context_window = 100000", "model_context_window = 15500"), "CONTEXT CHECKPOINT COMPACTION"),
        (
            CLAUDE,
            ("MAX_CONTEXT_TOKENS=100000", "MAX_CONTEXT_TOKENS=33000"),
            "an <analysis> block followed by",
        ),
    ],
    ids=["codex", "claude"],
)
def test_an_agent_compacts_before_it_goes_on(
    agent: Agent,
    small_context: tuple[str, str],
    asks: str,
    clients: Path,
    have: Callable[[Agent], None],
    tmp_path: Path,
) -> None:
    have(agent)
    with serving(tmp_path, [_call(agent), _sums_up(), _final()], "--ctx", "100000") as server, Watch(server) as prompts:
        home = settle(agent, clients, tmp_path, server.url, small_context)
        printed = home.run("Find the star.")
        first, compaction, last = server.wait_for_requests(3)
    assert FOUND in printed
    assert asks in prompts[2]
    assert "star-42" in prompts[2]
    assert SUMMARY in prompts[3]
    for request in (first, compaction, last):
        print(f"{agent.name}: {request.prompt} of which {request.cached} known")
    assert compaction.computed < 3_000  # the history is known: only what is asked, and a result, are new
    if agent is CLAUDE:  # others send it without their tools, which stand before it
        assert compaction.cached >= first.known_after


def test_pi_compacts_after_its_answer(clients: Path, have: Callable[[Agent], None], tmp_path: Path) -> None:
    have(PI)
    answers = [_call(PI), _final(), _sums_up(), _final()]
    small_context = (
        ('"contextWindow": 100000', '"contextWindow": 18000'),
        ('"deepseek-v4-flash"}', '"deepseek-v4-flash", "compaction": {"keepRecentTokens": 1}}'),
    )
    with serving(tmp_path, answers, "--ctx", "100000") as server, Watch(server) as prompts:
        home = settle(PI, clients, tmp_path, server.url, *small_context)
        assert FOUND in home.run("Find the star.")
        assert FOUND in home.run("Where is it?", '--continue "$PROMPT"')
        requests = server.wait_for_requests(4)
    assert "Find the star." in prompts[3]
    assert "the kept suffix" in prompts[3]
    assert SUMMARY in prompts[4]
    assert prompts[4].count("Where is it?") == 1
    for request in requests:
        print(f"pi: {request.prompt} of which {request.cached} known")


def _call(agent: Agent) -> dict[str, Any]:
    return whole(f"I look.</think>Looking.{agent.call('echo star-$((6*7))')}", prefill_s=READ_S)


def _sums_up() -> dict[str, Any]:
    return whole(f"To sum up.</think><analysis>Short.</analysis>\n<summary>{SUMMARY}</summary>", prefill_s=READ_S)


def _final() -> dict[str, Any]:
    return whole(f"Now I know.</think>{FOUND}", prefill_s=READ_S)


class Watch:
    """The prompts that come while it is held, by their number, as long as each is read for a while."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self._is_over = threading.Event()
        self._prompts: dict[int, str] = {}
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> dict[int, str]:
        self._thread.start()
        return self._prompts

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._is_over.wait(0.1):
            last = self._server.last
            if last["number"]:
                self._prompts[last["number"]] = last["prompt"]
