"""The front's manners towards clients of every kind, in raw bytes over real sockets (spec/supervisor.md 7: 22, 23)."""

import asyncio
import json
import logging
import socket
from contextlib import suppress

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
from whitedwarf.supervisor import front
from whitedwarf.supervisor.upstream import Address
from whitedwarf.web import connections

pytestmark = pytest.mark.anyio
DOWN = Address("127.0.0.1", 9)


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param}


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    _, body = await read_request(reader)
    writer.write(answer(body))


class Slow:
    """A server that answers when it is let."""

    def __init__(self, *pieces: bytes) -> None:
        self.may_answer = asyncio.Event()
        self.has_request = asyncio.Event()
        self.was_left = asyncio.Event()
        self._pieces = pieces

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        self.has_request.set()
        leaving = asyncio.ensure_future(left(reader))
        allowed = asyncio.ensure_future(self.may_answer.wait())
        await asyncio.wait([leaving, allowed], return_when=asyncio.FIRST_COMPLETED)
        if leaving.done():
            self.was_left.set()
        else:
            for piece in self._pieces:
                writer.write(piece)
                await writer.drain()
        for task in (leaving, allowed):
            task.cancel()
        await asyncio.wait([leaving, allowed])


async def test_a_hundred_requests_go_over_one_connection() -> None:
    async with server(echo) as address, supervised(address) as it:
        client = await Client.to(it.port)
        for index in range(100):
            await client.send(post({"n": index}))
            status, headers, body = await client.answer()
            assert (status, json.loads(body)) == (200, {"n": index})
            assert "connection" not in headers
        await client.close()


async def test_pipelined_requests_are_answered_in_their_order() -> None:
    async def slowest_first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, body = await read_request(reader)
        await asyncio.sleep(0.2 if b"1" in body else 0)
        writer.write(answer(body))

    async with server(slowest_first) as address, supervised(address) as it:
        client = await Client.to(it.port)
        await client.send(post({"n": 1}) + post({"n": 2}) + get("/health") + post({"n": 3}))
        bodies = [(await client.answer())[2] for _ in range(4)]
        assert bodies == [b'{"n": 1}', b'{"n": 2}', b'{"status":"ok"}', b'{"n": 3}']
        await client.close()


async def test_what_is_no_http_ends_the_connection_after_the_answers_that_are_owed() -> None:
    async with server(echo) as address, supervised(address) as it:
        client = await Client.to(it.port)
        await client.send(post({"n": 1}) + b"\x16\x03\x01 nonsense\r\n\r\n")
        assert (await client.answer())[2] == b'{"n": 1}'
        assert await client.reader.read() == b""
        status, headers, _ = await asked(it.port, b"\x16\x03\x01 nonsense\r\n\r\n")
        assert (status, headers["connection"]) == (400, "close")
        await client.close()


async def test_a_request_with_two_lengths_is_refused() -> None:
    async with supervised(DOWN) as it:
        request = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        assert (await asked(it.port, request))[0] == 400


async def test_a_client_that_ended_its_side_gets_its_answer_and_sees_nothing_else() -> None:
    slow = Slow(answer(b"late"))
    async with server(slow) as address, supervised(address) as it:
        client = await Client.to(it.port)
        await client.send(post({"x": 1}))
        await slow.has_request.wait()
        client.writer.write_eof()
        await asyncio.sleep(0.7)  # long enough for a client that has gone to be noticed
        slow.may_answer.set()
        status, headers, body = await client.answer()
        assert (status, body, headers["connection"]) == (200, b"late", "close")
        assert await client.reader.read() == b""
        await client.close()


async def test_a_client_that_ends_its_side_within_a_stream_gets_the_rest_of_it() -> None:
    slow = Slow(chunk(b"data: 2\n\n"), b"0\r\n\r\n")

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM_HEAD + chunk(b"data: 1\n\n"))
        await slow(reader, writer)

    async with server(talk) as address, supervised(address) as it:
        client = await Client.to(it.port)
        await client.send(post({"stream": True}))
        _, headers = await client.head()
        assert await client.piece() == b"data: 1\n\n"
        client.writer.write_eof()
        await asyncio.sleep(0.7)
        slow.may_answer.set()
        assert await client.body(headers) == b"data: 2\n\n"
        assert await client.reader.read() == b""
        await client.close()


@pytest.mark.parametrize("is_stream", [False, True])
async def test_a_client_that_has_gone_altogether_is_noticed_within_a_second(is_stream: bool) -> None:
    slow = Slow()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if is_stream:
            writer.write(STREAM_HEAD + chunk(b"data: 1\n\n"))
        await slow(reader, writer)

    async with server(talk) as address, supervised(address) as it:
        client = await Client.to(it.port)
        await client.send(post({"stream": is_stream}))
        await slow.has_request.wait()
        if is_stream:
            await client.head()
            await client.piece()
        await client.close()
        async with asyncio.timeout(1):
            await slow.was_left.wait()
            await it.desk.is_quiet.wait()


