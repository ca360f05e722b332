"""The programs that other tests take for real are there, and are what they are taken for."""

import socket
import subprocess
import time
from pathlib import Path

import httpx2
import pytest

from whitedwarf.gguf.reader import open_gguf
from whitedwarf.gguf.rewriting import rewrite
from whitedwarf.gguf.splitting import plan_split_by_count

pytestmark = pytest.mark.clients


def test_the_real_dsh_runs(dsh_program: Path, tmp_path: Path) -> None:
    environment = {"DSH_HOME": str(tmp_path), "DSH_TELEMETRY_MODE": "DISABLED"}
    done = subprocess.run([dsh_program, "--version"], env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_real_llama_server_answers_as_the_prompt_says(bare_llama_server: Path, markov: Path, tmp_path: Path) -> None:
    _check_answers(bare_llama_server, markov, tmp_path)


@pytest.mark.parametrize("metadata_alone", [False, True])
def test_a_real_llama_server_reads_what_we_split(
    bare_llama_server: Path, markov: Path, tmp_path: Path, metadata_alone: bool
) -> None:
    with open_gguf(markov) as model:
        paths = rewrite(plan_split_by_count(model, tmp_path / "part.gguf", 4, metadata_alone))
    assert len(paths) > 2
    _check_answers(bare_llama_server, paths[0], tmp_path)


def _check_answers(llama_server: Path, model: Path, folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    command = [llama_server, "-m", model, "--host", "127.0.0.1", "--port", port, "-c", "512", "--jinja"]
    with (folder / "log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as server:
        try:
            _until_healthy(f"http://127.0.0.1:{port}")
            for prompt, answer in ("Hello.", "OK"), ("Count from 5", "43210"):
                body = {"messages": [{"role": "user", "content": prompt}], "temperature": 0}
                told = httpx2.post(f"http://127.0.0.1:{port}/v1/chat/completions", json=body, timeout=60).json()
                assert told["choices"][0]["message"]["content"] == answer
        finally:
            server.kill()


def _until_healthy(url: str) -> None:
    deadline_s = time.monotonic() + 60
    while time.monotonic() < deadline_s:
        try:
            if httpx2.get(f"{url}/health", timeout=5).status_code == 200:
                return
        except httpx2.TransportError:
            pass
        time.sleep(0.05)
    raise AssertionError("not healthy in 60 s")
