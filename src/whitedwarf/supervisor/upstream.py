"""One HTTP/1.1 exchange with a server behind us, on a connection of its own.

Promises: the body arrives in the bytes that were sent, as soon as they are there; an answer that was cut off never
looks whole; memory stays bounded when nobody reads; proxies of the environment are not asked. Does not know what is
said.

Own code over httptools' parser, not httpx2: that costs some 15 MB and 60 µs for each event of a stream, of 40 MB and
30 µs (ARCHITECTURE.md).
"""

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import cast
from urllib.parse import quote, urlsplit

import httptools

from whitedwarf.errors import UsageError
from whitedwarf.supervisor.failures import UpstreamCutError, UpstreamDownError

Headers = tuple[tuple[bytes, bytes], ...]
"""Names as they came, in their order, repeated ones too."""

CONNECT_TIMEOUT_S = 5.0
_STATUSES = range(100, 600)
_MOST_UNREAD_BYTES = 1 << 20
_MOST_HEAD_BYTES = 64 << 10
_MOST_WHOLE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens. `prefix` goes before every path and does not end in a slash.

    `is_ours` is asked on every new connection before anything is sent: a port whose process has just died may have been
    taken by somebody else, who must not get what people write. None: whoever answers there is meant.
    """

    host: str
    port: int
    is_tls: bool = False
    prefix: str = ""
    is_ours: Callable[[], bool] | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of_url(cls, url: str) -> "Address":
        """From http://HOST[:PORT][/PREFIX]; UsageError for anything else."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise UsageError(f"url {url!r}: {error}; expected http://HOST:PORT/PATH") from error
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise UsageError(f"url {url!r}: expected http://HOST:PORT/PATH or https://…, and nothing after the path")
        if "@" in parts.netloc:
            raise UsageError("url: a name and a password before the @ are sent nowhere; apiKeyEnv is for keys")
        is_tls = parts.scheme == "https"
        return cls(parts.hostname, port or (443 if is_tls else 80), is_tls, _written(parts.path.rstrip("/")))

    @property
    def authority(self) -> str:
        """As the Host header says it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def _written(path: str) -> str:
    """As a request's line may have it."""
    return quote(path, safe="/%:@!$&'()*+,;=~")


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer, for small ones."""

    status: int
    headers: Headers
    body: bytes


class Exchange:
    """An answer whose head has come. Use `async with`, which closes the connection whatever happens."""

    def __init__(self, wire: "_Wire") -> None:
        self._wire = wire

    @property
    def status(self) -> int:
        """The status code."""
        return self._wire.status

    @property
    def headers(self) -> Headers:
        """All headers, also those that concern only this connection."""
        return tuple(self._wire.headers)

    async def next_bytes(self) -> bytes:
        """What has come of the body since last time, waiting for some; b"" at its end. UpstreamCutError before it."""
        return await self._wire.next_bytes()

    def shorten(self, write: Callable[[bytes], bool]) -> None:
        """Offer bytes to `write` as they arrive, while somebody waits for them in next_bytes.

        What it takes is not given there: an event of a stream then goes on without waking the one who waits. What it
        does not take (False) is.
        """
        self._wire.write = write

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body as it comes."""
        while piece := await self._wire.next_bytes():
            yield piece

    def close(self) -> None:
        """End the connection at once, which tells the server that nobody listens any more."""
        self._wire.abort()

    async def __aenter__(self) -> "Exchange":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()


async def begin(
    address: Address, method: str, target: str, headers: Iterable[tuple[bytes, bytes]] = (), body: bytes = b""
) -> Exchange:
    """Send a whole request and wait, as long as it takes, for the head of its answer.

    `target`: path and query as the client wrote them. `headers`: without Host, Content-Length and Connection, which are
    set here. UpstreamDownError where nobody answers.
    """
    wire = await _connect(address)
    wire.has_body = method != "HEAD"
    try:
        wire.send(_request(address, method, target, headers, body))
        await wire.head()
    except BaseException:
        wire.abort()
        raise
    return Exchange(wire)


async def ask(
    address: Address,
    method: str,
    target: str,
    headers: Iterable[tuple[bytes, bytes]] = (),
    body: bytes = b"",
    *,
    timeout_s: float,
) -> Answer:
    """A whole exchange within a time; UpstreamDownError or UpstreamCutError where it did not come to its end."""
    try:
        async with asyncio.timeout(timeout_s):
            async with await begin(address, method, target, headers, body) as exchange:
                return Answer(exchange.status, exchange.headers, await _whole(exchange))
    except TimeoutError:
        what = f"{method} {target} at {address.authority}"
        raise UpstreamDownError(f"{what}: no answer within {timeout_s:g} s") from None


async def _whole(exchange: Exchange) -> bytes:
    parts, size = [], 0
    async for piece in exchange.pieces():
        parts.append(piece)
        size += len(piece)
        if size > _MOST_WHOLE_BYTES:
            raise UpstreamCutError(f"expected an answer of at most {_MOST_WHOLE_BYTES} bytes, got more")
    return b"".join(parts)


