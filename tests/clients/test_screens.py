"""An agent as people use it: on a terminal."""

from collections.abc import Callable
from pathlib import Path

import pexpect
import pytest

from clients.agents import PATIENCE_S, PI, Agent, settle
from clients.server_process import serving, whole

pytestmark = [pytest.mark.clients, pytest.mark.slow]


def test_pi_answers_on_its_screen_and_stops_at_a_key(
    clients: Path, have: Callable[[Agent], None], tmp_path: Path
) -> None:
    have(PI)
    found = whole(f"I look.</think>Looking.{PI.call('echo star-$((6*7)) | tee proof.txt')}")
    answers = [
        found,
        whole("Now I know.</think>The star is found."),
        {"pieces": ["Hm", *[" hm"] * 2000], "delay_ms": 50},
    ]
    with serving(tmp_path, answers, "--ctx", "100000", "--parallel", "1") as server:
        home = settle(PI, clients, tmp_path, server.url)
        script = home.script.replace('-p "Find the star." </dev/null', "")
        screen = pexpect.spawn(
            "bash", ["-c", script], cwd=str(home.work), env=home.environment, dimensions=(40, 110), encoding="utf-8"
        )
        try:
            screen.expect("deepseek-v4-flash", timeout=PATIENCE_S)  # the line at the bottom
            screen.send("Find the star.")
            screen.send("\r")
            screen.expect("The star is found", timeout=PATIENCE_S)
            assert (home.work / "proof.txt").read_text() == "star-42\n"
            screen.send("And another one.")
            screen.send("\r")
            screen.expect("hm hm", timeout=PATIENCE_S)
            screen.send("\x1b")
            first, second, third = server.wait_for_requests(3)
        finally:
            screen.close(force=True)
    assert second.cached >= first.known_after
    assert third.end == "cancelled"
    assert third.cached >= second.known_after
