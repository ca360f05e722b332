"""One exchange with a server behind us, against sockets that say exactly what a test wants said."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from whitedwarf.errors import UsageError
from whitedwarf.supervisor.failures import UpstreamCutError, UpstreamDownError
from whitedwarf.supervisor.upstream import Address, ask, begin

pytestmark = pytest.mark.anyio

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def served(talk: Talk) -> AsyncIterator[Address]:
    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await talk(reader, writer)
        finally:
            writer.close()

    async with asyncio.timeout(10):
        server = await asyncio.start_server(once, "127.0.0.1", 0)
        try:
            yield Address("127.0.0.1", server.sockets[0].getsockname()[1])
        finally:
            server.close()


def saying(*parts: bytes) -> Talk:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0.001)

    return talk


async def test_an_answer_comes_whole_in_any_pieces() -> None:
    whole = b"HTTP/1.1 200 OK\r\nX-One: 1\r\nx-one: 2\r\nContent-Length: 5\r\n\r\nhello"
    async with served(saying(*(whole[i : i + 1] for i in range(len(whole))))) as address:
        answer = await ask(address, "GET", "/", timeout_s=5)
    assert (answer.status, answer.body) == (200, b"hello")
    assert answer.headers == ((b"X-One", b"1"), (b"x-one", b"2"), (b"Content-Length", b"5"))


async def test_chunks_lose_their_frames_and_nothing_else() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    parts = (head, b"6\r\ndata: \r\n", b"3;x=y\r\n\xff\n\n\r\n", b"0\r\n\r\n")
    async with served(saying(*parts)) as address, await begin(address, "POST", "/x", body=b"{}") as exchange:
        assert b"".join([piece async for piece in exchange.pieces()]) == b"data: \xff\n\n"


async def test_the_end_of_the_connection_ends_a_body_without_length() -> None:
    async with served(saying(b"HTTP/1.1 200 OK\r\n\r\nall ", b"of it")) as address:
        assert (await ask(address, "GET", "/", timeout_s=5)).body == b"all of it"


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nnonsense\r\n",
    ],
)
async def test_an_answer_that_was_cut_off_never_looks_whole(said: bytes) -> None:
    async with served(saying(said)) as address:
        with pytest.raises(UpstreamCutError, match="cut off"):
            await ask(address, "GET", "/", timeout_s=5)


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\nHalf: a hea", b"not http at all\r\n\r\n"])
async def test_without_a_head_there_was_no_answer(said: bytes) -> None:
    async with served(saying(said)) as address:
        with pytest.raises(UpstreamDownError):
            await ask(address, "GET", "/", timeout_s=5)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"HTTP/1.1 999 Denied\r\nContent-Length: 2\r\n\r\nOK", "status 999, which there is not"),
        (b"HTTP/1.1 001 What\r\nContent-Length: 2\r\n\r\nOK", "status 1, which there is not"),
        (b"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\nx", "changed to another protocol"),
    ],
)
async def test_what_nobody_can_read_is_no_answer(said: bytes, why: str) -> None:
    async with served(saying(said)) as address:
        with pytest.raises(UpstreamDownError, match=why):
            await ask(address, "GET", "/", timeout_s=5)


@pytest.mark.parametrize(
    "more", [b"HTTP/1.1 500 No\r\nX-Second: 1\r\nContent-Length: 0\r\n\r\n", b"more than it said", b"\r\n"]
)
async def test_what_follows_an_answer_changes_nothing_of_it(more: bytes) -> None:
    async with served(saying(b"HTTP/1.1 200 OK\r\nX-First: 1\r\nContent-Length: 2\r\n\r\nOK" + more)) as address:
        answer = await ask(address, "GET", "/", timeout_s=5)
        assert (answer.status, answer.body) == (200, b"OK")
        assert answer.headers == ((b"X-First", b"1"), (b"Content-Length", b"2"))


async def test_what_follows_a_body_is_no_header() -> None:
    said = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nOK\r\n0\r\nX-Late: 1\r\n\r\n"
    async with served(saying(said)) as address:
        answer = await ask(address, "GET", "/", timeout_s=5)
        assert (answer.body, answer.headers) == (b"OK", ((b"Transfer-Encoding", b"chunked"),))


async def test_endless_headers_end_the_exchange() -> None:
    async with served(saying(b"HTTP/1.1 200 OK\r\n", *[b"A: " + b"x" * 4096 + b"\r\n"] * 40)) as address:
        with pytest.raises(UpstreamDownError, match="longer than"):
            await ask(address, "GET", "/", timeout_s=5)


async def test_an_interim_answer_is_not_the_answer() -> None:
    parts = (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")
    async with served(saying(*parts)) as address:
        assert (await ask(address, "POST", "/", body=b"x", timeout_s=5)).status == 201


async def test_an_answer_to_head_has_no_body() -> None:
    async with served(saying(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n")) as address:
        assert (await ask(address, "HEAD", "/", timeout_s=5)).body == b""


async def test_nobody_there_is_told_with_the_place() -> None:
    with pytest.raises(UpstreamDownError, match=r"127\.0\.0\.1 port 1: "):
        await ask(Address("127.0.0.1", 1), "GET", "/", timeout_s=5)


async def test_nothing_is_sent_to_whom_it_is_not_meant_for() -> None:
    heard = asyncio.get_running_loop().create_future()

    async def listening(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.set_result(await reader.read())

    async with served(listening) as address:
        with pytest.raises(UpstreamDownError, match="another program has its port"):
            await ask(replace(address, is_ours=lambda: False), "GET", "/", timeout_s=5)
        assert await heard == b""


async def test_silence_ends_at_the_deadline() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with served(silent) as address:
        with pytest.raises(UpstreamDownError, match=r"no answer within 0\.05 s"):
            await ask(address, "GET", "/", timeout_s=0.05)


async def test_an_answer_that_nobody_reads_stays_at_the_server() -> None:
    written = 0

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 268435456\r\n\r\n")
        try:
            for _ in range(4096):
                writer.write(bytes(65536))
                await writer.drain()
                written += 65536
        except OSError:
            pass

    async with served(flood) as address, await begin(address, "GET", "/") as exchange:
        await asyncio.sleep(0.2)
        assert written < 32 << 20
        assert sum([len(piece) async for piece in exchange.pieces()]) == 268435456


async def test_closing_tells_the_server_at_once() -> None:
    left = asyncio.Event()

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
        try:
            await reader.read()
        finally:
            left.set()

    async with served(endless) as address:
        async with await begin(address, "GET", "/") as exchange:
            assert await exchange.next_bytes() == b"x"
        await left.wait()


async def test_a_request_is_whole_and_says_who_is_asked() -> None:
    seen = b""

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal seen
        seen = await reader.readuntil(b"\r\n\r\n") + await reader.readexactly(4)
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")

    async with served(listen) as address:
        below = Address(address.host, address.port, prefix="/api")
        await ask(below, "POST", "/v1/x?a=%20b", [(b"X-A", b"\xe9")], b"\x00\r\n{", timeout_s=5)
    lines = seen.split(b"\r\n")
    assert lines[0] == b"POST /api/v1/x?a=%20b HTTP/1.1"
    assert lines[1] == b"Host: 127.0.0.1:%d" % address.port
    assert b"X-A: \xe9" in lines
    assert b"Content-Length: 4" in lines
    assert seen.endswith(b"\r\n\r\n\x00\r\n{")


async def test_the_environments_proxies_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    async with served(saying(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")) as address:
        assert (await ask(address, "GET", "/", timeout_s=5)).status == 200


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://127.0.0.1:11434/v1", Address("127.0.0.1", 11434, prefix="/v1")),
        ("http://localhost", Address("localhost", 80)),
        ("http://x/a b/ü", Address("x", 80, prefix="/a%20b/%C3%BC")),
        ("http://x/a%20b", Address("x", 80, prefix="/a%20b")),
        ("https://[::1]:8443/a/b/", Address("::1", 8443, is_tls=True, prefix="/a/b")),
    ],
)
def test_addresses_are_read_from_urls(url: str, address: Address) -> None:
    assert Address.of_url(url) == address


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:80", "ftp://x", "http://", "http://x:99999", "http://x/?q", "http://[:", "http://me:pw@x/"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match=r"expected http://|port|Invalid|apiKeyEnv"):
        Address.of_url(url)