async def test_all_of_a_pipeline_is_dropped_when_its_client_goes() -> None:
    slow = Slow()
    async with server(slow) as address, supervised(address) as it:
        client = await Client.to(it.port)
        await client.send(post({"n": 1}) + post({"n": 2}))
        await slow.has_request.wait()
        client.writer.transport.abort()
        async with asyncio.timeout(5):
            await slow.was_left.wait()
        assert len(it.desk.visits) == 1


async def test_a_client_is_told_to_continue_only_when_its_body_is_wanted() -> None:
    async with server(echo) as address, supervised(address, max_body_bytes=100) as it:
        client = await Client.to(it.port)
        head, _, body = post({"x": 1}, more=b"Expect: 100-continue\r\n").partition(b"\r\n\r\n")
        await client.send(head + b"\r\n\r\n")
        assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        await client.send(body)
        assert (await client.answer())[2] == b'{"x": 1}'
        head = post(b"x" * 101, more=b"Expect: 100-continue\r\n").partition(b"\r\n\r\n")[0]
        await client.send(head + b"\r\n\r\n")
        assert (await client.reader.readline()).startswith(b"HTTP/1.1 413")
        await client.close()


@pytest.mark.parametrize("line", [b"X: " + b"y" * 70_000 + b"\r\n", b"X: y\r\n" * 15_000, b"X" * 70_000])
@pytest.mark.parametrize("pieces", [1, 50])
async def test_a_head_that_is_too_large_is_refused(line: bytes, pieces: int) -> None:
    async with supervised(DOWN) as it:
        client = await Client.to(it.port)
        request = b"GET /health HTTP/1.1\r\n" + line
        size = -(-len(request) // pieces)
        with suppress(ConnectionError):
            for start in range(0, len(request), size):
                await client.send(request[start : start + size])
                await asyncio.sleep(0)
        with suppress(ConnectionError):
            assert (await client.reader.readline()).startswith(b"HTTP/1.1 431")
        await client.close()
        assert (await asked(it.port, get("/health")))[0] == 200


async def test_a_head_that_does_not_come_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "HEAD_TIMEOUT_S", 0.1)
    async with supervised(DOWN) as it:
        for begun in (b"", b"GET /health HTT"):
            client = await Client.to(it.port)
            await client.send(begun)
            assert await client.reader.read() == b""
            await client.close()


async def test_a_connection_that_idles_is_closed_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "IDLE_TIMEOUT_S", 0.1)
    async with supervised(DOWN) as it:
        client = await Client.to(it.port)
        await client.send(get("/health"))
        assert (await client.answer())[0] == 200
        assert await client.reader.read() == b""
        await client.close()


async def test_a_client_that_does_not_read_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "STALL_TIMEOUT_S", 0.2)

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(STREAM_HEAD)
        while True:
            writer.write(chunk(b"x" * 100_000))
            await writer.drain()

    async with server(flood) as address, supervised(address) as it:
        client = await Client.to(it.port)
        await client.send(post({}))
        while not it.desk.in_flight:
            await asyncio.sleep(0.01)
        await it.desk.is_quiet.wait()
        await client.close()


async def test_silent_connections_make_room_for_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 3)
    slow = Slow(answer(b"late"))
    async with server(slow) as address, supervised(address) as it:
        busy = await Client.to(it.port)
        await busy.send(post({}))
        await slow.has_request.wait()
        silent = [await Client.to(it.port) for _ in range(5)]
        assert (await asked(it.port, get("/health")))[0] == 200
        assert it.front.connection_count <= 3
        slow.may_answer.set()
        assert (await busy.answer())[2] == b"late"
        for client in (busy, *silent):
            await client.close()


async def test_answers_have_only_the_headers_of_the_server_behind() -> None:
    async with server(echo) as address, supervised(address) as it:
        _, headers, _ = await asked(it.port, post({}))
        assert set(headers) == {"content-type", "content-length"}


async def test_several_ports_are_answered_by_one_front() -> None:
    async with server(echo) as address, supervised(address, kinds=("managed",) * 3) as it:
        for port, name in zip(it.ports, ("one", "two", "three"), strict=True):
            assert (await asked(port, post({})))[0] == 200
            assert it.desk.visits[-1][0] == name


async def test_a_port_that_is_given_up_keeps_its_running_answers() -> None:
    slow = Slow(answer(b"late"))
    async with server(slow) as address, supervised(address, kinds=("managed", "managed")) as it:
        client, idle = await Client.to(it.port), await Client.to(it.port)
        await client.send(post({}))
        await slow.has_request.wait()
        it.front.stop_listening(it.port)
        with pytest.raises(ConnectionError):
            await Client.to(it.port)
        assert await idle.reader.read() == b""
        slow.may_answer.set()
        assert (await client.answer())[2] == b"late"
        assert (await asked(it.ports[1], get("/health")))[0] == 200
        await client.close()
        await idle.close()


async def test_the_end_lets_answers_end_and_takes_no_new_ones() -> None:
    slow = Slow(answer(b"late"))
    async with server(slow) as address, supervised(address) as it:
        client, idle = await Client.to(it.port), await Client.to(it.port)
        await client.send(post({}))
        await slow.has_request.wait()
        closing = asyncio.ensure_future(it.front.close(drain_s=10))
        assert await idle.reader.read() == b""
        slow.may_answer.set()
        assert (await client.answer())[2] == b"late"
        await closing
        await client.close()
        await idle.close()


