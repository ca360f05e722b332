"""What every request has to pass before it reaches an endpoint: Host, Origin, key. (Its content type: body.py.)

Every response carries the request's id, under the names by which OpenAI's and Anthropic's libraries find it; the log
has it too.

A plain ASGI layer, because Starlette's own middleware would stand between a stream and the news that its client left.
"""

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from whitedwarf.protocol.failures import Failure, FailureKind
from whitedwarf.server.refusal import counted_as, dialect_of, refusal
from whitedwarf.web.auth import ApiKeys
from whitedwarf.web.host_check import HostRule

OPEN_PATHS = ("/health",)
"""Answered without a key: whoever watches over a server need not be able to use it."""

ID_HEADERS = ("x-request-id", "request-id")

_CORS = {
    "access-control-allow-origin": "*",
    "access-control-allow-methods": "GET, POST, OPTIONS",
    "access-control-allow-headers": "*, Authorization",  # the star alone does not stand for this one
    "access-control-expose-headers": "*",
}


@dataclass(frozen=True, slots=True)
class Gate:
    """Lets through to `app` what may pass, and refuses the rest in the dialect of its address."""

    app: ASGIApp
    hosts: HostRule
    keys: ApiKeys | None = None
    count_refused: Callable[[str, int], None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        added = dict.fromkeys(ID_HEADERS, _new_id(scope)) | (_CORS if self.hosts.allows_all_origins else {})
        await self._next(scope)(scope, receive, _with_headers(send, added.items()))

    def _next(self, scope: Scope) -> ASGIApp:
        headers = Headers(scope=scope)
        failure = self._foreign(headers) or _ambiguous(headers) or _two_lines(scope["path"])
        if failure is None and scope["method"] == "OPTIONS":
            return Response(status_code=204, headers={"allow": "GET, HEAD, POST, OPTIONS"})
        failure = failure or self._without_key(headers, scope["path"])
        if failure is None:
            return self.app
        if self.count_refused is not None:
            self.count_refused(counted_as(scope["path"]), failure.status)
        # What the client still sends is not read, so the connection is of no more use.
        return refusal(failure, dialect_of(scope["path"]), {"connection": "close"})

    def _foreign(self, headers: Headers) -> Failure | None:
        host = headers.get("host")
        if not self.hosts.admits_host(host):
            what = f"the Host header names {host!r:.80}, which is not this server: use its address or --allow-host"
            return Failure(FailureKind.FORBIDDEN, what)
        for origin in headers.getlist("origin"):
            if not self.hosts.admits_origin(origin, host):
                what = f"web pages of {origin!r:.80} may not use this server; --cors allows all pages"
                return Failure(FailureKind.FORBIDDEN, what)
        return None

    def _without_key(self, headers: Headers, path: str) -> Failure | None:
        if self.keys is None or path in OPEN_PATHS or self.keys.admits(headers):
            return None
        what = "expected a key of this server as `Authorization: Bearer KEY` or `x-api-key: KEY`"
        return Failure(FailureKind.UNAUTHORIZED, what)


def _new_id(scope: Scope) -> str:
    """Made here, and kept where endpoints find it: `request.state.id`."""
    request_id = f"req_{secrets.token_hex(12)}"
    scope.setdefault("state", {})["id"] = request_id
    return request_id


def _ambiguous(headers: Headers) -> Failure | None:
    """Two lengths: a proxy before us may have believed the other one (request smuggling, RFC 9112 6.3)."""
    if "content-length" not in headers or "transfer-encoding" not in headers:
        return None
    what = "expected Content-Length or Transfer-Encoding, got both: where the body ends is uncertain"
    return Failure(FailureKind.INVALID, what)


def _two_lines(path: str) -> Failure | None:
    """Patterns overlook a line's end at the end, and no address of ours has one."""
    if "\n" not in path:
        return None
    return Failure(FailureKind.NOT_FOUND, f"expected an address of one line, got {path!r:.120}")


def _with_headers(send: Send, added: Iterable[tuple[str, str]]) -> Send:
    async def send_more(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in added:
                headers[name] = value
        await send(message)

    return send_more
