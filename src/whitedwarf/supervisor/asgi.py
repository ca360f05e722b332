"""The little of ASGI that the supervisor speaks: a request's head as a value, its body whole, answers that are short.

Promises: a body is never held beyond the size that was allowed, and one that stops coming is given up; an answer given
before the body was read reaches the client all the same. Does not know what is asked.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from whitedwarf.errors import UsageError
from whitedwarf.supervisor.upstream import Answer, Headers

Scope = Mapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

WRITE = "whitedwarf.write"
"""An extension of ours to ASGI: `write(piece) -> bool`."""
BODY_STALL_S = 60.0
"""How long a client may pause while it sends a body."""
_LINGER_S = 2.0
_MOST_PARAMETERS = 100


class ClientLeftError(Exception):
    """Nobody waits for the answer any more; there is nobody to tell, either."""


class BodyTooLargeError(Exception):
    """More bytes than may be."""


class BodyStalledError(Exception):
    """The rest of it did not come."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request's head. `target` is path and query in the client's bytes, `headers` have names in lower case.

    `write` is the front's own way to go on with a chunked answer without waiting (front.py), None elsewhere.
    """

    port: int
    method: str
    path: str
    target: str
    headers: Headers
    write: Callable[[bytes], bool] | None = None

    @classmethod
    def of(cls, scope: Scope) -> "Request":
        """As the server read it."""
        raw, query = scope.get("raw_path") or scope["path"].encode(), scope.get("query_string", b"")
        target = (raw + b"?" + query if query else raw).decode("latin-1")
        write = scope.get("extensions", {}).get(WRITE)
        return cls(scope["server"][1], scope["method"], scope["path"], target, tuple(scope["headers"]), write)

    def header(self, name: bytes) -> str | None:
        """The first of that name (in lower case), as Latin-1."""
        return next((value.decode("latin-1") for key, value in self.headers if key == name), None)

    def parameter(self, name: str) -> str | None:
        """The last value of that name in the query; an empty one counts. UsageError where there is too much in it."""
        query = self.target.partition("?")[2]
        try:
            values = parse_qs(query, keep_blank_values=True, max_num_fields=_MOST_PARAMETERS).get(name)
        except ValueError as error:
            raise UsageError(f"expected at most {_MOST_PARAMETERS} parameters after the ?, got more") from error
        return values[-1] if values else None


async def read_body(request: Request, receive: Receive, most_bytes: int) -> bytes:
    """All of it. BodyTooLargeError, BodyStalledError, ClientLeftError."""
    announced = request.header(b"content-length") or "0"
    if announced.isdecimal() and int(announced) > most_bytes:
        raise BodyTooLargeError
    parts: list[bytes] = []
    size = 0
    has_more = True
    while has_more:
        message = await _next_part(receive)
        has_more = message.get("more_body", False)
        if part := message.get("body", b""):
            parts.append(part)
            size += len(part)
        if size > most_bytes:
            raise BodyTooLargeError
    return parts[0] if len(parts) == 1 else b"".join(parts)


async def _next_part(receive: Receive) -> Message:
    try:
        async with asyncio.timeout(BODY_STALL_S):
            message = await receive()
    except TimeoutError:
        raise BodyStalledError from None
    if message["type"] == "http.disconnect":
        raise ClientLeftError
    return message


async def until_left(receive: Receive) -> None:
    """Returns when the client has left, or has been answered."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def send_head(send: Send, status: int, headers: Headers) -> None:
    """Begin an answer."""
    await send({"type": "http.response.start", "status": status, "headers": list(headers)})


async def send_piece(send: Send, piece: bytes) -> None:
    """Go on with it."""
    await send({"type": "http.response.body", "body": piece, "more_body": True})


async def send_end(send: Send, piece: bytes = b"") -> None:
    """End it."""
    await send({"type": "http.response.body", "body": piece, "more_body": False})


async def send_answer(send: Send, answer: Answer) -> None:
    """All of a short one."""
    await send_head(send, answer.status, answer.headers)
    await send_end(send, answer.body)


async def send_refusal(receive: Receive, send: Send, answer: Answer) -> None:
    """The same before the body was read.

    Closing a connection while the client still sends would take the answer away from it, so what comes is read and
    dropped for a moment.
    """
    await send_head(send, answer.status, answer.headers)
    await send_piece(send, answer.body)
    with suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_S):
            while (message := await receive())["type"] == "http.request" and message.get("more_body"):
                pass
    await send_end(send)