async def test_the_end_is_bounded_whatever_the_server_behind_does() -> None:
    slow = Slow()
    async with server(slow) as address, supervised(address) as it:
        client = await Client.to(it.port)
        await client.send(post({}))
        await slow.has_request.wait()
        async with asyncio.timeout(2):
            await it.front.close(drain_s=0.1)
            await slow.was_left.wait()
        with suppress(ConnectionError):
            await client.reader.read()
        await client.close()
        assert it.desk.in_flight == it.front.connection_count == 0


async def test_cut_answers_are_not_logged_at_length(caplog: pytest.LogCaptureFixture) -> None:
    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(STREAM_HEAD + chunk(b"data: 1\n\n"))

    with caplog.at_level(logging.INFO):
        async with server(cut) as address, supervised(address) as it:
            for _ in range(3):
                with pytest.raises(asyncio.IncompleteReadError):
                    await asked(it.port, post({}))
    assert caplog.records == []


async def test_nothing_ticks_while_nothing_happens() -> None:
    loop = asyncio.get_running_loop()
    if not hasattr(loop, "_scheduled"):
        pytest.skip("only asyncio's own loop shows its timers")
    async with supervised(DOWN) as it:
        client = await Client.to(it.port)
        await client.send(get("/health"))
        await client.answer()
        # What is left: this test's own time-out, and the end of an idle connection.
        assert all(one.when() - loop.time() > 5 for one in loop._scheduled if not one.cancelled())
        await client.close()


async def test_a_client_of_another_family_is_answered() -> None:
    with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            pytest.skip("this machine has no IPv6")
    async with supervised(DOWN) as it:
        listener = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("::1", it.port))
        await it.front.listen([listener])
        reader, writer = await asyncio.open_connection("::1", it.port)
        client = Client(reader, writer)
        await client.send(get("/health").replace(b"127.0.0.1", b"[::1]"))
        assert (await client.answer())[0] == 200
        await client.close()


WISH = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"
"""Java's client begins every connection with it."""


@pytest.mark.parametrize("size", [1, 50, 1 << 20])
async def test_a_wish_for_another_protocol_costs_a_request_nothing(size: int) -> None:
    async with server(echo) as address, supervised(address) as it:
        client = await Client.to(it.port)
        first = post({"n": 1}).replace(b"\r\n", b"\r\n" + WISH, 1)
        chunked = b"Transfer-Encoding: chunked\r\n\r\n7\r\n" + b'{"n":2}' + b"\r\n0\r\n\r\n"
        second = post({}).split(b"Content-")[0].replace(b"\r\n", b"\r\n" + WISH, 1) + chunked
        sent = first + second + get("/health").replace(b"\r\n", b"\r\n" + WISH, 1) + post({"n": 3})
        for start in range(0, len(sent), size):
            await client.send(sent[start : start + size])
            await asyncio.sleep(0)
        bodies = [(await client.answer())[2] for _ in range(4)]
        assert [json.loads(body) for body in bodies] == [{"n": 1}, {"n": 2}, {"status": "ok"}, {"n": 3}]
        await client.close()


async def test_many_wishes_for_another_protocol_are_answered_one_after_another() -> None:
    async with supervised(DOWN) as it:
        client = await Client.to(it.port)
        await client.send(get("/health").replace(b"\r\n", b"\r\n" + WISH, 1) * 2000)
        for _ in range(2000):
            assert (await client.answer())[0] == 200
        await client.close()


async def test_a_client_that_asks_on_and_on_without_reading_is_not_read_on_and_on() -> None:
    async with supervised(DOWN) as it:
        client = await Client.to(it.port)
        client.writer.write(get("/__supervisor/") * 50_000)
        protocols = list(it.front._state.connections)
        for _ in range(100):
            await asyncio.sleep(0.01)
            protocols = list(it.front._state.connections)
            assert max((len(one.pipeline) for one in protocols), default=0) < 1000
        [protocol] = protocols
        assert len(protocol._held) < 1 << 20
        await client.close()


async def test_what_follows_a_body_is_no_header() -> None:
    heads: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head, body = await read_request(reader)
        heads.append(head)
        writer.write(answer(body))

    async with server(talk) as address, supervised(address) as it:
        head = b"POST /v1/x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        status, _, body = await asked(
            it.port, head + b"2\r\n{}\r\n0\r\nX-Late: 1\r\nOrigin: http://evil.example\r\n\r\n"
        )
        assert (status, body) == (200, b"{}")
        assert b"late" not in heads[0].lower()


@pytest.mark.parametrize("rest", [b"-2\r\n{}", b"zz\r\n", b"2\r\n{}xx", b"0\r\nContent-Length: 5\r\n\r\n"])
async def test_a_body_that_is_no_http_is_told(rest: bytes) -> None:
    async with server(echo) as address, supervised(address) as it:
        head = b"POST /v1/x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        assert (await asked(it.port, head + rest))[0] == 400
        assert it.desk.visits == []
