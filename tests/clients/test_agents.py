"""Real coding agents against `serve --script`: a tool call, its result sent back, the answer printed, nothing re-read.

$WHITEDWARF_CLIENTS names the folder of the installed clients. Without it pi and codex are installed by npm into a
temporary folder; claude and opencode run only where they are installed already.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from clients.agents import AGENTS, ALL, Agent, settle
from clients.guide import serve_flags
from clients.server_process import serving, whole

pytestmark = [pytest.mark.clients, pytest.mark.slow]

SHORT_PROMPT = "Find the star."
LONG_PROMPT = "Find the star. " + "The sky has many stars. " * 2800
LONG_TOKENS = 25_000


@pytest.mark.parametrize(
    ("agent", "prompt"),
    [
        *(pytest.param(agent, SHORT_PROMPT, id=f"{agent.name}-short") for agent in ALL),
        *(pytest.param(agent, LONG_PROMPT, id=f"{agent.name}-long") for agent in AGENTS),
    ],
)
def test_an_agent_runs_a_tool_and_reads_nothing_twice(
    agent: Agent, prompt: str, clients: Path, have: Callable[[Agent], None], tmp_path: Path
) -> None:
    have(agent)
    answers = [
        whole(f"I look.</think>Looking.{agent.call('echo star-$((6*7)) | tee proof.txt')}"),
        whole("Now I know.</think>The star is found."),
    ]
    with serving(tmp_path, answers, *serve_flags()) as server:
        home = settle(agent, clients, tmp_path, server.url)
        printed = home.run(prompt)
        first, second = server.wait_for_requests(2)
        last = server.last
    assert (home.work / "proof.txt").read_text() == "star-42\n"
    assert "The star is found." in printed
    assert last["number"] == 2
    assert "star-42" in last["prompt"]
    print(f"{agent.name}: {first.prompt} + {first.generated}, then {second.prompt}, of which {second.cached} known")
    assert second.cached >= first.known_after
    if prompt == LONG_PROMPT:
        assert first.prompt >= LONG_TOKENS
