"""An exam on a real terminal: the screen comes, keys work, and the terminal is left as it was."""

import io
import os
import re
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pexpect
import pytest

from whitedwarf.cli import eval_run
from whitedwarf.evals.trace_reader import read_trace_file

CASES = str(Path(__file__).parents[1] / "golden" / "evals" / "cases.jsonl")
COMMAND = ["-m", "whitedwarf", "eval", "--cases", CASES, "--temp", "1", "--seed", "5", "-n", "600"]
SLOWLY = ["--power", "20"]
PATIENCE_S = 60
ENTERS, LEAVES, SHOWS_CURSOR = "\x1b[?1049h", "\x1b[?1049l", "\x1b[?25h"
Start = Callable[..., "pexpect.spawn[str]"]


@pytest.fixture
def start(environment: dict[str, str], tmp_path: Path) -> Iterator[Start]:
    children: list[pexpect.spawn[str]] = []

    def start(*words: str, size: tuple[int, int] = (24, 100), term: str = "xterm-256color") -> "pexpect.spawn[str]":
        environment["TERM"] = term
        child = pexpect.spawn(
            sys.executable,
            [*COMMAND, *words],
            dimensions=size,
            encoding="utf-8",
            env=environment,
            cwd=str(tmp_path),
            timeout=PATIENCE_S,
        )
        children.append(child)
        return child

    yield start
    for child in children:
        child.close(force=True)


def end_of(child: "pexpect.spawn[str]") -> tuple[str, int | None]:
    """What came until the end, and the exit code."""
    child.expect(pexpect.EOF)
    out = child.before or ""
    child.close()
    return out, child.exitstatus


@pytest.mark.parametrize(("key", "code"), [("q", 1), ("\x03", 130), (signal.SIGTERM, 143)])
def test_however_it_ends_the_terminal_is_as_before_and_the_report_there(
    key: str | signal.Signals, code: int, start: Start, tmp_path: Path
) -> None:
    child = start("--trace", "trace", *SLOWLY)
    before = termios.tcgetattr(child.child_fd)
    child.expect_exact(ENTERS)
    child.expect("RUN")
    if isinstance(key, str):
        child.send(key)
    else:
        child.kill(key)
    child.expect_exact(LEAVES)
    child.expect_exact(SHOWS_CURSOR)
    child.expect(r"# state ")
    child.expect("STOP")
    assert termios.tcgetattr(child.child_fd) == before
    out, found = end_of(child)
    assert "Traceback" not in out
    assert found == code or (key == "q" and found == 0)
    trace = read_trace_file(tmp_path / "trace")
    assert trace.fault is None
    assert trace.summary is not None
    assert trace.cases[-1].facts["status"] == "STOPPED"


def test_keys_pause_and_choose(start: Start) -> None:
    child = start(*SLOWLY)
    child.expect("RUN")
    child.send("p")
    child.expect("PAUSED")
    child.send("p")
    child.send("\x1b[B\x1b[B\x1b[B")  # three down
    child.expect("gpqa/(sum|colour)")
    child.send("\r")
    time.sleep(1.0)
    child.send("q")
    out, _ = end_of(child)
    assert re.search(r"4 (STOP|PASS|FAIL) .* gpqa/colour", out)


def test_it_ends_by_itself_with_the_report(start: Start) -> None:
    child = start("--questions", "2", "--pause-ms", "50")
    child.expect_exact(ENTERS)
    child.expect_exact(LEAVES)
    out, code = end_of(child)
    assert re.search(r"passed \d of 2", out)
    assert "whitedwarf_eval" not in out  # the document is for scripts
    assert code in (0, 1)


@pytest.mark.parametrize(
    ("size", "term", "words"),
    [((17, 100), "xterm", []), ((24, 89), "xterm", []), ((24, 100), "dumb", []), ((24, 100), "xterm", ["--plain"])],
)
def test_a_small_or_dumb_terminal_and_plain_get_text(
    size: tuple[int, int], term: str, words: list[str], start: Start
) -> None:
    out, code = end_of(start("--questions", "1", *words, size=size, term=term))
    assert ENTERS not in out
    assert "--- 1/1 gpqa/freezing" in out
    assert ("\x1b[1m" in out) is (term != "dumb")
    assert code in (0, 1)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("parallel", ["1", "3"])
