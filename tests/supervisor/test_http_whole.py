"""HTTP through a whole supervisor over stand-ins for llama-server (spec/supervisor.md 7: 20, 21, 22, 23)."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from fakes.desk import Client, get, post
from supervisor.children import until
from supervisor.supervisors import Supervisor, config_of, supervisor

pytestmark = pytest.mark.anyio
TALK = {"messages": [{"role": "user", "content": "go"}]}


async def to(it: Supervisor, key: str = "a") -> Client:
    return await Client.to(it.address(key).port)


def stream(**more: Any) -> bytes:
    return post({**TALK, "stream": True, **more})


async def test_a_stream_that_waits_for_a_cold_start_gets_headers_before_there_is_a_model(tmp_path: Path) -> None:
    config = config_of(tmp_path, "a", words=("--load-s", "1"), earlyHeadersSec=0.2)
    async with supervisor(tmp_path, config) as it:
        client = await to(it)
        await client.send(stream(fake={"events": 2}))
        status, headers = await client.head()
        assert (status, headers["content-type"]) == (200, "text/event-stream")
        assert it.children("ask") == []
        said = await client.body(headers)
        assert said.startswith(b":\n\n")
        assert said.endswith(b"data: [DONE]\n\n")
        await client.close()


async def test_an_overflow_after_early_headers_is_an_event(tmp_path: Path) -> None:
    config = config_of(tmp_path, "a", words=("--load-s", "1"), earlyHeadersSec=0.2)
    config["models"][0] |= {"ctxSize": 8192, "softContextLimit": 4000}
    async with supervisor(tmp_path, config) as it:
        client = await to(it)
        await client.send(post({"messages": [{"role": "user", "content": "x" * 5000}], "stream": True}))
        status, headers = await client.head()
        assert status == 200
        said = (await client.body(headers)).replace(b":\n\n", b"")
        error = json.loads(said.removeprefix(b"data: "))["error"]
        assert error["message"].startswith("request (5000 tokens) exceeds the available context size (4000 tokens)")
        assert [one["tokens"] for one in it.children("ask")] == [2]  # the warm-up alone
        await client.close()


@pytest.mark.parametrize("fake", [{"before": "hang"}, {"events": 1, "then": "hang"}])
async def test_a_model_that_hangs_can_be_left_and_unloaded(tmp_path: Path, fake: dict[str, Any]) -> None:
    async with supervisor(tmp_path, config_of(tmp_path, "a")) as it:
        first, second = await to(it), await to(it)
        for client in (first, second):
            await client.send(stream(fake=fake))
        await until(lambda: len(it.children("ask")) == 3)
        await first.close()
        async with asyncio.timeout(1):
            await until(lambda: len(it.children("left")) == 1)
        while (await it.status("a"))["in_flight"] != 1:
            await asyncio.sleep(0.01)
        assert (await it.order("a", "unload")).status == 200
        assert it.living() == []
        raw = await second.reader.read()
        assert not raw.endswith(b"0\r\n\r\n") or b" 503 " in raw
        assert (await it.chat("a")).status == 200
        await second.close()


async def test_a_slow_body_does_not_hold_up_another_model(tmp_path: Path) -> None:
    async with supervisor(tmp_path, config_of(tmp_path, "a", "b")) as it:
        assert (await it.chat("a")).status == 200
        slow = await to(it)
        request = post(TALK)
        await slow.send(request[:-5])
        assert (await it.chat("b")).status == 200
        assert (await it.status("a"))["state"] == "unloaded"
        await slow.send(request[-5:])
        assert (await slow.answer())[0] == 200
        await slow.close()


async def test_a_connection_that_idles_outlives_its_model(tmp_path: Path) -> None:
    async with supervisor(tmp_path, config_of(tmp_path, "a")) as it:
        client = await to(it)
        for _ in range(2):
            await client.send(post(TALK))
            assert (await client.answer())[0] == 200
            await it.order("a", "unload")
            await client.send(get("/v1/models"))
            assert b'"value":"unloaded"' in (await client.answer())[2]
        await client.close()
        assert len(it.children()) == 2


async def test_a_client_that_ends_its_side_is_answered_after_a_cold_start(tmp_path: Path) -> None:
    async with supervisor(tmp_path, config_of(tmp_path, "a", words=("--load-s", "1"))) as it:
        client = await to(it)
        await client.send(post(TALK))
        client.writer.write_eof()
        status, _, body = await client.answer()
        assert status == 200
        assert b'"OK"' in body
        await client.close()


async def test_what_happens_can_be_watched(tmp_path: Path) -> None:
    async with supervisor(tmp_path, config_of(tmp_path, "a", words=("--say", "hello from the model"))) as it:
        watcher, log = await to(it), await to(it)
        await watcher.send(get("/__supervisor/events"))
        await watcher.head()
        assert (await watcher.piece()).startswith(b"event: status\n")
        await it.chat("a")
        await log.send(get("/__supervisor/logs?follow=1"))
        await log.head()
        while b"hello from the model" not in await log.piece():
            pass
        assert b"hello from the model\n" in (await it.get("a", "/__supervisor/logs")).body
        await it.order("a", "unload")
        kinds = [(await watcher.piece()).split(b"\n")[0] for _ in range(4)]
        assert kinds == [b"event: loading", b"event: loaded", b"event: stopping", b"event: unloaded"]
        metrics = (await it.get("a", "/__supervisor/metrics")).body
        assert b'requests_total{model="a",outcome="200"} 1\n' in metrics
        assert b'starts_total{model="a"} 1\n' in metrics
        await watcher.close()
        await log.close()
