"""bash and its jobs, through the whole agent."""

import re
import time
from pathlib import Path

import psutil
import pytest

from agent.scenarios.play import Play, Scene, saw
from agent.scenarios.replies import call, calls, says
from whitedwarf.agent.events import AnswerEnd, ToolOutput
from whitedwarf.agent.tool import Arguments, Running

DONE = says("Done.")


def test_a_command_runs_in_the_workspace_and_is_shown_while_it_does(play: Play) -> None:
    with play(calls(call("bash", command="cat a.txt; echo $((6 * 7))")), DONE, files={"a.txt": "hello\n"}) as scene:
        scene.user("Run it.")
        assert re.fullmatch(
            r"job 1 \(pid \d+\): done after [\d.]+ s\nexit_status: 0\noutput:\nhello\n42", scene.results[0]
        )
        assert "".join(event.text for event in scene.of(ToolOutput)) == "hello\n42\n"


def test_a_command_that_fails_is_no_error_of_the_tool(play: Play) -> None:
    with play(calls(call("bash", command="echo oh; exit 3")), DONE) as scene:
        scene.user("Run it.")
        assert "exit_status: 3\noutput:\noh" in scene.results[0]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({}, "the parameter command is missing; it is required"),
        ({"command": "  "}, "command is empty; give the command to run"),
        ({"command": "echo \0"}, "the command holds a NUL character"),
        ({"command": "ls", "timeout_sec": 0}, "expected timeout_sec to be a number from 1 to 86400, got 0"),
        ({"command": "ls", "refresh_sec": "soon"}, "expected refresh_sec to be a number from 1 to 3600, got 'soon'"),
        (
            {"command": ":" + " demonstration" * 9_300 + "é" * 700},
            "the command cannot be started (Argument list too long)",
        ),
    ],
    ids=["missing", "empty", "nul", "timeout", "refresh", "long"],
)
def test_each_error_of_bash_is_told(play_v4: Play, arguments: dict[str, object], error: str) -> None:
    script = [calls(call("bash", **arguments)), DONE]  # type: ignore[arg-type]
    with play_v4(*script, context_length=32_768) as scene:
        scene.user("Run it.")
        assert scene.results[0].startswith(f"Tool error: {error}")


def test_a_job_is_started_looked_at_and_ended(play: Play) -> None:
    script = [
        calls(call("bash", command="echo begun; sleep 100", refresh_sec=1)),
        calls(call("bash_status", job="1")),
        calls(call("bash_stop", job="1")),
        calls(call("bash_status", job="1")),
        DONE,
    ]
    with play(*script) as scene:
        scene.user("Run it.")
        begun, status, stopped, forgotten = scene.results
        assert "running for 1." in begun
        assert "bash_status with job 1 looks again" in begun
        assert "it ends:\nbegun" in status
        assert "stopped after" in stopped
        assert forgotten == "Tool error: there is no job '1'; none is running"


@pytest.mark.parametrize("tool", ["bash_status", "bash_stop"])
@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"job": "7"}, "there is no job '7'; none is running"),
        ({"job": ""}, "there is no job ''; none is running"),
        ({"job": "", "pid": "1"}, "there is no job '1'; none is running"),
        ({}, "there is no job ''; none is running"),
    ],
)
def test_a_job_that_is_not_there_is_an_error(play_v4: Play, tool: str, arguments: dict[str, str], error: str) -> None:
    with play_v4(calls(call(tool, **arguments)), DONE) as scene:
        scene.user("Look.")
        assert scene.results == [f"Tool error: {error}"]


def test_a_job_of_another_pid_is_not_ended(play_v4: Play) -> None:
    script = [calls(call("bash", command="sleep 100", refresh_sec=1)), calls(call("bash_stop", job="1", pid="1")), DONE]
    with play_v4(*script) as scene:
        scene.user("Run it, and end it.")
        assert re.fullmatch(r"Tool error: job 1 has pid \d+, not 1; give one of the two", scene.results[1])


def test_a_command_that_takes_too_long_is_killed_with_its_children(play_v4: Play) -> None:
    command = "sh -c 'echo $$ > pid; sleep 100' & wait"
    with play_v4(calls(call("bash", command=command, timeout_sec=1)), DONE) as scene:
        scene.user("Run it.")
        assert "timed out after" in scene.results[0]
        assert "exit_status: 137 (ended by signal 9)" in scene.results[0]
        assert _is_gone(int(scene.file("pid")))


def test_what_a_session_leaves_running_ends_with_it(play_v4: Play) -> None:
    command = "setsid sh -c 'echo $$ > pid; sleep 100' & sleep 0.3; echo left"
    with play_v4(calls(call("bash", command=command)), DONE) as scene:
        scene.user("Run it.")
        pid = int(scene.file("pid"))
        assert psutil.pid_exists(pid)
    assert _is_gone(pid)


def test_long_output_is_kept_in_a_file_that_can_be_read_even_in_a_strict_workspace(play_v4: Play) -> None:
    with play_v4(calls(call("bash", command="seq 1 1000")), says("More."), DONE, is_strict=True) as scene:
        scene.user("Count.")
        assert "it begins:\n1\n2\n" in scene.results[0]
        found = re.search(r"output: (\S+) \(1000 lines, 3893 bytes\)", scene.results[0])
        assert found is not None
        _reads_in_a_new_scene(scene, found[1])


def _reads_in_a_new_scene(scene: Scene, path: str) -> None:
    """The tool itself, because a script is written before the path is known."""
    read = scene.toolbox.tools["read"].run(Arguments({"path": path, "start_line": 1000}), Running())
    assert read.text.endswith("1000 1000")


def test_output_that_is_no_text_is_shown_as_far_as_it_is(play: Play) -> None:
    with play(calls(call("bash", command="printf 'a\\377\\000\\033[31mb\\n'")), DONE) as scene:
        scene.user("Run it.")
        assert scene.turns == [AnswerEnd.DONE]


def test_a_command_that_wants_input_gets_none(play_v4: Play) -> None:
    with play_v4(calls(call("bash", command="cat; read x; echo end$x")), DONE) as scene:
        scene.user("Run it.")
        assert "output:\nend" in scene.results[0]


def test_esc_ends_the_waiting_but_not_the_job(play: Play) -> None:
    script = [calls(call("bash", command="echo go; sleep 100")), calls(call("bash_stop", job="1")), DONE]
    with play(*script) as scene:
        scene.interrupts_when(saw(ToolOutput, text="go"))
        scene.user("Run it.")
        assert scene.turns == [AnswerEnd.INTERRUPTED]
        assert "the user interrupted the waiting" in scene.results[0]
        scene.user("End it.")
        assert "stopped after" in scene.results[1]
        assert "the user interrupted the waiting" in scene.told(1)


def _is_gone(pid: int) -> bool:
    for _ in range(100):
        if not psutil.pid_exists(pid) or Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":
            return True
        time.sleep(0.02)
    return False
