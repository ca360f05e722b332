"""kill -9 at every phase: what was done before is there again, at most the turn in hand is lost, and it goes on."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from agent.scenarios.invariants import PATIENCE_S
from agent.scenarios.play import THINKING, Play
from agent.scenarios.replies import THOUGHT_ENDS, says

ROOT = Path(__file__).resolve().parents[3]
OK = says("Hm.", THOUGHT_ENDS, "Here I am.")


def killed(folder: Path, version: str, plot: str, when: str, count: int = 1) -> str:
    """Run a plot, and kill it when something has happened so often -> the id of its session."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}"}
    command = [sys.executable, "-m", "agent.scenarios.killed", str(folder), version, plot]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        for line in process.stdout:
            event, session_id = line.split()
            count -= event.startswith(when)
            if not count:
                break
        children = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGKILL)
    for child in children:  # an agent that is killed cannot end them
        child.kill()
    psutil.wait_procs(children, PATIENCE_S)
    assert not count, "the plot went otherwise"
    return session_id


PHASES = [
    ("reading", "Reading", 1),
    ("thinking", "ReasoningDelta", 3),
    ("speaking", "TextDelta", 3),
    ("calling", "ParameterText", 4),
    ("running", "ToolBegan", 1),
    ("between", "ToolEnded", 1),
    ("compacting", "Compacting-summary-5", 1),
]


@pytest.mark.slow
@pytest.mark.parametrize(("plot", "when", "count"), PHASES, ids=[phase for phase, *_ in PHASES])
def test_whatever_it_was_doing_the_session_goes_on(play: Play, plot: str, when: str, count: int) -> None:
    session_id = killed(play.folder, play.version, plot, when, count)
    with play(OK, OK, keeps=True, settings=THINKING) as scene:
        text = scene.obeys(f"/switch {session_id}")
        assert "The first is done." in text
        scene.user("Are you there?", "Really?")
        assert "<think>Hm.</think>The first is done.<｜end▁of▁sentence｜>" in scene.told()
        assert scene.told().count("Here I am.") == 1
        assert ("The second thing." in scene.told()) is (plot != "compacting")
        assert not scene.path("a.txt").exists()


@pytest.mark.slow
def test_it_may_be_killed_again_and_again(play_v4: Play) -> None:
    session_id = killed(play_v4.folder, play_v4.version, "speaking", "TextDelta", 3)
    with play_v4(OK, keeps=True, settings=THINKING) as scene:
        scene.obeys(f"/switch {session_id}")
        scene.user("Are you there?")
        kept = scene.dialogue.ids.tolist()
    for _ in range(2):
        killed(play_v4.folder, play_v4.version, "thinking", "ReasoningDelta", 2)
    with play_v4(OK, keeps=True, settings=THINKING) as scene:
        assert len(scene.obeys("/list").split("\n")) == 3
        scene.obeys(f"/switch {session_id}")
        assert scene.dialogue.ids.tolist() == kept
