"""The screen in a real terminal: tmux types, and reads what is to be seen."""

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import agent.tui.terminal_app as terminal_app
import whitedwarf

TMUX = shutil.which("tmux")
PATIENCE_S = 60
pytestmark = pytest.mark.skipif(TMUX is None, reason="needs tmux (Debian: apt install tmux)")


class Terminal:
    """A tmux server of its own, with one window."""

    def __init__(self, folder: Path, columns: int, rows: int) -> None:
        self.heard = folder / "heard"
        self._socket = folder / "tmux"
        python = [sys.executable, terminal_app.__file__, str(self.heard)]
        paths = [Path(whitedwarf.__file__).parents[1], Path(terminal_app.__file__).parents[2]]
        path = os.pathsep.join(map(str, paths))
        line = f"COLUMNS=70 LINES=20 PYTHONPATH={shlex.quote(path)} {shlex.join(python)}; echo left with $?; exec cat"
        size = ("-x", str(columns), "-y", str(rows))
        self._tmux("-f", "/dev/null", "new-session", "-d", *size, "sh", "-c", line)

    def keys(self, *names: str) -> None:
        self._tmux("send-keys", *names)

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-l", text)

    def paste(self, text: str) -> None:
        subprocess.run(self._command("load-buffer", "-"), input=text, text=True, check=True)
        self._tmux("paste-buffer", "-p", "-r")

    def resize(self, columns: int, rows: int) -> None:
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def screen(self) -> str:
        return self._tmux("capture-pane", "-p")

    def shows(self, *words: str) -> str:
        until_s = time.monotonic() + PATIENCE_S
        while True:
            screen = self.screen()
            if all(word in screen for word in words):
                return screen
            assert time.monotonic() < until_s, f"expected {words}, the terminal shows:\n{screen}"
            time.sleep(0.1)

    def close(self) -> None:
        subprocess.run(self._command("kill-server"), check=False, capture_output=True)

    def _tmux(self, *words: str) -> str:
        return subprocess.run(self._command(*words), check=True, capture_output=True, text=True).stdout

    def _command(self, *words: str) -> list[str]:
        assert TMUX is not None
        return [TMUX, "-S", str(self._socket), *words]


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    opened = Terminal(tmp_path, 80, 24)
    try:
        yield opened
    finally:
        opened.close()


def test_a_conversation_in_a_terminal(terminal: Terminal) -> None:
    terminal.shows("whitedwarf agent", "ready")
    terminal.type("hello 日本 ✓")
    terminal.keys("M-Enter")
    terminal.type("second line")
    terminal.keys("C-j")
    terminal.type("third")
    terminal.keys("Enter")
    screen = terminal.shows("you said: hello 日本 ✓", "second line", "ready")
    assert "12 tests" in screen or "Names in other scripts" in screen
    terminal.type("hold")
    terminal.keys("Enter")
    terminal.shows("holding on", "answering")
    terminal.type("later")
    terminal.keys("Enter")
    terminal.shows("queued 1: later")
    terminal.keys("C-x")
    terminal.shows("› later")
    terminal.keys("Enter")
    terminal.shows("queued 1: later")
    terminal.keys("Escape")
    terminal.shows("you said: later", "ready")
    terminal.resize(50, 14)
    terminal.shows("you said: later", "ready")
    terminal.resize(120, 40)
    terminal.shows("options.py knows", "you said: later", "ready")
    terminal.keys("C-d")
    terminal.shows("left with 0")
    assert terminal.heard.read_text(encoding="utf-8") == "hello 日本 ✓\nsecond line\nthird\n---\nhold\n---\nlater"


def test_a_question_a_paste_and_ctrl_c_in_a_terminal(terminal: Terminal) -> None:
    terminal.shows("ready")
    terminal.paste("ask me\nin two lines")
    terminal.shows("› ask me", "in two lines")
    terminal.keys("Enter")
    terminal.shows("Allow bash (run)?", " make", "waiting for your answer")
    time.sleep(0.7)
    terminal.keys("y")
    terminal.shows("allowed", "ready")
    terminal.type("crash")
    terminal.keys("Enter")
    terminal.shows("Error: the model is gone", "ready")
    terminal.type("draft")
    terminal.keys("C-c")
    terminal.shows("Ctrl+D leaves")
    terminal.keys("C-c")
    terminal.shows("Ctrl+C again leaves")
    terminal.keys("C-c")
    terminal.shows("left with 0")


def test_a_terminal_that_goes_away_ends_the_agent(terminal: Terminal) -> None:
    terminal.shows("ready")
    terminal.type("hold")
    terminal.keys("Enter")
    terminal.shows("holding on")
    terminal.close()
    until_s = time.monotonic() + PATIENCE_S
    while not terminal.heard.exists():  # written after the agent was closed
        assert time.monotonic() < until_s, "the program goes on without a terminal"
        time.sleep(0.1)
