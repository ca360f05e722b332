"""A request's body, within limits of size and time.

Promises: a body that says it is too large is refused before any of it is read, and one that lies as soon as it is.
"""

from collections.abc import Mapping

import anyio
from starlette.requests import ClientDisconnect, Request

from whitedwarf.protocol.failures import Failure, FailureKind

MAX_BODY_BYTES = 64 << 20
BODY_TIMEOUT_S = 60.0  # 64 MiB at 9 Mbit a second


class BodyRefused(Exception):  # noqa: N818
    """The body was not taken; the rest of it is still in the connection."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


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


async def read_body(
    request: Request, max_bytes: int = MAX_BODY_BYTES, timeout_s: float = BODY_TIMEOUT_S
) -> bytes | None:
    """All of it; None where the client left meanwhile. Raises BodyRefused."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > max_bytes:
        raise BodyRefused(_too_large(max_bytes))
    try:
        with anyio.fail_after(timeout_s):
            return await _read(request, max_bytes)
    except ClientDisconnect:
        return None
    except TimeoutError as error:
        what = f"the body took more than {timeout_s:g} s: send it faster"
        raise BodyRefused(Failure(FailureKind.TOO_SLOW, what)) from error


async def _read(request: Request, max_bytes: int) -> bytes:
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > max_bytes:
            raise BodyRefused(_too_large(max_bytes))
    return bytes(body)


def _too_large(max_bytes: int) -> Failure:
    return Failure(FailureKind.TOO_LARGE, f"the body is larger than {max_bytes} bytes, the most this server takes")
