"""The whole supervisor over our own engine with nano: those of spec/supervisor.md 7 that want a real server (R)."""

import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from supervisor.chaos import stranger
from supervisor.children import is_alive, until
from supervisor.real_models import NANO, content, counting_processes, entry, pids_of, rest, say
from supervisor.supervisors import JSON, Supervisor, supervisor
from whitedwarf.supervisor.failures import UpstreamCutError
from whitedwarf.supervisor.upstream import Exchange, begin

pytestmark = [pytest.mark.anyio, pytest.mark.clients]

LIMIT_S = 240
"""It takes seconds to start, and more where other things run."""
NUMBERS = {"type": "array", "minItems": 100_000, "items": {"type": "integer"}}
"""What an answer of this form says has no end."""


def nano(key: str, path: Path = NANO, **more: Any) -> dict[str, Any]:
    return entry(key, path, ctxSize=8192, args=["--threads", "1"], **more)


def ours(folder: Path, *models: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "stateDir": str(folder / "state"),
        "startSettleSec": 0,
        "checkIntervalSec": 0.2,
        "defaults": {"keepsState": False},
        "models": list(models),
        **more,
    }


async def endless(it: Supervisor, key: str) -> Exchange:
    form = {"type": "json_schema", "json_schema": {"name": "numbers", "strict": True, "schema": NUMBERS}}
    body = {
        "messages": [{"role": "user", "content": "Count."}],
        "stream": True,
        "max_tokens": 8000,
        "response_format": form,
    }
    exchange = await begin(it.address(key), "POST", "/v1/chat/completions", JSON, json.dumps(body).encode())
    assert exchange.status == 200
    await exchange.next_bytes()
    return exchange


async def test_a_task_and_its_title_share_the_first_start(tmp_path: Path) -> None:
    async with supervisor(tmp_path, ours(tmp_path, nano("m")), limit_s=LIMIT_S) as it:
        assert pids_of(it) == []
        answers = await asyncio.gather(say(it, "m", "What is the capital of France?"), say(it, "m", "A title?"))
        assert all(content(answer) for answer in answers)
        assert (await it.status("m"))["start_count"] == 1


async def test_a_file_that_is_no_model_is_told_and_not_tried_for_every_request(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(100))
    async with supervisor(tmp_path, ours(tmp_path, nano("m", broken)), limit_s=LIMIT_S) as it:
        first, second = await say(it, "m", "hi"), await say(it, "m", "hi")
        assert 400 <= first.status < 500
        assert str(broken) in json.loads(first.body)["error"]["message"]
        assert second.body == first.body
        assert (await it.status("m"))["start_count"] == 1
        assert pids_of(it) == []


async def test_a_stream_that_is_killed_is_cut_and_the_next_request_starts_anew(tmp_path: Path) -> None:
    async with supervisor(tmp_path, ours(tmp_path, nano("m")), limit_s=LIMIT_S) as it:
        async with await endless(it, "m") as stream:
            os.kill((await it.status("m"))["pid"], signal.SIGKILL)
            with pytest.raises(UpstreamCutError):
                await rest(stream)
        assert content(await say(it, "m", "hi"))
        assert (await it.status("m"))["start_count"] == 2


async def test_a_stolen_port_is_stepped_over(tmp_path: Path) -> None:
    config = ours(tmp_path, nano("m"))
    async with stranger(config["models"][0]["internalPort"]), supervisor(tmp_path, config, limit_s=LIMIT_S) as it:
        assert b"stranger" not in (await say(it, "m", "hi")).body
        status = await it.status("m")
    assert status["internal_port"] != config["models"][0]["internalPort"]
    assert "is used by" in status["warnings"][0]


async def test_who_leaves_a_stream_frees_its_place_soon(tmp_path: Path) -> None:
    config = ours(tmp_path, nano("m"), idleTimeoutSec=1)
    async with supervisor(tmp_path, config, limit_s=LIMIT_S) as it:
        stream = await endless(it, "m")
        stream.close()
        left_s = time.monotonic()
        while b"end=cancelled" not in (await it.get("m", "/__supervisor/logs")).body:
            await asyncio.sleep(0.02)
        assert time.monotonic() - left_s < 10
        assert (await it.status("m"))["in_flight"] == 0
        while (await it.status("m"))["state"] != "unloaded":  # from then on it is idle
            await asyncio.sleep(0.05)
        assert pids_of(it) == []


async def test_two_models_take_turns_and_are_never_both_there(tmp_path: Path) -> None:
    async with supervisor(tmp_path, ours(tmp_path, nano("one"), nano("two")), limit_s=LIMIT_S) as it:
        async with counting_processes(it) as seen:
            answers = await asyncio.gather(*(say(it, key, "hi") for key in ("one", "two", "one", "two")))
        assert [json.loads(answer.body)["model"] for answer in answers] == ["one", "two", "one", "two"]
        assert max(seen) == 1
        assert [(await it.status(key))["start_count"] for key in ("one", "two")] == [1, 1]


async def test_an_open_stream_does_not_hold_up_the_end(tmp_path: Path) -> None:
    async with (
        supervisor(tmp_path, ours(tmp_path, nano("m")), limit_s=LIMIT_S) as it,
        await endless(it, "m") as stream,
    ):
        [child] = pids_of(it)
        began_s = time.monotonic()
        os.kill(it.pid, signal.SIGTERM)
        with pytest.raises(UpstreamCutError):
            await rest(stream)
        assert await it.code() == 0
        assert time.monotonic() - began_s < 60
        assert not is_alive(child)


async def test_a_supervisor_that_is_killed_takes_its_model_with_it(tmp_path: Path) -> None:
    async with supervisor(tmp_path, ours(tmp_path, nano("m")), limit_s=LIMIT_S) as it:
        assert content(await say(it, "m", "hi"))
        [child] = pids_of(it)
        os.kill(it.pid, signal.SIGKILL)
        await it.code()
        if sys.platform == "linux":
            await until(lambda: not is_alive(child))
        it.said.write_text("")
        await it.begin()
        await it.ready()
        assert content(await say(it, "m", "hi"))
        assert not is_alive(child)


async def test_a_context_below_the_soft_limit_lowers_it_and_is_told(tmp_path: Path) -> None:
    model = entry("m", NANO, softContextLimit=3000, args=["--threads", "1", "--ctx", "2048"])
    async with supervisor(tmp_path, ours(tmp_path, model), limit_s=LIMIT_S) as it:
        assert content(await say(it, "m", "hi"))
        status = await it.status("m")
        assert (status["context_size"], status["soft_limit"]) == (2048, 1536)
        assert "soft limit lowered from 3000 to 1536" in " ".join(status["warnings"])
        refused = await say(it, "m", "France, Norway, " * 450)
        assert refused.status == 400
        assert json.loads(refused.body)["error"]["type"] == "exceed_context_size_error"