def test_plain_text_that_is_interrupted_has_its_report_and_trace(
    number: signal.Signals, code: int, parallel: str, environment: dict[str, str], tmp_path: Path
) -> None:
    words = [sys.executable, *COMMAND, *SLOWLY, "--plain", "--parallel", parallel, "--trace", "trace"]
    with subprocess.Popen(words, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as child:
        deadline_s = time.monotonic() + PATIENCE_S
        while not _is_answering(tmp_path) and time.monotonic() < deadline_s:
            time.sleep(0.05)
        time.sleep(1.0)
        os.kill(child.pid, number)
        out, _ = child.communicate(timeout=PATIENCE_S)
    assert child.returncode == code
    assert "# state " in out
    trace = read_trace_file(tmp_path / "trace")
    assert trace.fault is None
    assert trace.summary is not None
    assert 1 <= [part.facts["status"] for part in trace.cases].count("STOPPED") <= int(parallel)


def test_a_killed_exam_is_gone_on_with_and_comes_out_the_same(environment: dict[str, str], tmp_path: Path) -> None:
    def examine(*words: str) -> "subprocess.Popen[str]":
        command = [sys.executable, *COMMAND, "--plain", *words]
        return subprocess.Popen(command, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, text=True)

    with examine("--trace", "killed", *SLOWLY) as child:
        deadline_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline_s and not _has_a_case(tmp_path / "killed"):
            time.sleep(0.02)
        child.kill()
    killed = read_trace_file(tmp_path / "killed")
    assert killed.cases
    with examine("--resume-trace", "killed", "--json", "killed.json") as child:
        child.communicate(timeout=PATIENCE_S)
    with examine("--json", "whole.json", "--expect", "killed.json") as child:
        child.communicate(timeout=PATIENCE_S)
    assert child.returncode == 0
    assert [part.number for part in read_trace_file(tmp_path / "killed").cases] == [1, 2, 3, 4]


def _has_a_case(path: Path) -> bool:
    return path.exists() and b"MODEL_OUTPUT_END" in path.read_bytes()


@pytest.mark.parametrize("parallel", ["1", "2"])
def test_nobody_who_reads_is_no_traceback(parallel: str, environment: dict[str, str], tmp_path: Path) -> None:
    words = [sys.executable, *COMMAND, "--plain", "--parallel", parallel]
    with subprocess.Popen(
        words, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        child.stdout.close()
        assert child.stderr is not None
        err = child.stderr.read()
        assert child.wait(PATIENCE_S) == 1
    assert b"Traceback" not in err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_behind_the_output_is_one_line(environment: dict[str, str], tmp_path: Path) -> None:
    words = [sys.executable, *COMMAND, "--plain", "--trace", "trace"]
    with Path("/dev/full").open("w") as full:
        child = subprocess.run(
            words, env=environment, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert child.returncode == 1
    assert child.stderr.splitlines()[-1] == "whitedwarf: [Errno 28] No space left on device"
    assert read_trace_file(tmp_path / "trace").fault is None


def _is_answering(folder: Path) -> bool:
    path = folder / "trace"
    return path.exists() and path.stat().st_size > 0


@pytest.mark.parametrize("hidden", ["stdin", "stdout", "stderr"])
def test_the_screen_is_for_whom_all_of_it_is_a_terminal(monkeypatch: pytest.MonkeyPatch, hidden: str) -> None:
    class Stream(io.StringIO):
        def __init__(self, name: str) -> None:
            super().__init__()
            self.is_terminal = name != hidden

        def isatty(self) -> bool:
            return self.is_terminal

        def fileno(self) -> int:
            return 1

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("os.get_terminal_size", lambda *words: os.terminal_size((200, 60)))
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, Stream(name))
    assert not eval_run._has_screen()
    hidden = ""
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, Stream(name))
    assert eval_run._has_screen()