async def _connect(address: Address) -> "_Wire":
    loop = asyncio.get_running_loop()
    context = _tls() if address.is_tls else None
    where = f"{address.host} port {address.port}"
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            _, wire = await loop.create_connection(lambda: _Wire(where), address.host, address.port, ssl=context)
    except (OSError, UnicodeError) as error:  # TimeoutError is one; the latter for a name that cannot be one
        why = "no answer" if isinstance(error, TimeoutError) else getattr(error, "strerror", None) or error
        raise UpstreamDownError(f"cannot reach the server at {where}: {why}") from error
    if address.is_ours is not None and not address.is_ours():
        wire.abort()
        raise UpstreamDownError(f"cannot reach the server at {where}: it has ended, and another program has its port")
    return wire


@cache
def _tls() -> ssl.SSLContext:
    """Reading the machine's certificates takes longer than a connection; they are the same each time."""
    return ssl.create_default_context()


def _request(address: Address, method: str, target: str, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> bytes:
    lines = [f"{method} {address.prefix}{target} HTTP/1.1".encode("latin-1")]
    lines.append(b"Host: " + address.authority.encode("idna" if not address.authority.isascii() else "ascii"))
    lines += [name + b": " + value for name, value in headers]
    if body or method not in ("GET", "HEAD", "OPTIONS", "DELETE"):
        lines.append(b"Content-Length: %d" % len(body))
    lines.append(b"Connection: close")
    return b"\r\n".join([*lines, b"", body])


class _Wire(asyncio.Protocol):
    """The connection, as httptools reads it. One reader at a time."""

    def __init__(self, where: str) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.has_body = True
        self.write: Callable[[bytes], bool] | None = None
        self._where = where
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._has_head = False
        self._is_whole = False
        self._is_over = False  # nothing more will come
        self._is_paused = False
        self._head_bytes = 0
        self._unread: deque[bytes] = deque()
        self._unread_bytes = 0
        self._why = "it closed the connection"
        self._waiter: asyncio.Future[None] | None = None

    def send(self, data: bytes) -> None:
        """Write a whole request."""
        assert self._transport is not None
        self._transport.write(data)

    async def head(self) -> None:
        """Wait for it."""
        while not self._has_head:
            if self._is_over:
                raise UpstreamDownError(f"the server at {self._where} gave no answer: {self._why}")
            await self._wait()

    async def next_bytes(self) -> bytes:
        """See Exchange."""
        while not self._unread:
            if self._is_whole:
                return b""
            if self._is_over:
                raise UpstreamCutError(f"the answer of the server at {self._where} was cut off: {self._why}")
            await self._wait()
        piece = self._take()
        if self._is_paused and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()
        return piece

    def _take(self) -> bytes:
        piece = self._unread[0] if len(self._unread) == 1 else b"".join(self._unread)
        self._unread.clear()
        self._unread_bytes = 0
        return piece

    def abort(self) -> None:
        """End it."""
        if self._transport is not None:
            self._transport.abort()

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # asyncio calls these

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by its class

    def data_received(self, data: bytes) -> None:
        if self._is_whole or self._is_over:
            return
        if not self._has_head:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._end("it changed to another protocol, for which nobody asked")
        except httptools.HttpParserError as error:
            self._end(f"what it sent is no HTTP ({error})")
        if not self._has_head and self._head_bytes > _MOST_HEAD_BYTES:
            self._end(f"its headers are longer than {_MOST_HEAD_BYTES} bytes")
        if not self._has_gone_on() or self._is_whole or self._is_over:
            self._wake()

    def _has_gone_on(self) -> bool:
        """Whether what has come was written at once; only where nobody is in the midst of writing."""
        if self.write is None or self._waiter is None or self._waiter.done() or not self._unread:
            return False
        piece = self._take()
        if not self.write(piece):
            self._unread.append(piece)
            self._unread_bytes = len(piece)
            return False
        return True

    def eof_received(self) -> bool:
        # No length was announced: the end of the connection is the end of the body.
        if self._has_head and not self._is_whole and not self._has_length():
            self._is_whole = True
        self._is_over = True
        self._wake()
        return False

    def connection_lost(self, error: Exception | None) -> None:
        if error is not None and not self._is_over:
            self._why = str(error)
        self._is_over = True
        self._wake()

    def _end(self, why: str) -> None:
        self._why = why
        self._is_over = True
        self.abort()

    def _has_length(self) -> bool:
        return any(name.lower() in (b"content-length", b"transfer-encoding") for name, _ in self.headers)

    # httptools calls these

    def on_message_begin(self) -> None:
        if self._is_whole:
            raise ValueError  # ends the parsing: nothing was asked that this could answer
        self.headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._has_head:  # those behind a body come too late for the client's
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        if self.status not in _STATUSES:
            self._end(f"it answered with status {self.status}, which there is not")
            return
        self._has_head = self.status >= 200  # 1xx: another one follows
        self._is_whole = self._has_head and not self.has_body

    def on_body(self, body: bytes) -> None:
        self._unread.append(body)
        self._unread_bytes += len(body)
        if self._unread_bytes > _MOST_UNREAD_BYTES and not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        self._is_whole = self._has_head
