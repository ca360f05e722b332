"""An agent that is interrupted frees its place at once, and loses nothing: its next run begins where that one was."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from clients.agents import AGENTS, PATIENCE_S, PI, Agent, settle, stop
from clients.server_process import Request, ServerProcess, serving, whole
from fakes.scripted_server import eventually

pytestmark = [pytest.mark.clients, pytest.mark.slow]

NOTICED_S = 1.5
"""The agents close their sockets within 0.4 s (spec/clients.md 4); the rest is for a busy machine."""
FOUND = "The star is found."
ONE_PLACE = ("--parallel", "1")


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
def test_an_interrupt_while_an_answer_is_told_frees_the_place(
    agent: Agent, clients: Path, have: Callable[[Agent], None], tmp_path: Path
) -> None:
    have(agent)
    words = ["I", *[" think"] * 2000]
    slow, then = {"pieces": words, "delay_ms": 50}, whole(f"Now I know.</think>{FOUND}")
    with serving(tmp_path, [slow, then], "--ctx", "100000", *ONE_PLACE) as server:
        home = settle(agent, clients, tmp_path, server.url)
        with home.start("Find the star.") as run:
            assert eventually(lambda: len(server.last.get("answer_ids", ())) > 20, PATIENCE_S)
            left, noticed_s = _interrupted(run, server)
        printed = home.run("Find the star.")
        again = server.wait_for_requests(2)[1]
    print(f"{agent.name}: noticed after {noticed_s:.2f} s; then {again.prompt} of which {again.cached} known")
    assert left.end == "cancelled"
    assert noticed_s < NOTICED_S
    assert FOUND in printed
    assert again.cached >= left.prompt - 200


def test_an_interrupt_while_the_prompt_is_read_keeps_what_was_read(
    clients: Path, have: Callable[[Agent], None], tmp_path: Path
) -> None:
    have(PI)
    answer = whole(f"Now I know.</think>{FOUND}")
    with serving(tmp_path, [answer], *ONE_PLACE, is_scripted=False) as server:
        home = settle(PI, clients, tmp_path, server.url)
        with home.start("The sky has many stars. " * 3000) as run:
            assert eventually(lambda: _runs_one(server), PATIENCE_S)
            time.sleep(2)  # it needs about seven times as long
            left, noticed_s = _interrupted(run, server)
        printed = home.run("Find the star.")
        again = server.wait_for_requests(2)[1]
    print(f"noticed after {noticed_s:.2f} s; then {again.prompt} of which {again.cached} known ({again.reuse})")
    assert (left.end, left.generated) == ("cancelled", 0)
    assert noticed_s < NOTICED_S  # a chunk of 512 tokens takes 0.3 s
    assert FOUND in printed
    assert again.computed < 200  # all but what is asked is the same


def _interrupted(run: "subprocess.Popen[str]", server: ServerProcess) -> tuple[Request, float]:
    """Press Ctrl+C -> the request as the server saw it end, and after how many seconds."""
    began_s = time.monotonic()
    os.killpg(run.pid, signal.SIGINT)
    try:
        (request,) = server.wait_for_requests(1)
        noticed_s = time.monotonic() - began_s
        run.communicate(timeout=PATIENCE_S)
    finally:
        stop(run)
    return request, noticed_s


def _runs_one(server: ServerProcess) -> bool:
    metrics = httpx2.get(f"{server.url}/metrics", timeout=PATIENCE_S).text
    return re.search(r"^whitedwarf_requests_active 1\.0$", metrics, re.MULTILINE) is not None
