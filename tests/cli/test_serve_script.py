"""`whitedwarf serve --script`: a whole process that answers from a file."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2

PATIENCE_S = 60.0
ADDRESS = re.compile(r"served at (http://\S+)")


@contextmanager
def served(script: Path, *flags: str) -> Iterator[str]:
    command = [sys.executable, "-m", "whitedwarf", "serve", "--script", str(script), "--port", "0", *flags]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONUTF8": "1"}) as process:
        assert process.stderr is not None
        try:
            line = next((line for line in process.stderr if "served at" in line), "")
            found = ADDRESS.search(line)
            assert found is not None, "the server ended before it listened"
            yield found[1]
        finally:
            process.send_signal(signal.SIGTERM)
            process.stderr.read()
            assert process.wait(PATIENCE_S) == 0


def test_a_script_answers_and_the_last_request_can_be_looked_at(tmp_path: Path) -> None:
    script = tmp_path / "script.jsonl"
    script.write_text(
        json.dumps({"pieces": ["Hm.", {"special": "</think>"}, "ok ", {"bytes": "f09f"}, {"bytes": "a694"}]})
    )
    with served(script, "--ctx", "30000") as url, httpx2.Client(base_url=url, timeout=PATIENCE_S) as client:
        assert client.get("/debug/last").json() == {"number": 0}
        body = {"messages": [{"role": "user", "content": "Hello"}]}
        answer = client.post("/v1/chat/completions", json=body).json()
        assert answer["choices"][0]["message"]["content"] == "ok 🦔"
        last = client.get("/debug/last").json()
        assert last["prompt"].endswith("<｜User｜>Hello<｜Assistant｜><think>")
        assert (last["number"], last["answer"], last["finish"]) == (1, "Hm.</think>ok 🦔", "stop")
        assert last["prompt_tokens"] == answer["usage"]["prompt_tokens"]
        assert client.get("/v1/models").json()["data"][0]["context_length"] == 30000


def test_a_bad_script_is_told_in_one_line(tmp_path: Path) -> None:
    script = tmp_path / "script.jsonl"
    script.write_text('{"pieces": []}\n{"pieces": 1}\n')
    command = [sys.executable, "-m", "whitedwarf", "serve", "--script", str(script), "--port", "0"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert ended.returncode == 1
    assert f'{script}, line 2: expected "pieces" to be an array' in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_signal_right_after_the_address_is_told_ends_it_in_order(tmp_path: Path) -> None:
    script = tmp_path / "script.jsonl"
    script.write_text('{"pieces": ["Hi"]}')
    for _ in range(3):
        with served(script):
            pass  # it ends with 0, or `served` complains


def test_an_answer_names_the_loaded_model_where_the_request_names_none(tmp_path: Path) -> None:
    script = tmp_path / "script.jsonl"
    script.write_text('{"pieces": ["Hi"]}')
    asked = [{"role": "user", "content": "Hello"}]
    with served(script) as url, httpx2.Client(base_url=url, timeout=PATIENCE_S) as client:
        (model,) = client.get("/v1/models").json()["data"]
        for path, body in {
            "/v1/chat/completions": {"messages": asked},
            "/v1/responses": {"input": asked},
            "/v1/messages": {"messages": asked, "max_tokens": 9},
            "/v1/completions": {"prompt": "Hello"},
        }.items():
            assert client.post(path, json=body).json()["model"] == model["id"]
            assert client.post(path, json={**body, "model": "mine"}).json()["model"] == "mine"


def test_a_model_is_told_by_its_alias(tmp_path: Path) -> None:
    script = tmp_path / "script.jsonl"
    script.write_text('{"pieces": ["Hi"]}')
    alias = "org/模型 v4:q2"
    with served(script, "--alias", alias) as url, httpx2.Client(base_url=url, timeout=PATIENCE_S) as client:
        (model,) = client.get("/v1/models").json()["data"]
        assert model["id"] == alias
        assert client.get(f"/v1/models/{alias}").json() == model
        body = {"messages": [{"role": "user", "content": "Hello"}]}
        assert client.post("/v1/chat/completions", json=body).json()["model"] == alias
