"""The whole supervisor over the real llama-server, and over our own engine with nano (spec/supervisor.md 7, R)."""

import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from supervisor.children import is_alive, until
from supervisor.real_models import NANO, content, counting_processes, entry, pids_of, rest, say
from supervisor.supervisors import JSON, supervisor
from whitedwarf.supervisor.failures import UpstreamCutError
from whitedwarf.supervisor.upstream import Address, Exchange, begin

pytestmark = [pytest.mark.anyio, pytest.mark.clients]


def real(folder: Path, llama_server: Path, *models: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "llamaServer": {"bin": str(llama_server), "args": ["--jinja", "-np", "1"]},
        "stateDir": str(folder / "state"),
        "logDir": str(folder / "logs"),
        "startSettleSec": 0,
        "checkIntervalSec": 0.2,
        "defaults": {"ctxSize": 1024},
        "models": list(models),
        **more,
    }


async def endless(address: Address) -> Exchange:
    """The alphabet again and again."""
    body = {"messages": [{"role": "user", "content": "a"}], "stream": True, "max_tokens": 100_000}
    exchange = await begin(address, "POST", "/v1/chat/completions", JSON, json.dumps(body).encode())
    assert exchange.status == 200
    await exchange.next_bytes()
    return exchange


async def test_a_task_and_its_title_share_the_first_start(tmp_path: Path, llama_server: Path, markov: Path) -> None:
    async with supervisor(tmp_path, real(tmp_path, llama_server, entry("m", markov)), limit_s=120) as it:
        assert pids_of(it) == []
        answers = await asyncio.gather(say(it, "m", "count from 5"), say(it, "m", "its title?"))
        assert [content(answer) for answer in answers] == ["43210", "OK"]
        assert (await it.status("m"))["start_count"] == 1
        assert (await it.status("m"))["context_size"] == 1024


async def test_a_stream_that_is_killed_is_cut_and_the_next_request_starts_anew(
    tmp_path: Path, llama_server: Path, markov: Path
) -> None:
    async with supervisor(tmp_path, real(tmp_path, llama_server, entry("m", markov)), limit_s=120) as it:
        async with await endless(it.address("m")) as stream:
            os.kill((await it.status("m"))["pid"], signal.SIGKILL)
            with pytest.raises(UpstreamCutError):
                await rest(stream)
        assert content(await say(it, "m", "count from 3")) == "210"
        assert (await it.status("m"))["start_count"] == 2


async def test_who_leaves_a_stream_frees_its_slot_soon(tmp_path: Path, llama_server: Path, markov: Path) -> None:
    config = real(tmp_path, llama_server, entry("m", markov, ctxSize=32768), idleTimeoutSec=1)
    async with supervisor(tmp_path, config, limit_s=120) as it:
        stream = await endless(it.address("m"))
        stream.close()
        left_s = time.monotonic()
        while json.loads((await it.get("m", "/slots")).body)[0]["is_processing"]:
            await asyncio.sleep(0.02)
        assert time.monotonic() - left_s < 10
        assert (await it.status("m"))["in_flight"] == 0
        while (await it.status("m"))["state"] != "unloaded":  # from then on it is idle
            await asyncio.sleep(0.05)
        assert pids_of(it) == []


async def test_streams_through_the_supervisor_are_those_of_the_server(
    tmp_path: Path, llama_server: Path, markov: Path
) -> None:
    async with supervisor(tmp_path, real(tmp_path, llama_server, entry("m", markov)), limit_s=120) as it:
        body = {"messages": [{"role": "user", "content": "9"}], "stream": True, "temperature": 0}
        await say(it, "m", "wake up")
        told = []
        for port in ((await it.status("m"))["internal_port"], it.address("m").port):
            where = Address("127.0.0.1", port)
            async with await begin(where, "POST", "/v1/chat/completions", JSON, json.dumps(body).encode()) as exchange:
                told.append([json.loads(event[6:]) for event in (await rest(exchange)).split(b"\n\n")[:-2]])
        deltas = [[event["choices"][0]["delta"] for event in events if event["choices"]] for events in told]
        assert deltas[0] == deltas[1]
        assert len(deltas[0]) > 9


async def test_two_models_take_turns_and_are_never_both_there(tmp_path: Path, llama_server: Path, markov: Path) -> None:
    config = real(tmp_path, llama_server, entry("one", markov), entry("two", markov))
    async with supervisor(tmp_path, config, limit_s=120) as it:
        async with counting_processes(it) as seen:
            for _ in range(3):
                answers = await asyncio.gather(*(say(it, key, "count from 4") for key in ("one", "two", "one")))
                assert [content(answer) for answer in answers] == ["3210"] * 3
        assert max(seen) == 1


