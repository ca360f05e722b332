"""The supervisor's own addresses: reading, orders, who may ask (spec/supervisor.md 1.5, 2.26; 7: 31)."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from fakes.desk import Client, Supervised, asked, get, post, supervised
from whitedwarf.supervisor import events
from whitedwarf.supervisor.events import with_pings
from whitedwarf.supervisor.failures import StartFailedError
from whitedwarf.supervisor.upstream import Address
from whitedwarf.web.auth import ApiKeys

pytestmark = pytest.mark.anyio
DOWN = Address("127.0.0.1", 9)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def it() -> AsyncIterator[Supervised]:
    async with supervised(DOWN, kinds=("managed", "external")) as one:
        yield one


def order(path: str, more: bytes = b"") -> bytes:
    return post(b"", f"/__supervisor/{path}", more)


async def test_status_tells_every_model_on_every_port(it: Supervised) -> None:
    for port in it.ports:
        status, headers, body = await asked(port, get("/__supervisor/status"))
        told = json.loads(body)
        assert (status, headers["cache-control"]) == (200, "no-store")
        assert [one["key"] for one in told["models"]] == ["one", "two"]
        assert [one["kind"] for one in told["models"]] == ["managed", "external"]
        assert told["models"][0]["state"] == "loaded"
        assert told["models"][0]["loaded"] is True
        assert told["rss_bytes"] > 1_000_000
        assert told["pid"] > 0
    assert it.desk.visits == []


@pytest.mark.parametrize(
    ("path", "call"),
    [
        ("unload", ("unload", None, False)),
        ("unload?drain=1", ("unload", None, True)),
        ("unload?drain=0", ("unload", None, False)),
        ("unload?model=one", ("unload", "one", False)),
        ("unload?drain=1&model=one", ("unload", "one", True)),
        ("start", ("start", "one")),
        ("start?model=one", ("start", "one")),
    ],
)
async def test_orders_reach_the_desk(it: Supervised, path: str, call: tuple[object, ...]) -> None:
    status, _, body = await asked(it.port, order(path))
    assert status == 200
    assert it.desk.orders == [call]
    assert json.loads(body) == ({"unloaded": ["one"]} if path.startswith("unload") else {"started": "one"})


@pytest.mark.parametrize("fails", [None, StartFailedError("no such file", is_permanent=True)])
async def test_a_button_of_the_page_leads_back_to_it(it: Supervised, fails: StartFailedError | None) -> None:
    it.desk.fails = fails
    accept = b"Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n"
    status, headers, body = await asked(it.port, order("start?model=one", accept))
    assert (status, headers["location"], body) == (303, "/__supervisor/", b"")
    assert (await asked(it.port, order("start?model=nobody", accept)))[0] == 404


@pytest.mark.parametrize("path", ["unload?model=nobody", "start?model=nobody", "start?model="])
async def test_an_order_for_a_model_that_is_none_names_those_there_are(it: Supervised, path: str) -> None:
    status, _, body = await asked(it.port, order(path))
    assert status == 404
    assert "expected one of one, two" in json.loads(body)["error"]["message"]
    assert it.desk.orders == []


async def test_a_server_of_somebody_else_cannot_be_started(it: Supervised) -> None:
    assert (await asked(it.ports[1], order("start")))[0] == 400
    assert it.desk.orders == []


async def test_a_start_that_fails_says_why(it: Supervised) -> None:
    it.desk.fails = StartFailedError("no such file", is_permanent=True, log_tail=("E bad",))
    status, _, body = await asked(it.port, order("start"))
    assert status == 400
    assert "E bad" in json.loads(body)["error"]["message"]


@pytest.mark.parametrize("path", ["unload", "start"])
async def test_reading_never_orders(it: Supervised, path: str) -> None:
    assert (await asked(it.port, get(f"/__supervisor/{path}")))[0] == 405
    assert (await asked(it.port, post(b"", "/__supervisor/status")))[0] == 405
    assert (await asked(it.port, get("/__supervisor/nothing")))[0] == 404
    assert (await asked(it.port, get("/__supervisor/events", method="HEAD")))[0] == 405
    assert (await asked(it.port, get("/__supervisor/", method="HEAD")))[0] == 200
    assert it.desk.orders == []


@pytest.mark.parametrize("path", ["/__supervisor/unload", "/__supervisor/start", "/v1/chat/completions"])
@pytest.mark.parametrize(
    "more",
    [
        b"Origin: https://evil.example\r\n",
        b"Origin: null\r\n",
        b"Origin: http://127.0.0.1:1\r\n",
        b"Sec-Fetch-Site: cross-site\r\n",
    ],
)
async def test_a_page_of_the_net_can_neither_order_nor_ask(it: Supervised, path: str, more: bytes) -> None:
    status, _, _ = await asked(it.port, post(b"{}", path, more))
    assert status == 403
    assert it.desk.orders == it.desk.visits == []


@pytest.mark.parametrize("path", ["/__supervisor/status", "/__supervisor/", "/health", "/v1/models", "/props"])
async def test_a_name_that_is_not_ours_reads_nothing(it: Supervised, path: str) -> None:
    request = get(path).replace(b"Host: 127.0.0.1", b"Host: rebound.example")
    assert (await asked(it.port, request))[0] == 403


async def test_our_own_page_may_order(it: Supervised) -> None:
    host = b"127.0.0.1:%d" % it.port
    request = order("unload", b"Origin: http://" + host + b"\r\nSec-Fetch-Site: same-origin\r\n")
    assert (await asked(it.port, request.replace(b"Host: 127.0.0.1", b"Host: " + host)))[0] == 200


async def test_a_name_may_be_allowed() -> None:
    async with supervised(DOWN, allowed_hosts=("Box.lan",)) as it:
        assert (await asked(it.port, get("/health").replace(b"127.0.0.1", b"box.LAN:80")))[0] == 200


async def test_keys_are_asked_for_everywhere_but_for_health() -> None:
    async with supervised(DOWN, keys=ApiKeys(["secret"])) as it:
        for request in (get("/__supervisor/status"), get("/v1/models"), order("unload"), post({}), get("/props")):
            status, _, body = await asked(it.port, request)
            assert status == 401
            assert body == b'{"error":{"message":"Invalid API Key","type":"authentication_error","code":401}}'
        for path in ("/health", "/v1/health"):  # to ask there is open, to wake the model is not
            assert (await asked(it.port, post({}, path)))[0] == 401
        assert it.desk.orders == it.desk.visits == []
        assert (await asked(it.port, get("/health")))[0] == 200
        assert (await asked(it.port, get("/v1/models", b"Authorization: Bearer secret\r\n")))[0] == 200
        assert (await asked(it.port, order("unload", b"X-Api-Key: secret\r\n")))[0] == 200
        assert (await asked(it.port, get("/x", method="OPTIONS")))[0] == 200


async def test_a_query_of_too_many_parts_is_refused_in_words(it: Supervised) -> None:
    query = "&".join(f"a{number}=1" for number in range(101))
    for request in (get(f"/__supervisor/logs?{query}"), order(f"unload?{query}"), order(f"start?{query}")):
        status, _, body = await asked(it.port, request)
        assert (status in (400, 404), b"at most 100 parameters" in body) == (True, True)
    assert it.desk.orders == []


async def test_events_begin_with_how_things_stand_and_go_on_with_what_happens(
    it: Supervised, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "PING_EVERY_S", 0.02)
    client = await Client.to(it.port)
    await client.send(get("/__supervisor/events"))
    _, headers = await client.head()
    assert headers["content-type"] == "text/event-stream"
    name, _, data = (await client.piece()).partition(b"\n")
    assert name == b"event: status"
    assert json.loads(data.removeprefix(b"data: "))["models"][0]["key"] == "one"
    assert await client.piece() == b":\n\n"
    it.desk.happens("it is there")
    while (piece := await client.piece()) == b":\n\n":
        pass
    assert piece == b'event: loaded\ndata: {"kind":"loaded","key":"one","at_s":1.5,"text":"it is there"}\n\n'
    it.desk.events.put_nowait(None)
    assert (await client.body({})).strip(b":\n") == b""
    await client.close()


async def test_items_are_not_lost_between_pings() -> None:
    async def slow() -> AsyncIterator[int]:
        for index in range(3):
            await asyncio.sleep(0.03)
            yield index

    assert [one async for one in with_pings(slow(), 0.01) if one is not None] == [0, 1, 2]


class FakeLog:
    def __init__(self) -> None:
        self.lines: asyncio.Queue[str] = asyncio.Queue()

    def tail(self, lines: int = 20) -> tuple[str, ...]:
        return tuple(f"line {index}" for index in range(300))[-lines:]

    async def follow(self, lines: int = 20) -> AsyncIterator[str]:
        for line in self.tail(lines):
            yield line
        while True:
            yield await self.lines.get()


async def test_logs_can_be_read_and_followed() -> None:
    log = FakeLog()
    async with supervised(DOWN, kinds=("managed", "managed"), log_of={"one": log}.get) as it:
        status, headers, body = await asked(it.port, get("/__supervisor/logs?lines=2"))
        assert (status, body) == (200, b"line 298\nline 299\n")
        assert headers["content-type"].startswith("text/plain")
        assert (await asked(it.ports[1], get("/__supervisor/logs?model=one")))[2].count(b"\n") == 200
        for wrong, expected in (("?model=two", 404), ("?lines=x", 400), ("?lines=0", 400), ("?model=nobody", 400)):
            assert (await asked(it.port, get(f"/__supervisor/logs{wrong}")))[0] == expected
        client = await Client.to(it.port)
        await client.send(get("/__supervisor/logs?follow=1&lines=2"))
        await client.head()
        assert [await client.piece() for _ in range(2)] == [b"line 298\n", b"line 299\n"]
        for line in ("a", "b"):
            log.lines.put_nowait(line)
            assert await client.piece() == line.encode() + b"\n"
        await client.close()


async def test_a_server_of_somebody_else_has_no_log_here(it: Supervised) -> None:
    status, _, body = await asked(it.ports[1], get("/__supervisor/logs"))
    assert status == 404
    assert "somebody else" in json.loads(body)["error"]["message"]


async def test_the_page_is_whole_in_itself_and_escapes_what_it_is_told() -> None:
    async with supervised(DOWN) as it:
        it.desk.loading_text = "<script>alert(1)</script>"
        for path in ("/__supervisor", "/__supervisor/"):
            status, headers, body = await asked(it.port, get(path))
            assert status == 200
            assert headers["content-security-policy"].startswith("default-src 'none'")
            assert b"<script" not in body
            assert b"&lt;script" in body
            assert b"http://" not in body
            assert b'action="/__supervisor/unload?model=one"' in body
