"""`whitedwarf serve` as a process: start, an answer, and its end."""

import contextlib
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest

PATIENCE_S = 60.0
ASKED = {"model": "m", "messages": [{"role": "user", "content": "Go on."}], "thinking": {"type": "disabled"}}
Start = Callable[..., "Process"]


class Process:
    """A server that has told its address."""

    def __init__(self, popen: "subprocess.Popen[str]") -> None:
        self.popen = popen
        assert popen.stderr is not None
        self.said = ""
        for line in popen.stderr:
            self.said += line
            if found := re.search(r"served at (http://\S+)", line):
                self.client = httpx2.Client(base_url=found[1], timeout=PATIENCE_S)
                return
        raise AssertionError(self.said)

    def wait(self) -> int:
        return self.popen.wait(PATIENCE_S)


@pytest.fixture
def script(tmp_path: Path) -> Callable[[int], str]:
    """A script whose answer takes so many tenths of a second."""

    def write(tenths: int) -> str:
        path = tmp_path / "script.jsonl"
        path.write_text(json.dumps({"pieces": ["a "] * tenths, "finish": "length", "delay_ms": 100}))
        return str(path)

    return write


@pytest.fixture
def start(environment: dict[str, str], tmp_path: Path) -> Iterator[Start]:
    started: list[Process] = []

    def start(*flags: str) -> Process:
        command = [sys.executable, "-m", "whitedwarf", "serve", "--port", "0", *flags]
        popen = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, cwd=tmp_path)
        started.append(Process(popen))
        return started[-1]

    yield start
    for process in started:
        process.client.close()
        process.popen.kill()
        process.popen.wait()
        assert process.popen.stderr is not None
        process.popen.stderr.close()


def stream(process: Process) -> "httpx2.Response":
    body = json.dumps({**ASKED, "stream": True})
    request = process.client.build_request(
        "POST", "/v1/chat/completions", content=body, headers={"content-type": "application/json"}
    )
    return process.client.send(request, stream=True)


@pytest.mark.slow
def test_a_running_answer_ends_as_it_should_after_sigterm(start: Start, script: Callable[[int], str]) -> None:
    process = start("--script", script(10))
    answer = stream(process)
    lines = answer.iter_lines()
    next(lines)
    process.popen.send_signal(signal.SIGTERM)
    rest = [line for line in lines if line]
    assert rest[-1] == "data: [DONE]"
    assert json.loads(rest[-2].removeprefix("data: "))["choices"][0]["finish_reason"] == "length"
    assert process.wait() == 0


@pytest.mark.slow
def test_an_answer_that_outlasts_the_drain_is_told_to_be_over(start: Start, script: Callable[[int], str]) -> None:
    process = start("--script", script(1000), "--drain-s", "0")
    answer = stream(process)
    lines = answer.iter_lines()
    next(lines)
    process.popen.send_signal(signal.SIGTERM)
    rest = [line for line in lines if line]
    assert "shutting down" in json.loads(rest[-1].removeprefix("data: "))["error"]["message"]
    assert process.wait() == 0


@pytest.mark.slow
def test_a_second_signal_ends_it_at_once(start: Start, script: Callable[[int], str]) -> None:
    process = start("--script", script(1000))
    answer = stream(process)
    lines = answer.iter_lines()  # kept: without it the connection would be closed
    next(lines)
    process.popen.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    assert process.popen.poll() is None
    process.popen.send_signal(signal.SIGTERM)
    assert process.wait() == 130
    with contextlib.suppress(httpx2.HTTPError):
        list(lines)


@pytest.mark.slow
def test_an_idle_server_goes_at_once(start: Start, nano_path: Path) -> None:
    process = start("-m", str(nano_path), "--ctx", "4096", "--power", "40")
    told = process.client.get("/props").json()
    assert (told["power_percent"], told["model_path"], told["prefix_memory"]["held_bytes"]) == (40, nano_path.name, 0)
    (model,) = process.client.get("/v1/models").json()["data"]
    assert (model["id"], model["context_length"]) == ("whitedwarf-nano", 4096)
    for told_at_the_start in (f"17.6 MiB: {nano_path}", "up to 1.0 GiB in memory, none on disk"):
        assert told_at_the_start in process.said
    started_s = time.monotonic()
    process.popen.send_signal(signal.SIGINT)
    assert process.wait() == 0
    assert time.monotonic() - started_s < 30


def test_keys_that_others_may_read_are_refused_before_a_model_is_looked_for(
    in_process: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    keys = tmp_path / "keys"
    keys.write_text("secret\n")
    keys.chmod(0o644)
    code, _, said = in_process(["serve", "--api-key-file", str(keys), "-m", "/nowhere.gguf", "--port", "0"])
    assert (code, "chmod 600" in said) == (2, True)


@pytest.mark.parametrize(
    "flags",
    [
        ["--port", "70000"], ["--parallel", "0"], ["--max-waiting", "0"], ["--drain-s", "-1"],
        *([flag, "9" * 400] for flag in ("--drain-s", "--kv-ram-mb", "--kv-disk-space-mb", "--parallel", "--threads")),
    ],
)  # fmt: skip
def test_numbers_out_of_range_are_refused(in_process: Callable[..., tuple[int, str, str]], flags: list[str]) -> None:
    assert in_process(["serve", *flags])[0] == 2


@pytest.mark.slow
def test_the_options_of_a_running_server_are_told_and_done(
    start: Start, script: Callable[[int], str], tmp_path: Path
) -> None:
    trace = tmp_path / "trace"
    flags = ("--trace", str(trace), "--log-format", "json", "-n", "77", "--recipe", "v4.1", "--parallel", "2")
    process = start("--script", script(1), *flags)
    told = process.client.get("/props").json()
    assert (told["total_slots"], told["recipe"], told["backend"]) == (2, "v4.1", "script")
    assert told["default_generation_settings"]["params"]["n_predict"] == 77
    assert process.client.post("/v1/chat/completions", json=ASKED).status_code == 200
    assert process.client.get("/debug/last").json()["options"]["max_tokens"] == 77
    process.popen.send_signal(signal.SIGTERM)
    assert process.wait() == 0
    assert process.popen.stderr is not None
    events = [json.loads(line) for line in process.popen.stderr if line.startswith("{")]
    assert {"request_ended", "stopping"} <= {event["event"] for event in events}
    written = trace.read_text()
    assert "===== end request 1 =====" in written
    assert "max_tokens: 77\n" in written


@pytest.mark.slow
def test_a_restarted_server_goes_on_from_its_folder(start: Start, nano_path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "kv"
    sizes = ("--ctx", "4096", "--kv-cache-min-tokens", "64", "--kv-cache-boundary-align-tokens", "256")
    flags = ("-m", str(nano_path), "--kv-disk-dir", str(folder), *sizes)
    messages = [{"role": "user", "content": "Tell me more about the sea. " * 60}]
    asked = {**ASKED, "messages": messages, "max_tokens": 8, "temperature": 0}
    answers = []
    for _ in range(2):
        process = start(*flags)
        answers.append(process.client.post("/v1/chat/completions", json=asked).json())
        process.popen.send_signal(signal.SIGTERM)
        assert process.wait() == 0
    assert list(folder.glob("*.kv"))
    first, second = (answer["choices"][0]["message"]["content"] for answer in answers)
    assert first == second
    cold, warm = (answer["usage"]["prompt_tokens_details"]["cached_tokens"] for answer in answers)
    assert (cold, warm) == (0, 512)