async def test_another_model_waits_until_a_stream_has_ended(tmp_path: Path, llama_server: Path, markov: Path) -> None:
    config = real(tmp_path, llama_server, entry("one", markov, ctxSize=4096), entry("two", markov))
    async with supervisor(tmp_path, config, limit_s=120) as it:
        async with await endless(it.address("one")) as stream:
            waiting = asyncio.create_task(say(it, "two", "count from 2"))
            assert (await rest(stream)).endswith(b"data: [DONE]\n\n")
        assert content(await waiting) == "10"


async def test_an_open_stream_does_not_hold_up_the_end(tmp_path: Path, llama_server: Path, markov: Path) -> None:
    config = real(tmp_path, llama_server, entry("m", markov, ctxSize=32768))
    async with (
        supervisor(tmp_path, config, limit_s=120) as it,
        await endless(it.address("m")) as stream,
    ):
        [child] = pids_of(it)
        began_s = time.monotonic()
        os.kill(it.pid, signal.SIGTERM)
        with pytest.raises(UpstreamCutError):
            await rest(stream)
        assert await it.code() == 0
        assert time.monotonic() - began_s < 20  # llama-server alone takes half a minute
        assert not is_alive(child)


async def test_a_supervisor_that_is_killed_takes_its_server_with_it(
    tmp_path: Path, llama_server: Path, markov: Path
) -> None:
    config = real(tmp_path, llama_server, entry("m", markov))
    async with supervisor(tmp_path, config, limit_s=120) as it:
        assert content(await say(it, "m", "count from 1")) == "0"
        [child] = pids_of(it)
        os.kill(it.pid, signal.SIGKILL)
        await it.code()
        if sys.platform == "linux":
            await until(lambda: not is_alive(child))
        it.said.write_text("")
        await it.begin()
        await it.ready()
        assert content(await say(it, "m", "count from 1")) == "0"


async def test_what_was_read_outlives_a_release(tmp_path: Path, llama_server: Path, markov: Path) -> None:
    config = real(tmp_path, llama_server, entry("m", markov))
    prompt = "x" * 600 + " count from 5"
    async with supervisor(tmp_path, config, limit_s=120) as it:
        await say(it, "m", prompt)
        await it.order("m", "unload")
        assert pids_of(it) == []
        answer = await say(it, "m", prompt)
    assert content(answer) == "43210"
    assert json.loads(answer.body)["usage"]["prompt_tokens_details"]["cached_tokens"] > 500


async def test_a_soft_limit_is_exact_and_speaks_as_llama_server_does(
    tmp_path: Path, llama_server: Path, markov: Path
) -> None:
    config = real(tmp_path, llama_server, entry("m", markov, ctxSize=2048, softContextLimit=1500))
    async with supervisor(tmp_path, config, limit_s=120) as it:
        refused = await say(it, "m", "y" * 1700 + "?")
        tokens = json.loads(refused.body)["error"]["n_prompt_tokens"]
        said = f"request ({tokens} tokens) exceeds the available context size (1500 tokens), try increasing it"
        error = {"code": 400, "message": said, "type": "exceed_context_size_error", "n_prompt_tokens": tokens}
        whole = json.dumps({"error": {**error, "n_ctx": 1500}}, separators=(",", ":")).encode()
        assert (refused.status, refused.body) == (400, whole)
        assert content(await say(it, "m", "y" * 1700 + "?")) == "OK"  # its summary
        over = await say(it, "m", "z" * 3000 + "?")
        assert json.loads(over.body)["error"]["n_ctx"] == 2048


async def test_our_own_engine_is_released_and_remembers_its_prompts(tmp_path: Path) -> None:
    words = "Tell me what you know about the capital cities of these countries: " + "France, Norway, " * 450
    config = {
        "stateDir": str(tmp_path / "state"),
        "checkIntervalSec": 0.2,
        "startSettleSec": 0,
        "models": [entry("nano", NANO, ctxSize=8192, idleTimeoutSec=1)],
    }
    async with supervisor(tmp_path, config, limit_s=120) as it:
        cached = []
        for _ in range(2):
            answer = await say(it, "nano", words, max_tokens=8)
            cached.append(json.loads(answer.body)["usage"]["prompt_tokens_details"]["cached_tokens"])
            while pids_of(it):
                await asyncio.sleep(0.05)
    assert cached[0] < 100
    assert cached[1] == 2048
