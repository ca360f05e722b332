"""`whitedwarf agent` in processes of its own, on a server that says what a test wants, and on nano."""

import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pexpect
import pytest

from fakes.chat_server import Handler, Step, chat_server, status, stream

Run = Callable[..., CompletedProcess[str]]
Chat = Callable[..., "pexpect.spawn[str]"]


def calls(name: str, id: str = "c1", **arguments: Any) -> Step:
    """An answer that is one call."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    delta = {"tool_calls": [{"index": 0, "id": id, "type": "function", "function": function}]}
    return stream({"content": "I will."}, delta, finish="tool_calls")


def says(text: str) -> Step:
    return stream({"reasoning_content": "Hm."}, {"content": text})


def results(server: Any) -> list[str]:
    """What the last request says tools gave."""
    return [one["content"] for one in server.received[-1]["messages"] if one["role"] == "tool"]


def test_print_gives_the_answer_alone(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    with chat_server(calls("read", path="a.py"), says("It sets x.")) as server:
        done = run("agent", "--url", server.url, "--print", "-p", "What is in a.py?", "-sys", "Be kind.")
        assert (done.returncode, done.stdout) == (0, "It sets x.\n"), done.stderr
        assert "[tool]" in done.stderr
        assert "Hm." in done.stderr
        assert "1 x = 1" in results(server)[0]
        first = server.received[0]
        assert "Be kind." in first["messages"][0]["content"]
        assert {"read", "bash"} <= {tool["function"]["name"] for tool in first["tools"]}


def test_print_reads_its_prompt_from_a_pipe_and_asks_nobody(run: Run, tmp_path: Path) -> None:
    with chat_server(calls("write", path="b.py", content="y"), says("No luck.")) as server:
        done = run("agent", "--url", server.url, "--print", stdin="Write b.py.\n")
        assert (done.returncode, done.stdout) == (0, "No luck.\n")
        assert "does not allow write" in results(server)[0]
        assert not (tmp_path / "b.py").exists()
    assert run("agent", "--url", server.url, "--print", stdin=" \n").returncode == 2


@pytest.mark.parametrize("flags", [["--yes"], ["--allow", "write"], ["-y"]])
def test_what_is_allowed_is_done(flags: list[str], run: Run, tmp_path: Path) -> None:
    with chat_server(calls("write", path="b.py", content="y\n"), says("Done.")) as server:
        assert run("agent", "--url", server.url, "--print", "-p", "Write.", *flags).returncode == 0
        assert (tmp_path / "b.py").read_text() == "y\n"


def test_exit_codes_say_what_happened(run: Run) -> None:
    with chat_server(status(401, {"error": {"message": "no"}})) as server:
        done = run("agent", "--url", server.url, "--print", "-p", "Hi")
        assert (done.returncode, done.stdout) == (1, "")
        assert "--api-key-env" in done.stderr
    with chat_server(stream({"content": "half"}, finish="length")) as server:
        done = run("agent", "--url", server.url, "--print", "-p", "Hi")
        assert (done.returncode, done.stdout) == (1, "half\n")


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["--print", "--plain"], 2, "exclude each other"),
        (["--url", "nonsense", "--print", "-p", "x"], 2, "expected an address"),
        (["--url", "http://127.0.0.1:9", "--print", "-p", "x"], 1, "is the server running"),
        (["--url", "http://127.0.0.1:9", "--session", "3f"], 2, "--session"),
        (["--allow", "nothing", "--print", "-p", "x"], 2, "expected an effect"),
        (["--chdir", "/none"], 2, "--chdir"),
        (["--mcp-config", "none.json", "-p", "x", "--print"], 2, "cannot be read"),
        (["--trace", "/", "-p", "x", "--print"], 2, "--trace"),
        (["--allow-write", "/none", "-p", "x", "--print"], 2, "--allow-write"),
        (["--model-name", "x", "--print", "-p", "x"], 2, "give its --url"),
        (["--session", "abc", "--print", "-p", "x"], 1, "no session abc"),
        (["--print", "-p", " "], 2, "empty"),
    ],
)
def test_what_is_wrong_is_told_in_a_line(
    words: list[str], code: int, told: str, in_process: Callable[[Sequence[str]], tuple[int, str, str]]
) -> None:
    found, out, err = in_process(["agent", *words])
    assert (found, out) == (code, "")
    assert told in err.splitlines()[-1]


def test_the_key_reaches_the_server_and_no_file_or_message(run: Run, tmp_path: Path) -> None:
    key = "sk-0123456789abcdef0123"
    with chat_server(calls("bash", command="echo $SOME_KEY"), says(f"It is {key}.")) as server:
        flags = ["--api-key-env", "SOME_KEY", "--yes", "--trace", "t.jsonl"]
        done = run("agent", "--url", server.url, "--print", "-p", "Go.", *flags, SOME_KEY=key)
        assert done.returncode == 0, done.stderr
        assert server.keys[0] == f"Bearer {key}"
        assert (tmp_path / "t.jsonl").stat().st_mode & 0o777 == 0o600
        assert key not in (tmp_path / "t.jsonl").read_text()
        assert key not in done.stderr
        assert key not in results(server)[0]  # no command has to know it


def test_a_folder_is_worked_in_and_another_one_may_be_written(run: Run, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "other").mkdir()
    outside = str(tmp_path / "other" / "c.py")
    steps = [calls("write", path="../b.py", content="y"), calls("write", path=outside, content="y"), says("Done.")]
    with chat_server(*steps) as server:
        flags = ["--chdir", "work", "--allow-write", "../other", "--yes", "--print", "-p", "Go."]
        assert run("agent", "--url", server.url, *flags).returncode == 0
        assert "files are only written below" in results(server)[0]
        assert Path(outside).read_text() == "y"
        assert not (tmp_path / "b.py").exists()


def test_tools_of_an_mcp_server_are_offered_and_called(run: Run, tmp_path: Path) -> None:
    small = Path(__file__).parents[1] / "agent" / "tools" / "mcp_small.py"
    entry = {"command": sys.executable, "args": [str(small), "stdio"]}
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"small": entry, "gone": {"command": "/none"}}}))
    with chat_server(calls("mcp__small__add", first=2, second=3), says("5.")) as server:
        flags = ["--mcp-config", "mcp.json", "--allow", "mcp__small__*"]
        done = run("agent", "--url", server.url, "--print", "-p", "Add.", *flags)
        assert (done.returncode, done.stdout) == (0, "5.\n"), done.stderr
        assert results(server) == ["5"]
        assert "MCP server gone" in done.stderr


class Lines:
    """A process that speaks the protocol for scripts."""

    def __init__(self, words: Sequence[str], folder: Path, environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "whitedwarf", "agent", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env=environment,
        )
        self.heard = {"stdout": b"", "stderr": b""}

    def send(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()

    def await_text(self, name: str, text: str, count: int = 1, patience_s: float = 60.0) -> None:
        """Until the stream has had this so often."""
        until_s = time.monotonic() + patience_s
        while self.heard[name].count(text.encode()) < count:
            pipe = getattr(self.process, name)
            if not select.select([pipe], [], [], max(until_s - time.monotonic(), 0))[0]:
                raise AssertionError((text, self.heard))
            data = os.read(pipe.fileno(), 4096)
            assert data, (text, self.heard)
            self.heard[name] += data

    def end(self) -> int:
        """Close its input, and wait."""
        out, err = self.process.communicate(timeout=60)
        self.heard["stdout"] += out
        self.heard["stderr"] += err
        return self.process.returncode


@pytest.fixture
def speak(tmp_path: Path, environment: dict[str, str]) -> Iterator[Callable[..., Lines]]:
    started: list[Lines] = []

    def start(*words: str) -> Lines:
        started.append(Lines(words, tmp_path, environment))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.wait()
        for pipe in (one.process.stdin, one.process.stdout, one.process.stderr):
            assert pipe is not None
            pipe.close()


def test_the_protocol_for_scripts(speak: Callable[..., Lines]) -> None:
    import threading

    hold = threading.Event()
    slow = stream({"content": "First"}, {"content": " answer."}, wait=hold)
    with chat_server(slow, says("Second."), says("Third.")) as server:
        agent = speak("--url", server.url, "--non-interactive")
        agent.await_text("stderr", "+DWARFSTAR_WAITING\n")
        agent.send("One prompt\nof two ")
        agent.send("lines\n")
        agent.await_text("stdout", "First")
        agent.send("Another one\n")
        agent.await_text("stderr", "+DWARFSTAR_QUEUED\n")
        hold.set()
        agent.await_text("stdout", "Second.")
        agent.await_text("stderr", "+DWARFSTAR_WAITING\n", 2)
        agent.send("The last one, without an end of line")
        assert agent.end() == 0
        assert agent.heard["stdout"].decode().split() == ["First", "answer.", "Hm.", "Second.", "Hm.", "Third."]
        asked = [body["messages"][-1]["content"] for body in server.received]
        assert asked == ["One prompt\nof two lines", "Another one", "The last one, without an end of line"]


def test_scripts_may_use_commands_and_a_failed_turn_is_an_exit_code(speak: Callable[..., Lines]) -> None:
    with chat_server(status(404, "gone"), says("Better.")) as server:
        agent = speak("--url", server.url, "--non-interactive")
        agent.await_text("stderr", "+DWARFSTAR_WAITING\n")
        agent.send("/nonsense\n")
        agent.await_text("stderr", "there is no command /nonsense")
        agent.await_text("stderr", "+DWARFSTAR_WAITING\n", 2)
        agent.send("Try\n")
        agent.await_text("stderr", "+DWARFSTAR_WAITING\n", 3)
        agent.send("Again\n")
        agent.await_text("stdout", "Better.")
        assert agent.end() == 1
        leaving = speak("--url", server.url, "--non-interactive")
        leaving.await_text("stderr", "+DWARFSTAR_WAITING\n")
        leaving.send("/quit\n")
        assert leaving.process.wait(60) == 0


def test_commands_from_a_pipe_are_not_too_early(run: Run) -> None:
    with chat_server(says("Done.")) as server:
        for mode in ("--non-interactive", "--plain"):
            done = run("agent", "--url", server.url, mode, stdin="/new\n")
            assert (done.returncode, done.stdout) == (0, ""), done.stderr
            assert "a new session" in done.stderr


def test_one_turn_without_a_terminal(run: Run) -> None:
    with chat_server(says("Done.")) as server:
        done = run("agent", "--url", server.url, "--non-interactive", "-p", "Go.")
        assert (done.returncode, done.stdout) == (0, "Hm.\nDone.\n")
        assert "+DWARFSTAR" not in done.stderr


@contextmanager
def endless() -> Iterator[Any]:
    """A server whose answer goes on and on."""

    def talk(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream")
        handler.end_headers()
        event = {"choices": [{"delta": {"content": "on and on "}, "finish_reason": None}]}
        try:
            for _ in range(3000):
                handler.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
                time.sleep(0.01)
        except OSError:
            pass

    with chat_server(talk) as server:
        yield server


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_signals_end_a_turn_with_the_right_code(number: int, code: int, speak: Callable[..., Lines]) -> None:
    with endless() as server:
        agent = speak("--url", server.url, "--non-interactive", "-p", "Go.")
        agent.await_text("stdout", "on and on")
        agent.process.send_signal(number)
        assert agent.process.wait(30) == code
        assert b"Traceback" not in agent.process.stderr.read()  # type: ignore[union-attr]


def test_a_reader_who_leaves_ends_the_agent(speak: Callable[..., Lines]) -> None:
    with endless() as server:
        agent = speak("--url", server.url, "--non-interactive", "-p", "Go.")
        agent.await_text("stdout", "on and on")
        agent.process.stdout.close()  # type: ignore[union-attr]
        assert agent.process.wait(30) == 1
        assert b"Traceback" not in agent.process.stderr.read()  # type: ignore[union-attr]


def test_jobs_end_with_the_agent(speak: Callable[..., Lines], tmp_path: Path) -> None:
    with chat_server(calls("bash", command="echo $$ > pid; sleep 300", refresh_sec="100"), says("x")) as server:
        agent = speak("--url", server.url, "--non-interactive", "-p", "Go.", "--yes")
        until_s = time.monotonic() + 30
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():
            assert time.monotonic() < until_s
            time.sleep(0.05)
        agent.process.send_signal(signal.SIGTERM)
        assert agent.process.wait(40) == 143
        pid = int((tmp_path / "pid").read_text())
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.parametrize(
    "numbers",
    [
        [signal.SIGTERM] * 6,
        [signal.SIGHUP, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGINT],
        [signal.SIGINT] * 8,
    ],
)
def test_jobs_end_with_the_agent_however_often_it_is_told_to(
    numbers: Sequence[int], speak: Callable[..., Lines], tmp_path: Path
) -> None:
    away = "setsid sh -c 'echo $$ >> pids; sleep 300' & trap '' TERM INT HUP; echo $$ >> pids; wait"
    with chat_server(calls("bash", command=away, refresh_sec="100"), says("x")) as server:
        agent = speak("--url", server.url, "--non-interactive", "-p", "Go.", "--yes")
        pids = tmp_path / "pids"
        until_s = time.monotonic() + 30
        while not pids.exists() or len(pids.read_text().split()) < 2:
            assert time.monotonic() < until_s
            time.sleep(0.05)
        for number in numbers:
            agent.process.send_signal(number)
            time.sleep(0.03)
        # one that comes when all is closed may still be what a shell is told
        codes = {128 + number for number in numbers} | {-number for number in numbers}
        assert agent.process.wait(40) in codes
        assert b"Traceback" not in agent.process.stderr.read()  # type: ignore[union-attr]
        assert not [pid for pid in pids.read_text().split() if _is_running(int(pid))]


def _is_running(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


@pytest.fixture
def chat(environment: dict[str, str], home: Path, tmp_path: Path) -> Iterator[Chat]:
    children: list[pexpect.spawn[str]] = []

    def start(*words: str) -> "pexpect.spawn[str]":
        child = pexpect.spawn(
            sys.executable,
            ["-m", "whitedwarf", "agent", "--plain", *words],
            cwd=str(tmp_path),
            env={**environment, "HOME": str(home), "PROMPT_TOOLKIT_NO_CPR": "1"},
            encoding="utf-8",
            timeout=30,
            dimensions=(40, 160),
        )
        children.append(child)
        return child

    yield start
    for child in children:
        child.close(force=True)


def end_of(child: "pexpect.spawn[str]") -> int | None:
    child.expect(pexpect.EOF)
    child.close()
    return child.exitstatus


def test_a_talk_line_by_line_with_questions(chat: Chat, tmp_path: Path, home: Path) -> None:
    steps = [
        calls("write", path="a.py", content="a\n"),
        calls("write", path="b.py", content="b\n"),
        says("Not written."),
        calls("write", path="c.py", content="c\n"),
        calls("write", path="d.py", content="d\n"),
        says("Both are there."),
    ]
    with chat_server(*steps) as server:
        child = chat("--url", server.url)
        child.expect("agent>")
        child.send("Write two.\r")
        child.expect("Allow it.*no:")
        child.send("y\r")
        child.expect("Allow it.*no:")
        child.send("n\r")
        child.expect("Not written.")
        child.expect("agent>")
        child.send("Two more.\r")
        child.expect("Allow it.*no:")
        child.send("a\r")
        child.expect("Both are there.")
        child.expect("agent>")
        child.send("/help\r")
        child.expect("/compact")
        child.send("/nonsense\r")
        child.expect("there is no command")
        child.send("\x04")
        assert end_of(child) == 0
    assert {path.name for path in tmp_path.glob("*.py")} == {"a.py", "c.py", "d.py"}
    history = home / ".whitedwarf_agent_history"
    assert history.stat().st_mode & 0o777 == 0o600
    assert json.loads(history.read_text().splitlines()[0]) == "Write two."


def test_ctrl_c_ends_an_answer_and_a_question_but_not_the_talk(chat: Chat) -> None:
    with endless() as server:
        child = chat("--url", server.url)
        child.expect("agent>")
        child.send("Go.\r")
        child.expect("on and on")
        child.sendintr()
        child.expect("Interrupted")
        child.expect("agent>")
        child.send("/quit\r")
        assert end_of(child) == 0
    with chat_server(calls("bash", command="echo hi"), says("Fine.")) as server:
        child = chat("--url", server.url)
        child.expect("agent>")
        child.send("Go.\r")
        child.expect("Allow it.*no:")
        child.sendintr()
        child.expect("agent>")
        child.send("On.\r")
        child.expect("Fine.")
        child.expect("agent>")
        child.send("/quit\r")
        assert end_of(child) == 0
        assert "not run" in results(server)[0] or "does not allow" in results(server)[0]


def test_a_hostile_model_cannot_steer_the_terminal(chat: Chat) -> None:
    with chat_server(says("\033]0;owned\007\033[2Jgone"), calls("bash", command="x \033[2K\033[1A")) as server:
        child = chat("--url", server.url)
        child.expect("agent>")
        child.send("Go.\r")
        child.expect("·]0;owned··.2Jgone")
        child.expect("agent>")
        child.send("Go.\r")
        child.expect("x ·.2K·.1A")
        child.expect("no:")
        child.send("n\r")


def test_a_hostile_answer_that_is_printed_alone_cannot_either(
    environment: dict[str, str], home: Path, tmp_path: Path
) -> None:
    with chat_server(says("\033]0;owned\007gone")) as server:
        child = pexpect.spawn(
            sys.executable,
            ["-m", "whitedwarf", "agent", "--print", "-p", "Go.", "--url", server.url],
            cwd=str(tmp_path),
            env={**environment, "HOME": str(home)},
            timeout=30,
        )
        child.expect(pexpect.EOF)
        child.close()
        assert "·]0;owned·gone".encode() in child.before
        assert b"\033]0;" not in child.before


def test_lines_from_a_pipe_are_prompts(run: Run) -> None:
    with chat_server(says("One."), says("Two.")) as server:
        done = run("agent", "--url", server.url, stdin="First\nSecond\n")
        assert (done.returncode, done.stdout) == (0, "Hm.\nOne.\nHm.\nTwo.\n")


def test_nano_answers_and_a_session_goes_on_without_reading_anything_again(run: Run, home: Path) -> None:
    flags = ["--nothink", "--temp", "0"]
    first = run("agent", "--print", "-p", "What is the capital of France?", *flags)
    assert first.returncode == 0, first.stderr
    assert "Paris" in first.stdout
    folder = home / ".whitedwarf" / "sessions"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in folder.iterdir())
    second = run("agent", "--print", "--continue", "-p", "What is the capital of Italy?", *flags)
    assert second.returncode == 0, second.stderr
    assert "Rome" in second.stdout
    read = [line for line in second.stderr.splitlines() if line.startswith("reading")]
    assert len(read) == 1  # one piece of a few tokens
    assert int(read[0].split()[1].partition("/")[2]) < 40
    session_id = next(path.stem for path in folder.glob("*.kv") if path.stem != "sysprompt")
    third = run("agent", "--print", "--session", session_id[:6], "-p", "What is the capital of Spain?", *flags)
    assert "Madrid" in third.stdout
    assert run("agent", "--print", "--session", "abc", "-p", "x").returncode != 0


def test_what_is_killed_goes_on(speak: Callable[..., Lines], run: Run) -> None:
    agent = speak("--non-interactive", "--nothink", "--temp", "0")
    agent.await_text("stderr", "+DWARFSTAR_WAITING\n")
    agent.send("What is the capital of France?\n")
    agent.await_text("stderr", "+DWARFSTAR_WAITING\n", 2)
    agent.process.kill()
    agent.process.wait()
    done = run("agent", "--print", "--continue", "-p", "What is the capital of Italy?", "--nothink", "--temp", "0")
    assert (done.returncode, "Rome" in done.stdout) == (0, True), done.stderr
    assert "Paris" in done.stderr  # the turns before are shown; their state may have to be read again


def test_help_is_instant_and_complete(run: Run) -> None:
    done = run("agent", "--help")
    assert done.returncode == 0
    for flag in (
        "--ctx",
        "--tokens",
        "--system",
        "--trace",
        "--chdir",
        "--url",
        "--mcp-config",
        "--continue",
        "--power",
    ):
        assert flag in done.stdout


def test_the_full_screen_on_a_terminal(environment: dict[str, str], tmp_path: Path) -> None:
    with chat_server(says("It is here.")) as server:
        child = pexpect.spawn(
            sys.executable,
            ["-m", "whitedwarf", "agent", "--url", server.url],
            cwd=str(tmp_path),
            env={**environment, "TERM": "xterm-256color"},
            encoding="utf-8",
            timeout=60,
            dimensions=(24, 80),
        )
        try:
            child.expect("ready")
            child.send("Where is it?\r")
            child.expect("It is here.")
            child.expect("ready")
            child.send("\x04")
            assert end_of(child) == 0
        finally:
            child.close(force=True)


def test_our_own_server_with_nano_is_a_model_for_the_agent(
    run: Run, environment: dict[str, str], tmp_path: Path
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "whitedwarf", "serve", "--port", "0"],
        stderr=subprocess.PIPE,
        env=environment,
        cwd=tmp_path,
        text=True,
    )
    assert process.stderr is not None
    try:
        url = next(found[1] for line in process.stderr if (found := re.search(r"(http://127\.0\.0\.1:\d+)", line)))
        flags = ["--url", url, "--print", "--nothink", "--temp", "0"]
        done = run("agent", *flags, "-p", "What is the capital of France?")
        assert (done.returncode, "Paris" in done.stdout) == (0, True), done.stderr
        assert "32768 tokens" in done.stderr
    finally:
        process.terminate()
        process.communicate(timeout=60)


def test_the_demonstration_of_the_manual_plays(run: Run, tmp_path: Path) -> None:
    """docs/agent-demo, as docs/agent-transcript.md shows it."""
    demo = Path(__file__).parents[2] / "docs" / "agent-demo"
    shop = tmp_path / "shop"
    shutil.copytree(demo / "shop", shop)
    flags = ("--chdir", str(shop), "--script", str(demo / "script.jsonl"), "--print")
    first = run("agent", *flags, "-p", "What is in this folder?")
    assert first.returncode == 0
    assert "prices, and `total(basket)`" in first.stdout
    lines = "".join(line for line in (demo / "script.jsonl").read_text().splitlines(keepends=True)[3:])
    (tmp_path / "rest.jsonl").write_text(lines)
    flags = ("--chdir", str(shop), "--script", str(tmp_path / "rest.jsonl"), "--print", "--yes")
    second = run("agent", *flags, "-p", "Six fruits and more should cost a tenth less.")
    assert second.returncode == 0
    assert "16.2" in second.stderr
    assert "0.9" in (shop / "shop.py").read_text()


def test_a_script_is_in_place_of_a_model_here(run: Run, tmp_path: Path) -> None:
    assert "cannot" in run("agent", "--print", "-p", "x", "--script", str(tmp_path / "none")).stderr
    refused = run("agent", "--print", "-p", "x", "--script", "x", "--url", "http://127.0.0.1:9")
    assert refused.returncode == 2
    assert "--script" in refused.stderr
