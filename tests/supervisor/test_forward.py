"""Bytes on their way to the server behind and back: nothing changed, nothing held up, one replay, honest cuts."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from fakes.desk import (
    STREAM_HEAD,
    Client,
    answer,
    asked,
    chunk,
    get,
    left,
    post,
    read_request,
    server,
    supervised,
)
from whitedwarf.supervisor.forward import back, joined, onward
from whitedwarf.supervisor.upstream import Address
from whitedwarf.web.auth import ApiKeys

pytestmark = pytest.mark.anyio
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def saying(*pieces: bytes) -> Talk:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        for piece in pieces:
            writer.write(piece)
            await writer.drain()

    return talk


class Counted:
    """Says something else each time; b"" for nothing. The last one again and again."""

    def __init__(self, *says: bytes) -> None:
        self.requests: list[tuple[bytes, bytes]] = []
        self._says = says

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.requests.append(await read_request(reader))
        writer.write(self._says[min(len(self.requests), len(self._says)) - 1])


def test_only_the_headers_of_the_connection_are_left_out() -> None:
    sent = (
        (b"host", b"a"),
        (b"connection", b"keep-alive, X-Hop"),
        (b"x-hop", b"1"),
        (b"te", b"trailers"),
        (b"expect", b"100-continue"),
        (b"content-length", b"3"),
        (b"x-mine", b"1"),
        (b"authorization", b"Bearer local"),
        (b"x-mine", b"2"),
    )
    assert onward(sent) == ((b"x-mine", b"1"), (b"authorization", b"Bearer local"), (b"x-mine", b"2"))
    assert onward(sent, "key")[-1] == (b"authorization", b"Bearer key")
    assert len(onward(sent, "key")) == 3
    assert onward(sent, keeps_keys=False) == ((b"x-mine", b"1"), (b"x-mine", b"2"))
    received = ((b"Transfer-Encoding", b"chunked"), (b"Content-Type", b"a"), (b"Keep-Alive", b"5"), (b"Server", b"x"))
    assert back(received, 200) == ((b"content-type", b"a"), (b"server", b"x"))
    assert back(received, 400)[-1] == (b"connection", b"close")
    assert back(((b"Content-Length", b"5"), (b"ETag", b"x")), 304) == ((b"etag", b"x"),)


@pytest.mark.parametrize(
    ("url", "target", "path"),
    [
        ("http://h:1", "/v1/chat/completions?a", "/v1/chat/completions?a"),
        ("http://h:1", "/chat/completions", "/chat/completions"),
        ("http://h:1/v1", "/v1/chat/completions?a", "/v1/chat/completions?a"),
        ("http://h:1/v1/", "/chat/completions", "/v1/chat/completions"),
        ("http://h:1/v1", "/props", "/props"),
        ("http://h:1/v1", "/v1", "/v1"),
        ("http://h:1/v1", "/v11", "/v1/v11"),
        ("http://h:1/a/b", "/v1/models", "/a/b/v1/models"),
        ("http://h:1/a/b/v1", "/v1/models", "/a/b/v1/models"),
        ("http://h:1/a/b/v1", "/models", "/a/b/v1/models"),
    ],
)
def test_urls_are_joined_with_and_without_v1(url: str, target: str, path: str) -> None:
    address, rest = joined(Address.of_url(url), target)
    assert address.prefix + rest == path


async def test_a_stream_arrives_in_the_bytes_that_were_sent() -> None:
    events = [b'data: {"a":"\xc3\xa9\r\n"}\n\n', b": ping\n\n", b"data: \xff\xfe\n", b"\r\ndata: [DONE]\n\n"]
    talk = saying(STREAM_HEAD, *map(chunk, events), b"0\r\n\r\n")
    async with server(talk) as address, supervised(address) as it:
        status, headers, body = await asked(it.port, post({"stream": True}))
        assert (status, body) == (200, b"".join(events))
        assert headers["content-type"] == "text/event-stream"
        assert headers["x-accel-buffering"] == "no"


async def test_each_event_is_forwarded_as_soon_as_it_is_there() -> None:
    has_come = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(STREAM_HEAD)
        for number in range(5):  # each only after the last one has come
            writer.write(chunk(b"data: %d\n\n" % number))
            await has_come.wait()
            has_come.clear()
        writer.write(b"0\r\n\r\n")

    async with server(talk) as address, supervised(address) as it:
        client = await Client.to(it.port)
        await client.send(post({"stream": True}))
        await client.head()
        for number in range(5):
            assert await client.piece() == b"data: %d\n\n" % number
            has_come.set()
        await client.close()


async def test_a_body_without_length_gets_frames_and_one_with_length_keeps_it() -> None:
    async with server(saying(b"HTTP/1.1 200 OK\r\n\r\nall ", b"of it")) as address, supervised(address) as it:
        _, headers, body = await asked(it.port, post({}))
        assert (body, headers["transfer-encoding"]) == (b"all of it", "chunked")
    async with server(saying(answer(b"1234"))) as address, supervised(address) as it:
        assert (await asked(it.port, post({})))[1]["content-length"] == "4"


async def test_a_refusal_of_the_model_comes_back_as_it_is() -> None:
    body = b'{"error":{"code":400,"message":"x","type":"invalid_request_error"}}'
    async with server(saying(answer(body, b"400 Bad Request"))) as address, supervised(address) as it:
        status, headers, got = await asked(it.port, post(b"{"))
        assert (status, got, headers["connection"]) == (400, body, "close")


async def test_a_head_request_has_no_body() -> None:
    said = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"
    async with server(saying(said)) as address, supervised(address) as it:
        client = await Client.to(it.port)
        await client.send(get("/props", method="HEAD") + get("/health"))
        status, headers = await client.head()
        assert (status, headers["content-length"]) == (200, "100")
        assert (await client.answer())[2] == b'{"status":"ok"}'
        await client.close()


async def test_a_model_that_dies_before_its_answer_is_asked_once_more_with_the_same_bytes() -> None:
    talk = Counted(b"", answer(b"again"))
    async with server(talk) as address, supervised(address) as it:
        status, _, body = await asked(it.port, post(b'{"x": "\xc3\xa9"}', more=b"X-Mine: 1\r\n"))
        assert (status, body) == (200, b"again")
        assert len(talk.requests) == 2
        assert talk.requests[0] == talk.requests[1]
        assert it.desk.renewals == 1
        assert 'replays_total{model="one"} 1' in it.app.metrics.text(())


async def test_a_model_that_is_gone_is_renewed_at_its_new_address() -> None:
    async with server(saying(answer(b"new"))) as address, supervised(Address("127.0.0.1", 9)) as it:
        it.desk.renewed = address
        assert (await asked(it.port, post({})))[2] == b"new"


async def test_a_model_that_dies_twice_is_a_502_and_is_not_started_again() -> None:
    talk = Counted(b"", b"HTTP/1.1 200 O")
    async with server(talk) as address, supervised(address) as it:
        status, _, body = await asked(it.port, post({}))
        assert status == 502
        assert "gave no answer" in json.loads(body)["error"]["message"]
        assert (len(talk.requests), it.desk.renewals, it.desk.in_flight) == (2, 1, 0)


@pytest.mark.parametrize(
    "said",
    [
        STREAM_HEAD,
        STREAM_HEAD + chunk(b"data: 1\n\n"),
        STREAM_HEAD + b"5\r\nab",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab",
    ],
)
async def test_an_answer_that_was_cut_off_is_cut_off_for_the_client_and_not_asked_again(said: bytes) -> None:
    talk = Counted(said)
    async with server(talk) as address, supervised(address) as it:
        client = await Client.to(it.port)
        await client.send(post({}))
        raw = await client.reader.read()
        assert raw.startswith(b"HTTP/1.1 200 OK\r\n")
        assert not raw.endswith(b"0\r\n\r\n")
        assert len(talk.requests) == 1
        assert 'outcome="cut"} 1' in it.app.metrics.text(())
        assert it.desk.in_flight == 0
        await client.close()


async def test_an_answer_that_stops_is_left_when_the_client_leaves() -> None:
    gone = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(STREAM_HEAD + chunk(b"data: 1\n\n"))
        await left(reader)
        gone.set()

    async with server(talk) as address, supervised(address) as it:
        client = await Client.to(it.port)
        await client.send(post({}))
        await client.head()
        await client.piece()
        client.writer.transport.abort()
        await gone.wait()
        await it.desk.is_quiet.wait()


async def test_a_client_that_reads_slowly_holds_the_model_back_and_loses_nothing() -> None:
    sent = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await read_request(reader)
        writer.write(STREAM_HEAD)
        for _ in range(300):
            writer.write(chunk(b"x" * 100_000))
            await writer.drain()
            sent += 1
        writer.write(b"0\r\n\r\n")

    async with server(talk) as address, supervised(address) as it:
        client = await Client.to(it.port)
        await client.send(post({}))
        _, headers = await client.head()
        before = -1
        while before != sent:
            before = sent
            await asyncio.sleep(0.2)
        assert sent < 250
        assert len(await client.body(headers)) == 30_000_000
        await client.close()


async def test_a_proxy_of_the_environment_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with server(saying(answer(b"direct"))) as address, supervised(address) as it:
        assert (await asked(it.port, post({})))[2] == b"direct"


async def test_an_external_server_gets_its_key_and_not_the_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    talk = Counted(answer(b"{}"))
    monkeypatch.setenv("FAR_KEY", "secret")
    async with server(talk) as address, supervised(address, kinds=("external",)) as it:
        (model,) = it.desk.config.models
        it.app.reconfigure(replace(it.desk.config, models=(replace(model, api_key_variable="FAR_KEY"),)), None)  # type: ignore[call-arg]
        await asked(it.port, post({}, more=b"Authorization: Bearer mine\r\n"))
        head = talk.requests[0][0].lower()
        assert b"authorization: bearer secret\r\n" in head
        assert b"mine" not in head


@pytest.mark.parametrize("theirs", ["", "theirs"])
async def test_a_model_gets_its_own_key_where_ours_are_asked_for(theirs: str) -> None:
    talk = Counted(answer(b"{}"), answer(b"{}"))
    async with server(talk) as address, supervised(address, keys=ApiKeys(["ours"])) as it:
        model = replace(it.desk.config.managed[0], arguments=("--api-key", theirs) if theirs else ())
        it.app.reconfigure(replace(it.desk.config, models=(model,)), ApiKeys(["ours"]))
        for request in (post({}, more=b"X-Api-Key: ours\r\n"), get("/props", b"Authorization: Bearer ours\r\n")):
            assert (await asked(it.port, request))[0] == 200
        for head, _ in talk.requests:
            assert b"ours" not in head
            assert (b"authorization: Bearer theirs" in head) is bool(theirs)


async def test_a_key_of_ours_is_not_told_to_somebody_elses_server() -> None:
    talk = Counted(answer(b"{}"))
    async with server(talk) as address, supervised(address, kinds=("external",), keys=ApiKeys(["ours"])) as it:
        assert (await asked(it.port, post({}, more=b"Authorization: Bearer ours\r\n")))[0] == 200
        assert b"ours" not in talk.requests[0][0]
