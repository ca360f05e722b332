"""The whole supervisor over a real llama-server and over our own engine (spec/supervisor.md 7, those with R)."""

import asyncio
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from supervisor.children import is_alive, until
from supervisor.supervisors import JSON, Supervisor, model_of, read_to_the_end, supervisor
from whitedwarf.supervisor.failures import UpstreamCutError
from whitedwarf.supervisor.upstream import Address, Answer, Exchange, ask, begin
from whitedwarf.weights.store import bundled_model

pytestmark = [pytest.mark.anyio]


def real(folder: Path, server: Path, markov: Path, *keys: str, words: tuple[str, ...] = (), **more: Any) -> Any:
    models = [{**model_of(folder, key), "path": str(markov), "ctxSize": 1024, **more} for key in keys]
    return {
        "llamaServer": {"bin": str(server), "args": ["-np", "1", "--jinja", *words]},
        "stateDir": str(folder / "state"),
        "logDir": str(folder / "logs"),
        "startSettleSec": 0,
        "checkIntervalSec": 0.2,
        "models": models,
    }


def processes_of(it: Supervisor) -> list[int]:
    return [child.pid for child in psutil.Process(it.pid).children()]


async def direct(it: Supervisor, key: str, body: dict[str, Any]) -> Answer:
    """The same request to the server behind."""
    port = (await it.status(key))["internal_port"]
    raw = json.dumps(body).encode()
    return await ask(Address("127.0.0.1", port), "POST", "/v1/chat/completions", JSON, raw, timeout_s=60)


async def endless(it: Supervisor, key: str) -> Exchange:
    body = {"messages": [{"role": "user", "content": "go on a"}], "stream": True, "temperature": 0}
    exchange = await begin(it.address(key), "POST", "/v1/chat/completions", JSON, json.dumps(body).encode())
    assert exchange.status == 200
    await exchange.next_bytes()
    return exchange


@pytest.mark.clients
async def test_first_requests_share_a_start_and_a_killed_server_is_replaced(
    tmp_path: Path, llama_server: Path, markov: Path
) -> None:
    async with supervisor(tmp_path, real(tmp_path, llama_server, markov, "m")) as it:
        answers = await asyncio.gather(it.chat("m", "count 5"), it.chat("m", "title"))
        assert [answer.status for answer in answers] == [200, 200]
        [child] = processes_of(it)
        stream = await endless(it, "m")
        async with stream:
            os.kill(child, signal.SIGKILL)
            with pytest.raises(UpstreamCutError):
                await read_to_the_end(stream)
        assert (await it.chat("m", "count 5")).status == 200
        assert (await it.status("m"))["start_count"] == 2


@pytest.mark.clients
async def test_two_real_models_take_turns(tmp_path: Path, llama_server: Path, markov: Path) -> None:
    async with supervisor(tmp_path, real(tmp_path, llama_server, markov, "a", "b")) as it:
        for _ in range(3):
            answers = await asyncio.gather(*(it.chat(key, "count 3") for key in "abab"))
            assert [json.loads(answer.body)["model"] for answer in answers] == ["a", "b", "a", "b"]
            assert len(processes_of(it)) == 1


@pytest.mark.clients
async def test_a_client_that_leaves_frees_the_slot(tmp_path: Path, llama_server: Path, markov: Path) -> None:
    async with supervisor(tmp_path, real(tmp_path, llama_server, markov, "m")) as it:
        async with await endless(it, "m"):
            assert (await it.status("m"))["in_flight"] == 1
        began = time.monotonic()
        while (await it.status("m"))["in_flight"] or json.loads((await it.get("m", "/slots")).body)[0]["is_processing"]:
            await asyncio.sleep(0.05)
        assert time.monotonic() - began < 5


@pytest.mark.clients
async def test_the_end_does_not_wait_for_an_open_stream(tmp_path: Path, llama_server: Path, markov: Path) -> None:
    async with supervisor(tmp_path, real(tmp_path, llama_server, markov, "m")) as it:
        async with await endless(it, "m") as stream:
            [child] = processes_of(it)
            began = time.monotonic()
            os.kill(it.pid, signal.SIGTERM)
            with pytest.raises(UpstreamCutError):
                await read_to_the_end(stream)
            assert await it.code() == 0
        assert time.monotonic() - began < 15
        assert not is_alive(child)


@pytest.mark.clients
async def test_the_soft_limit_says_what_the_server_would_say(tmp_path: Path, llama_server: Path, markov: Path) -> None:
    config = real(tmp_path, llama_server, markov, "m", softContextLimit=600)
    async with supervisor(tmp_path, config) as it:
        assert (await it.chat("m", "x" * 100 + "!")).status == 200
        over = {"messages": [{"role": "user", "content": "x" * 2000}]}
        theirs = await direct(it, "m", over)
        real_one = await it.chat("m", "x" * 2000)
        assert (real_one.status, real_one.body) == (theirs.status, theirs.body)
        ours = await it.chat("m", "y" * 800)
        facts = json.loads(ours.body)["error"]
        assert (ours.status, facts["n_ctx"]) == (400, 600)
        numbers = [(facts["n_prompt_tokens"], json.loads(theirs.body)["error"]["n_prompt_tokens"]), (600, 1024)]
        expected = theirs.body
        for mine, other in numbers:
            expected = expected.replace(str(other).encode(), str(mine).encode())
        assert ours.body == expected
        streamed = await it.chat("m", "z" * 800, stream=True)
        assert (streamed.status, streamed.body) == (400, ours.body)
        assert (await it.status("m"))["counting"] == "exact"
        assert (await it.chat("m", "y" * 800)).status == 200  # grace


@pytest.mark.clients
async def test_a_real_context_below_the_soft_limit_lowers_it(tmp_path: Path, llama_server: Path, markov: Path) -> None:
    config = real(tmp_path, llama_server, markov, "m", softContextLimit=600)
    config["llamaServer"]["args"] = ["-np", "2", "--no-kv-unified", "--jinja"]
    async with supervisor(tmp_path, config) as it:
        assert (await it.chat("m", "count 3")).status == 200
        status = await it.status("m")
        assert (status["context_size"], status["soft_limit"]) == (512, 300)
        assert any("lowered from 600 to 300" in warning for warning in status["warnings"])


async def test_our_own_engine_comes_and_goes_with_its_state(tmp_path: Path) -> None:
    config = {
        "stateDir": str(tmp_path / "state"),
        "logDir": str(tmp_path / "logs"),
        "startSettleSec": 0,
        "models": [{**model_of(tmp_path, "nano"), "path": str(bundled_model()), "backend": "whitedwarf"}],
    }
    async with supervisor(tmp_path, config) as it:
        assert (await it.chat("nano", "Hello", max_tokens=4)).status == 200
        [child] = processes_of(it)
        unloaded = await it.order("nano", "unload")
        assert unloaded.status == 200
        assert not is_alive(child)
        assert (await it.chat("nano", "Hello", max_tokens=4)).status == 200
        status = await it.status("nano")
        assert (status["state"], status["start_count"]) == ("loaded", 2)
        long = await it.chat("nano", "word " * 2 * status["soft_limit"], max_tokens=4)
        assert json.loads(long.body)["error"]["type"] == "exceed_context_size_error"
        assert (await it.status("nano"))["counting"] == "exact"
    await until(lambda: not is_alive(child))
