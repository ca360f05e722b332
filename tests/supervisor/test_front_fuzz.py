"""Whatever bytes a client sends: no error of ours, nothing left behind, and the next client is answered."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fakes.desk import Client, answer, asked, get, post, read_request, server, supervised

GOOD = st.sampled_from(
    [
        post({"x": 1}),
        post({"stream": True, "keep_alive": "soon"}),
        get("/health"),
        get("/props"),
        get("/__supervisor/status", method="HEAD"),
        post(b"", "/__supervisor/unload"),
        get("/x", b"Expect: 100-continue\r\n"),
        get("/", b"Connection: upgrade\r\nUpgrade: websocket\r\n"),
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        b"POST / HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}",
        b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET http://127.0.0.1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /caf\xc3\xa9?\xff HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /%ff%00%0a HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    ]
)


@st.composite
def spoilt(draw: st.DrawFn) -> bytes:
    request = bytearray(draw(GOOD))
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(request)))
        request[place : place + draw(st.integers(0, 3))] = draw(st.binary(max_size=4))
    return bytes(request)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(GOOD | spoilt() | st.binary(max_size=50), min_size=1, max_size=4), st.integers(1, 200), st.booleans())
def test_no_bytes_hurt(parts: list[bytes], size: int, is_aborted: bool) -> None:
    asyncio.run(_send(b"".join(parts), size, is_aborted))


async def _send(data: bytes, size: int, is_aborted: bool) -> None:
    errors: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(answer(b"{}"))

    async with server(talk) as address, supervised(address) as it:
        client = await Client.to(it.port)
        with suppress(OSError):
            for start in range(0, len(data), size):
                await client.send(data[start : start + size])
                await asyncio.sleep(0)
            if is_aborted:
                client.writer.transport.abort()
            else:
                client.writer.write_eof()
                await client.reader.read()
        await client.close()
        assert (await asked(it.port, get("/health")))[0] == 200
        await it.front.close(1)
        assert (it.desk.in_flight, it.desk.waiting, it.front.connection_count) == (0, 0, 0)
    assert errors == []


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("CRITICAL")
