import json
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pexpect
import pytest

Run = Callable[..., CompletedProcess[str]]


@pytest.fixture
def chat(environment: dict[str, str], home: Path) -> Iterator[Callable[..., "pexpect.spawn[str]"]]:
    children: list[pexpect.spawn[str]] = []

    def start(*arguments: str) -> "pexpect.spawn[str]":
        words = ["-m", "whitedwarf", "run", *arguments]
        child = pexpect.spawn(
            sys.executable,
            words,
            env={**environment, "HOME": str(home), "PROMPT_TOOLKIT_NO_CPR": "1"},
            encoding="utf-8",
            timeout=30,
        )
        child.setwinsize(40, 160)
        children.append(child)
        child.expect("leave")
        child.expect("wd>")
        return child

    yield start
    for child in children:
        child.close(force=True)


def leave(child: "pexpect.spawn[str]") -> None:
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0, child.before


def test_a_chat_on_a_terminal(chat: Callable[..., "pexpect.spawn[str]"], home: Path) -> None:
    child = chat("--nothink", "--temp", "0")
    child.send("What is the capital of France?\r")
    child.expect("The capital of France is Paris.")
    child.expect(r"generation: [0-9.]+ t/s \(16 and 7 tokens\)")
    child.expect("wd>")
    child.send("What is the capital of Italy?\r")
    child.expect("Rome.")
    child.expect(r"prefill: [0-9.]+ t/s.*\(1[0-9] and")  # only the new turn is read, not the chat
    child.expect("wd>")
    child.send("/nonsense\r")
    child.expect("unknown command /nonsense; /help lists them")
    child.send("/think-max\r")
    child.expect(r"thinking: high \(max needs a context of 393216, this is 32768\)")
    child.send("/nothink\r")
    child.expect("thinking: none")
    child.send("/think\r")
    child.expect("thinking: high")
    child.send("/help\r")
    child.expect("/read FILE")
    child.send("   \r")
    child.send("/ctx zero\r")
    child.expect("expected a number of tokens")
    child.send("/ctx 100000\r")
    child.expect("this model has a context of 32768")
    child.send("/ctx 512\r")
    child.expect("context: 512 tokens; the chat starts afresh")
    child.send("/power\r")
    child.expect("power: 100 %")
    child.send("/power 0\r")
    child.expect("expected a number of percent from 1 to 100")
    child.send("/power 50%\r")
    child.expect("power: 50 %")
    child.send("/quit\r")
    leave(child)
    history = home / ".whitedwarf_history"
    entries = [json.loads(line) for line in history.read_text().splitlines()]
    assert entries[0] == "What is the capital of France?"
    assert entries[2] == "/nonsense"
    assert entries[-1] == "/quit"
    assert "   " not in entries
    assert stat.S_IMODE(history.stat().st_mode) == 0o600


def test_ctrl_c_at_the_prompt_clears_the_line_and_ctrl_d_leaves(chat: Callable[..., "pexpect.spawn[str]"]) -> None:
    child = chat("--nothink", "--temp", "0")
    child.send("What is the capital")
    child.sendintr()
    child.expect("wd>")
    child.send("hello\r")
    child.expect("How can I help you today")
    child.expect("wd>")
    child.sendeof()
    leave(child)


def test_ctrl_c_while_answering_returns_to_the_prompt(chat: Callable[..., "pexpect.spawn[str]"], babbler: Path) -> None:
    child = chat("-m", str(babbler), "--nothink", "--seed", "1")
    child.send("go\r")
    child.expect("100.0%")
    child.expect("[a-z]")
    child.sendintr()
    child.expect("generation: ")
    child.expect("wd>")
    child.send("/exit\r")
    leave(child)


def test_alt_enter_makes_a_message_of_several_lines(chat: Callable[..., "pexpect.spawn[str]"], home: Path) -> None:
    child = chat("--nothink", "--temp", "0", "-n", "1")
    child.send("one\x1b\rtwo\r")
    child.expect("generation: ")
    child.expect("wd>")
    child.sendeof()
    leave(child)
    assert json.loads((home / ".whitedwarf_history").read_text()) == "one\ntwo"


def test_piped_lines_are_a_chat_without_decoration(run: Run, tmp_path: Path) -> None:
    (tmp_path / "question.txt").write_text("What is the capital of Italy?")
    lines = "hello\n\n/read question.txt\n/read missing.txt\n/read\n/quit\nnever reached\n"
    result = run("run", "--nothink", "--temp", "0", stdin=lines)
    assert result.returncode == 0
    assert result.stdout == "Hello! How can I help you today?\nThe capital of Italy is Rome.\n"
    assert "whitedwarf: cannot read missing.txt: No such file or directory" in result.stderr
    assert "whitedwarf: /read: expected a file, such as /read notes.txt" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_turn_that_does_not_fit_leaves_the_chat_alive(run: Run) -> None:
    lines = "hello\n" + "far too long " * 60 + "\nWhat is the capital of Italy?\n"
    result = run("run", "--nothink", "--temp", "0", "--ctx", "64", stdin=lines)
    assert result.returncode == 0
    assert result.stdout.splitlines() == ["Hello! How can I help you today?", "The capital of Italy is Rome."]
    assert "whitedwarf: the prompt has" in result.stderr
