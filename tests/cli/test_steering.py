"""Steering where answers are made: `run`, its chat, `serve`."""

import contextlib
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess

import httpx2
import numpy as np
import pytest

Run = Callable[..., CompletedProcess[str]]
PATIENCE_S = 60.0
SUMS, OTHERS = "What is 12 plus 28?\nCalculate 76+87\nHow much is 31 plus 74?", "Define a tree.\ngood morning\nhello"
NEW_SUM, PLAIN_START = "What is 12 plus 31?", "12 + 31 ="  # what nano then makes of it is another matter
QUESTION = {"model": "m", "messages": [{"role": "user", "content": NEW_SUM}], "temperature": 0}


@pytest.fixture
def sums(run: Run, tmp_path: Path) -> Path:
    """A direction that sums have in attention's output."""
    (tmp_path / "sums.txt").write_text(SUMS)
    (tmp_path / "others.txt").write_text(OTHERS)
    built = run("steer", "build", "--good", "sums.txt", "--bad", "others.txt", "--out", "sums.f32",
                "--component", "attn_out")  # fmt: skip
    assert built.returncode == 0, built.stderr
    return tmp_path / "sums.f32"


def test_an_answer_goes_another_way_under_a_steering(run: Run, sums: Path) -> None:
    asked = ("run", "-p", NEW_SUM, "--nothink", "--temp", "0")
    plain, zero = run(*asked), run(*asked, "--steering", "sums.f32", "--dir-steering-ffn", "0")
    away = run(*asked, "--steering", "sums.f32", "--dir-steering-attn", "3")
    assert plain.stdout == zero.stdout
    assert plain.stdout.startswith(PLAIN_START)
    assert away.returncode == 0
    assert not away.stdout.startswith("12")
    assert "steering: sums.f32, ffn 0, attention 3" in away.stderr
    assert "steering" not in zero.stderr


def test_a_chat_is_steered_in_the_middle_and_goes_on(run: Run, sums: Path) -> None:
    lines = [NEW_SUM, "/steer sums.f32 0 3", NEW_SUM, "/steer", "/steer none", "/steer off", NEW_SUM, "/steer 1"]
    result = run("run", "--nothink", "--temp", "0", stdin="\n".join(lines) + "\n")
    assert result.returncode == 0
    said = result.stdout.splitlines()
    assert said[0].startswith(PLAIN_START)
    assert said[1] == "steering: sums.f32, ffn 0, attention 3"
    assert not said[2].startswith("12")
    assert "steering: off" in said
    assert said.count("steering: sums.f32, ffn 0, attention 3") == 2
    assert "/steer none: expected a readable file; there is none" in result.stderr
    assert "there is no direction yet" in result.stderr
    read = [int(count) for count in re.findall(r"\((\d+) and \d+ tokens\)", result.stderr)]
    assert len(read) == 3
    assert read[0] < read[1] < read[2]  # all of the chat is read again: nothing of another steering is reused


@pytest.fixture
def serve(environment: dict[str, str], tmp_path: Path) -> Iterator[Callable[..., tuple[httpx2.Client, str]]]:
    with contextlib.ExitStack() as ends:

        def start(*flags: str) -> tuple[httpx2.Client, str]:
            words = [sys.executable, "-m", "whitedwarf", "serve", "--port", "0", "--drain-s", "0", *flags]
            process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=environment, cwd=tmp_path)
            ends.callback(process.communicate, timeout=PATIENCE_S)
            ends.callback(process.send_signal, signal.SIGTERM)
            said = ""
            assert process.stderr is not None
            for line in process.stderr:
                said += line
                if found := re.search(r"served at (http://\S+)", line):
                    client = ends.enter_context(httpx2.Client(base_url=found[1], timeout=PATIENCE_S))
                    return client, said
            raise AssertionError(said)

        yield start


def answer_of(client: httpx2.Client) -> str:
    asked = QUESTION | {"thinking": {"type": "disabled"}}
    reply = client.post("/v1/chat/completions", json=asked | {"max_tokens": 30}).json()
    return str(reply["choices"][0]["message"]["content"])


def test_a_server_answers_under_its_steering_and_tells_of_it(serve, sums: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    folder = ("--kv-disk-dir", "kv", "--kv-cache-min-tokens", "8")
    plain, _ = serve(*folder)
    assert answer_of(plain).startswith(PLAIN_START)
    assert plain.get("/props").json()["steering"] is None
    client, said = serve(*folder, "--steering", "sums.f32", "--dir-steering-attn", "3")
    assert "steering: sums.f32, ffn 0, attention 3" in said
    assert "not applied" not in said
    assert not answer_of(client).startswith("12")
    told = client.get("/props").json()["steering"]
    assert (told["file"], told["ffn"], told["attention"], len(told["digest"])) == ("sums.f32", 0.0, 3.0, 32)
    assert "sums.f32" in client.get("/").text
    assert (tmp_path / "kv" / f"steered-{told['digest']}").is_dir()


def test_a_file_of_another_model_stops_a_server(run: Run, tmp_path: Path) -> None:
    np.ones((3, 8), "<f4").tofile(tmp_path / "other.f32")
    result = run("serve", "--port", "0", "--steering", "other.f32")
    assert result.returncode == 1
    assert "other.f32: 96 bytes; expected 6144" in result.stderr
