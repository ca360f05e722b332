"""A request's body, within limits of size and time.

Promises: a body that says it is too large is refused before any of it is read, and one that lies as soon as it is;
all bodies that come or are being read together take no more than MAX_READING_BYTES.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import anyio
from starlette.requests import ClientDisconnect, Request

from whitedwarf.protocol.failures import Failure, FailureKind

MAX_BODY_BYTES = 64 << 20
MAX_READING_BYTES = 512 << 20
"""A hundred slow senders of large bodies would else take the memory that the model needs."""
BODY_TIMEOUT_S = 60.0  # 64 MiB at 9 Mbit a second


class BodyRefused(Exception):  # noqa: N818
    """The body was not taken; the rest of it is still in the connection."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class ReadingRoom:
    """Memory for bodies that are being read, of one server on one event loop."""

    def __init__(self, max_bytes: int = MAX_READING_BYTES) -> None:
        self._free = max_bytes

    def take(self, num_bytes: int) -> None:
        """Bytes have come; BodyRefused where they are too many, and then they are not counted."""
        if num_bytes > self._free:
            what = "too many large requests are being sent at the same time: send this one again later"
            raise BodyRefused(Failure(FailureKind.OVERLOADED, what))
        self._free -= num_bytes

    def give_back(self, num_bytes: int) -> None:
        """They have been read, or dropped."""
        self._free += num_bytes


def check_headers(headers: Mapping[str, str]) -> None:
    """BodyRefused for a body that cannot be read: no JSON, compressed, or of a length that nobody tells."""
    # Only JSON: what a page may post elsewhere without asking first is never called JSON.
    essence = headers.get("content-type", "").partition(";")[0].strip().lower()
    if essence != "application/json":
        what = f"expected the header `Content-Type: application/json`, got {essence or 'none'!r:.80}"
        raise BodyRefused(Failure(FailureKind.WRONG_TYPE, what))
    coding = headers.get("content-encoding", "").strip().lower()
    if coding not in ("", "identity"):
        what = f"expected a body without `Content-Encoding`, got {coding!r:.80}: send it uncompressed"
        raise BodyRefused(Failure(FailureKind.WRONG_TYPE, what))
    if "content-length" not in headers and "transfer-encoding" not in headers:
        what = "expected the header `Content-Length` or `Transfer-Encoding: chunked`; without one there is no body"
        raise BodyRefused(Failure(FailureKind.NO_LENGTH, what))


@asynccontextmanager
async def reading(
    request: Request, room: ReadingRoom, max_bytes: int = MAX_BODY_BYTES, timeout_s: float = BODY_TIMEOUT_S
) -> AsyncIterator[bytes | None]:
    """All of it, for which there is room until the block ends; None where the client left. Raises BodyRefused."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > max_bytes:
        raise BodyRefused(_too_large(max_bytes))
    pieces, body = bytearray(), b""
    try:
        if await _has_come(request, pieces, room, max_bytes, timeout_s):
            body = bytes(pieces)
            pieces.clear()
            yield body
        else:
            yield None
    finally:
        room.give_back(len(pieces) + len(body))


async def _has_come(request: Request, pieces: bytearray, room: ReadingRoom, max_bytes: int, timeout_s: float) -> bool:
    """Whether the client sent all of it."""
    try:
        with anyio.fail_after(timeout_s):
            async for piece in request.stream():
                if len(pieces) + len(piece) > max_bytes:
                    raise BodyRefused(_too_large(max_bytes))
                room.take(len(piece))
                pieces += piece
    except ClientDisconnect:
        return False
    except TimeoutError as error:
        what = f"the body took more than {timeout_s:g} s: send it faster"
        raise BodyRefused(Failure(FailureKind.TOO_SLOW, what)) from error
    return True


def _too_large(max_bytes: int) -> Failure:
    return Failure(FailureKind.TOO_LARGE, f"the body is larger than {max_bytes} bytes, the most this server takes")
