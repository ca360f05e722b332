"""A request goes to the server behind, byte for byte, and its answer comes back as it arrives.

Promises: only headers of the connection itself are left out; a request is sent again, once, when not one byte of an
answer came; an answer that was cut off never ends as if it were whole; whoever is cancelled leaves no connection.
Does not know which model is meant, nor when it may run.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace

from whitedwarf.supervisor.asgi import Request
from whitedwarf.supervisor.early import Outlet
from whitedwarf.supervisor.failures import UpstreamDownError
from whitedwarf.supervisor.upstream import Address, Answer, Exchange, Headers, begin

_NOT_MODIFIED = 304
_MOST_FAILURE_BYTES = 64 << 10
_OF_CONNECTION = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-connection",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
_OURS = _OF_CONNECTION | {b"host", b"content-length", b"expect"}
_KEYS = frozenset({b"authorization", b"x-api-key"})
_AT_ROOT = frozenset({"/health", "/props", "/metrics", "/slots"})


def onward(headers: Headers, api_key: str | None = None, *, keeps_keys: bool = True) -> Headers:
    """A client's headers for the server behind. `api_key` replaces the client's; some are for us alone."""
    dropped = _OURS | _named(headers)
    if api_key is not None or not keeps_keys:
        dropped |= _KEYS
    kept = tuple(one for one in headers if one[0] not in dropped)
    return kept if api_key is None else (*kept, (b"authorization", f"Bearer {api_key}".encode()))


def back(headers: Headers, status: int) -> Headers:
    """A server's headers for the client; like llama-server, connections end after a failure."""
    lowered = tuple((name.lower(), value) for name, value in headers)
    dropped = _OF_CONNECTION | _named(lowered)
    if status == _NOT_MODIFIED:  # its length is that of a body which does not come
        dropped |= {b"content-length"}
    kept = tuple(one for one in lowered if one[0] not in dropped)
    return (*kept, (b"connection", b"close")) if status >= 400 else kept


def _named(headers: Iterable[tuple[bytes, bytes]]) -> frozenset[bytes]:
    """Those that a Connection header names are the connection's, too."""
    values = [value for name, value in headers if name == b"connection"]
    return frozenset(word.strip().lower() for value in values for word in value.split(b","))


def joined(address: Address, target: str) -> tuple[Address, str]:
    """Where a target lies whose server was given with or without /v1 at the end of its url."""
    if not address.prefix.endswith("/v1"):
        return address, target
    root = replace(address, prefix=address.prefix.removesuffix("/v1"))
    path = target.partition("?")[0]
    if path in _AT_ROOT or path == "/v1" or path.startswith("/v1/"):
        return root, target
    return address, target


async def pass_on(address: Address, request: Request, headers: Headers, body: bytes, outlet: Outlet) -> None:
    """One exchange. UpstreamDownError where nothing came, UpstreamCutError where the answer broke off."""
    where, target = joined(address, request.target)
    async with await begin(where, request.method, target, headers, body) as exchange:
        if outlet.is_early and not _is_stream(exchange):
            await outlet.give(await _whole(exchange))
            return
        await outlet.begin(exchange.status, back(exchange.headers, exchange.status))
        if outlet.write is not None:
            exchange.shorten(outlet.write)
        while piece := await exchange.next_bytes():
            await outlet.piece(piece)
        await outlet.end()


async def pass_on_twice(
    address: Address,
    request: Request,
    headers: Headers,
    body: bytes,
    outlet: Outlet,
    renew: Callable[[], Awaitable[Address]],
) -> None:
    """The same; where nothing came, once more to what `renew` gives."""
    try:
        await pass_on(address, request, headers, body, outlet)
    except UpstreamDownError:
        if outlet.has_begun:
            raise
        await pass_on(await renew(), request, headers, body, outlet)


def _is_stream(exchange: Exchange) -> bool:
    kinds = [value for name, value in exchange.headers if name.lower() == b"content-type"]
    return exchange.status < 400 and any(kind.lower().startswith(b"text/event-stream") for kind in kinds)


async def _whole(exchange: Exchange) -> Answer:
    """A failure, which has to fit into an event; what would be too long for that ends where it is."""
    body = bytearray()
    while len(body) < _MOST_FAILURE_BYTES and (piece := await exchange.next_bytes()):
        body += piece
    return Answer(exchange.status, exchange.headers, bytes(body))
