"""Asking a running supervisor: found by its config, taken for no other, told in words or JSON."""

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from whitedwarf.cli.supervise_table import duration, status_lines

Call = Callable[[Sequence[str]], tuple[int, str, str]]
LOADED = {
    "key": "a",
    "kind": "managed",
    "state": "loaded",
    "public_port": 8080,
    "in_flight": 2,
    "waiting": 3,
    "pid": 77,
    "context_size": 32768,
    "soft_limit": 24576,
    "counting": "unavailable: 404",
    "warnings": ["it is\nsmall"],
}
IDLE = {**LOADED, "key": "bb", "in_flight": 0, "waiting": 0, "idle_s": 12.2, "release_in_s": 488.0, "warnings": []}
FAR = {"key": "far", "kind": "external", "state": "loaded", "public_port": 8082}
FAILED = {"key": "x", "kind": "managed", "state": "failed", "public_port": 8083, "failure": "no such file"}


class StandIn(ThreadingHTTPServer):
    """Answers as a supervisor does; `status` and `refusal` are what it says."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.status: dict[str, Any] = {}
        self.refusal: str | None = None
        self.log = "loading…\nready\n".encode()
        self.asked: list[tuple[str, str, str | None]] = []


class Handler(BaseHTTPRequestHandler):
    server: StandIn

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        self._note()
        if "/logs" not in self.path:
            self._say(200, self.server.status)
        elif self.server.refusal is None:
            self._say_bytes(200, self.server.log)
        else:
            self._say(404, {"error": {"message": self.server.refusal}})

    def do_POST(self) -> None:
        self._note()
        if self.server.refusal is not None:
            self._say(400, {"error": {"message": self.server.refusal}})
        elif "unload" in self.path:
            self._say(200, {"unloaded": ["a"] if "model" in self.path else []})
        else:
            self._say(200, {"started": "a"})

    def _note(self) -> None:
        self.server.asked.append((self.command, self.path, self.headers["Authorization"]))

    def _say(self, status: int, told: object) -> None:
        self._say_bytes(status, json.dumps(told).encode())

    def _say_bytes(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def supervisor() -> Iterator[StandIn]:
    with StandIn() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def config(tmp_path: Path, supervisor: StandIn) -> Path:
    path = tmp_path / "models.json"
    first = {"name": "closed", "path": "m.gguf", "publicPort": 1}
    second = {"name": "a", "path": "m.gguf", "publicPort": supervisor.server_port}
    path.write_text(json.dumps({"models": [first, second]}))
    supervisor.status = {"config": str(path), "pid": 1, "models": [LOADED, IDLE]}
    return path


def test_the_status_is_a_line_for_each_model(config: Path, in_process: Call) -> None:
    code, out, err = in_process(["supervise", "status", str(config)])
    assert (code, err) == (0, "")
    assert " ".join(out.splitlines()[1].split()) == "a 8080 loaded 2 +3 waiting - - 32768 (soft 24576) 77"


def test_scripts_get_the_status_as_it_was_told(config: Path, supervisor: StandIn, in_process: Call) -> None:
    code, out, _ = in_process(["supervise", "status", str(config), "--json"])
    assert (code, json.loads(out)) == (0, supervisor.status)


@pytest.mark.parametrize(
    ("words", "asked", "said"),
    [
        (["unload"], "/__supervisor/unload", "nothing was loaded\n"),
        (["unload", "a/b c", "--drain"], "/__supervisor/unload?model=a%2Fb%20c&drain=1", "unloaded a\n"),
        (["start", "模"], "/__supervisor/start?model=%E6%A8%A1", "a is loaded\n"),
    ],
)
def test_orders_name_the_model_as_it_was_written(
    words: list[str], asked: str, said: str, config: Path, supervisor: StandIn, in_process: Call
) -> None:
    what, *more = words
    assert in_process(["supervise", what, str(config), *more]) == (0, said, "")
    assert supervisor.asked[-1] == ("POST", asked, None)
    assert json.loads(in_process(["supervise", what, str(config), *more, "--json"])[1])


def test_a_log_is_printed_as_it_comes(config: Path, supervisor: StandIn, in_process: Call) -> None:
    said = "loading…\nready\n"
    assert in_process(["supervise", "logs", str(config)]) == (0, said, "")
    assert supervisor.asked[-1][:2] == ("GET", "/__supervisor/logs?lines=200")
    assert in_process(["supervise", "logs", str(config), "a b", "--lines", "5", "--follow"]) == (0, said, "")
    assert supervisor.asked[-1][1] == "/__supervisor/logs?lines=5&model=a%20b&follow=1"
    supervisor.refusal = "'a b' has no log here"
    assert in_process(["supervise", "logs", str(config), "a b"]) == (1, "", "whitedwarf: 'a b' has no log here\n")


def test_a_log_with_nothing_in_it_is_told(config: Path, supervisor: StandIn, in_process: Call) -> None:
    supervisor.log = b""
    said = "whitedwarf: it has said nothing since this supervisor began\n"
    assert in_process(["supervise", "logs", str(config)]) == (0, "", said)


def test_a_refusal_is_told_in_the_supervisors_words(config: Path, supervisor: StandIn, in_process: Call) -> None:
    supervisor.refusal = "no model 'q' in the config"
    assert in_process(["supervise", "start", str(config), "q"]) == (1, "", "whitedwarf: no model 'q' in the config\n")


def test_of_a_refusal_with_a_log_only_the_first_line_is_told(
    config: Path, supervisor: StandIn, in_process: Call
) -> None:
    supervisor.refusal = "model 'a' did not start: no memory\nThe end of its log:\nI one\nE two"
    said = "whitedwarf: model 'a' did not start: no memory (`whitedwarf supervise logs` has more)\n"
    assert in_process(["supervise", "start", str(config), "a"]) == (1, "", said)


def test_a_key_is_sent_where_one_is_asked_for(config: Path, supervisor: StandIn, in_process: Call) -> None:
    keys = config.parent / "keys"
    keys.write_text("# mine\nfirst-key\nsecond-key\n")
    keys.chmod(0o600)
    config.write_text(config.read_text().replace("{", '{"apiKeyFile": "keys", ', 1))
    assert in_process(["supervise", "status", str(config)])[0] == 0
    assert supervisor.asked[-1][2] == "Bearer first-key"


def test_no_stranger_is_taken_for_the_supervisor(config: Path, supervisor: StandIn, in_process: Call) -> None:
    for status, who in (
        ({}, "another server"),
        ({"config": "/other.json"}, "the supervisor of /other.json"),
        ({"config": "\x1b[2J\r/other.json"}, "the supervisor of \ufffd[2J\ufffd/other.json"),
    ):
        supervisor.status = status
        code, _, err = in_process(["supervise", "unload", str(config)])
        assert code == 1
        assert f"(port {supervisor.server_port} is held by {who})" in err
        assert f"start it: whitedwarf supervise {config}" in err
    assert {method for method, *_ in supervisor.asked} == {"GET"}


def test_ports_that_hang_are_asked_at_the_same_time(
    tmp_path: Path, in_process: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whitedwarf.supervisor.asking._STATUS_TIMEOUT_S", 1.0)
    silent = [socket.create_server(("127.0.0.1", 0)) for _ in range(20)]
    models = [
        {"name": f"m{index}", "url": "http://elsewhere", "publicPort": one.getsockname()[1]}
        for index, one in enumerate(silent)
    ]
    (tmp_path / "hung.json").write_text(json.dumps({"models": models}))
    began_s = time.monotonic()
    assert in_process(["supervise", "status", str(tmp_path / "hung.json")])[0] == 1
    assert time.monotonic() - began_s < 15  # one after the other: 20
    for one in silent:
        one.close()


def test_a_process_that_is_something_else_is_not_stopped(config: Path, supervisor: StandIn, in_process: Call) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        try:
            for pid in stranger.pid, 2**30, -1, "x":
                supervisor.status = {**supervisor.status, "pid": pid}
                code, out, err = in_process(["supervise", "stop", str(config)])
                assert (code, out, f"says it is process {pid}" in err) == (1, "", True), err
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_what_people_should_know_stands_below_the_table() -> None:
    lines = status_lines({"models": [LOADED, IDLE, FAR, FAILED]})
    assert lines[0].split() == ["MODEL", "PORT", "STATE", "REQUESTS", "IDLE", "RELEASE", "IN", "CONTEXT", "PID"]
    assert lines[2].split() == ["bb", "8080", "loaded", "0", "12", "s", "8", "min", "32768", "(soft", "24576)", "77"]
    assert lines[3].split() == ["far", "8082", "external", "0", "-", "-", "unknown", "-"]
    assert lines[5:] == [
        "a: it is small",
        "a: prompts cannot be counted, so the soft limit does nothing: unavailable: 404",
        "bb: prompts cannot be counted, so the soft limit does nothing: unavailable: 404",
        "x: no such file",
    ]


@pytest.mark.parametrize(("seconds", "said"), [(0, "0 s"), (99, "99 s"), (500, "8 min"), (7200, "2 h"), (None, "-")])
def test_times_are_short(seconds: float | None, said: str) -> None:
    assert duration(seconds) == said
