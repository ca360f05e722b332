"""An agent whose context is nearly full has it summed up by the model, and goes on from there."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from clients.agents import CLAUDE, CODEX, PI, Agent, settle
from clients.server_process import ServerProcess, serving, whole

pytestmark = [pytest.mark.clients, pytest.mark.slow]

SUMMARY = "We look for a star, and one was seen."
FOUND = "The star is found."
SMALL_CONTEXTS = {  # in which the shortest prompt is too long already
    CODEX: ("model_context_window = 100000", "model_context_window = 15500"),
    CLAUDE: ("MAX_CONTEXT_TOKENS=100000", "MAX_CONTEXT_TOKENS=50000"),
    PI: ('"contextWindow": 100000', '"contextWindow": 18000'),
}


@pytest.mark.parametrize("agent", SMALL_CONTEXTS, ids=lambda agent: agent.name)
def test_an_agent_compacts_its_history(
    agent: Agent, clients: Path, have: Callable[[Agent], None], tmp_path: Path
) -> None:
    have(agent)
    call = whole(f"I look.</think>Looking.{agent.call('echo star-$((6*7))')}", prefill_s=0.4)
    sums_up = whole(f"To sum up.</think>{SUMMARY}", prefill_s=0.4)
    then = whole(f"Now I know.</think>{FOUND}", prefill_s=0.4)
    with serving(tmp_path, [call, sums_up, then], "--ctx", "100000") as server, Watch(server) as prompts:
        home = settle(agent, clients, tmp_path, server.url, SMALL_CONTEXTS[agent])
        printed = home.run("Find the star.")
        requests = server.wait_for_requests(2)
    print(printed)
    for number, request in enumerate(requests, 1):
        print(f"{agent.name}: {request.prompt} of which {request.cached} known", prompts.get(number, "")[-700:])
    assert FOUND in printed


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
