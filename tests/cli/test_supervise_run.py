"""`whitedwarf supervise` as people run it: a process of its own, asked by the commands that find it by its config."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

Call = Callable[[Sequence[str]], tuple[int, str, str]]
PATIENCE_S = 60.0
MOST_RESIDENT_BYTES = 40 << 20
CHILD = Path(__file__).parents[1] / "fakes/llama_child.py"


def free_ports(count: int) -> list[int]:
    with ExitStack() as sockets:
        bound = [sockets.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in bound]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    keys = tmp_path / "keys"
    keys.write_text("a-key-of-mine\n")
    keys.chmod(0o600)
    public, internal, other = free_ports(3)
    path = tmp_path / "models.json"
    told = {
        "apiKeyFile": "keys",
        "stateDir": "state",
        "startSettleSec": 0,
        "llamaServer": {"bin": [sys.executable, str(CHILD)]},
        "models": [
            {"name": "ä/b c", "path": "m.gguf", "publicPort": public, "internalPort": internal},
            {"name": "far", "url": "http://127.0.0.1:1/v1", "publicPort": other},
        ],
    }
    path.write_text(json.dumps(told))
    return path


@pytest.fixture
def supervisor(config: Path, environment: dict[str, str], in_process: Call) -> Iterator[subprocess.Popen[bytes]]:
    log = config.parent / "said"
    (config.parent / "asyncio.py").write_text("raise SystemExit('a stranger in the folder was taken for a library')")
    with log.open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "whitedwarf", "supervise", config.name],
            cwd=config.parent,
            env=environment,
            stderr=said,
            stdin=subprocess.DEVNULL,
        )
    try:
        deadline_s = time.monotonic() + PATIENCE_S
        while in_process(["supervise", "status", str(config)])[0] != 0:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline_s, log.read_text()
            time.sleep(0.05)
        yield process
    finally:
        if process.poll() is None:
            for one in [*psutil.Process(process.pid).children(recursive=True), process]:
                one.kill()
        process.wait(PATIENCE_S)


def test_a_supervisor_is_started_asked_and_stopped_by_its_config(
    config: Path, supervisor: subprocess.Popen[bytes], in_process: Call
) -> None:
    def ask(what: str, *more: str) -> str:
        code, out, err = in_process(["supervise", what, str(config), *more])
        assert (code, err) == (0, "")
        return out

    def loaded() -> dict[str, object]:
        first: dict[str, object] = json.loads(ask("status", "--json"))["models"][0]
        return first

    assert loaded()["state"] == "unloaded"
    assert ask("start", "ä/b c") == "ä/b c is loaded\n"
    assert loaded()["state"] == "loaded"
    assert "listening" in ask("logs", "ä/b c")
    child = psutil.Process(int(str(loaded()["pid"])))
    assert ask("unload") == "unloaded ä/b c\n"
    assert not child.is_running()
    assert ask("unload") == "nothing was loaded\n"
    ask("start", "ä/b c")
    child = psutil.Process(int(str(loaded()["pid"])))
    assert ask("stop") == "stopped\n"
    assert supervisor.wait(PATIENCE_S) == 0
    assert not child.is_running()
    assert in_process(["supervise", "status", str(config)])[0] == 1


def test_the_process_that_stays_is_the_one_that_was_started_and_small(supervisor: subprocess.Popen[bytes]) -> None:
    process = psutil.Process(supervisor.pid)
    assert process.cmdline()[1:6] == ["-P", "-X", "utf8", "-m", "whitedwarf.supervisor"]
    assert process.memory_info().rss < MOST_RESIDENT_BYTES


def test_the_dump_says_the_same_while_a_supervisor_runs(
    config: Path, supervisor: subprocess.Popen[bytes], in_process: Call
) -> None:
    words = ["supervise", str(config), "--dump-models"]
    while_it_runs = in_process(words)
    supervisor.terminate()
    assert supervisor.wait(PATIENCE_S) == 0
    assert while_it_runs == in_process(words)
    assert while_it_runs[0] == 0


def test_another_key_is_refused(config: Path, supervisor: subprocess.Popen[bytes], in_process: Call) -> None:
    (config.parent / "keys").write_text("another-key\n")
    code, _, err = in_process(["supervise", "unload", str(config)])
    assert (code, "is held by one that refuses our key" in err) == (1, True), err
    assert os.fspath(config) in err
