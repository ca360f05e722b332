"""The endpoints: read a request, hand it to the road, send back what comes. Knows HTTP and no dialect.

Promises: whatever can be refused — no JSON, too long, queue full, closing — is an HTTP status before anything is sent;
a client that leaves ends its request; every request that was queued is counted and logged once.
"""

import itertools
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import anyio
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response

from whitedwarf.conversation.json_value import Json
from whitedwarf.errors import EngineClosedError, WhitedwarfError
from whitedwarf.protocol.dialects import CHAT, RESPONSES, Dialect
from whitedwarf.protocol.failures import Failure, FailureKind
from whitedwarf.reply import Answering, Prepared
from whitedwarf.respond import Road
from whitedwarf.server.body import MAX_BODY_BYTES, BodyRefused, ReadingRoom, check_headers, reading
from whitedwarf.server.facts import Facts
from whitedwarf.server.metrics import CONTENT_TYPE, Metrics
from whitedwarf.server.models import ServedModel
from whitedwarf.server.openapi import openapi_document
from whitedwarf.server.props import props
from whitedwarf.server.refusal import counted_as, refusal
from whitedwarf.server.request_trace import RequestTrace, Trace
from whitedwarf.server.status_page import PAGE_HEADERS, StatusPage
from whitedwarf.server.stream import KEEPALIVE_S, StreamedReply, collect_all, unless_gone
from whitedwarf.server.watch import Watch

log = logging.getLogger(__name__)

Asked = TypeVar("Asked")
Endpoint = Callable[[Request], Awaitable[Response]]
_NO_ENGINE = "the engine has stopped, the log says why: start the server again"
_GONE = 499  # nobody reads it; the usual number for a client that left


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Everything that is answered, over one model; `look_at_last` where a script answers in its place."""

    road: Road
    model: ServedModel
    metrics: Metrics = field(default_factory=Metrics)
    facts: Facts = field(default_factory=Facts)
    trace: Trace | None = None
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    max_body_bytes: int = MAX_BODY_BYTES
    room: ReadingRoom = field(default_factory=ReadingRoom)
    keepalive_s: float = KEEPALIVE_S
    look_at_last: Callable[[], dict[str, Json]] | None = None

    def answer(self, dialect: Dialect) -> Endpoint:
        """The endpoint that answers requests of this dialect."""

        async def endpoint(request: Request) -> Response:
            return await self._guarded(request, dialect, self._prepare, self._answer)

        return endpoint

    def count(self, dialect: Dialect) -> Endpoint:
        """The endpoint that says how long a prompt is; it never waits for the engine (demand.md P27)."""

        async def endpoint(request: Request) -> Response:
            return await self._guarded(request, dialect, self.road.count_tokens, _told_count)

        return endpoint

    async def models(self, request: Request) -> Response:
        """GET /v1/models."""
        return JSONResponse(self.model.as_list())

    async def one_model(self, request: Request) -> Response:
        """GET /v1/models/{id}: the id is compared and nothing else."""
        asked = request.path_params["model_id"]
        if asked == self.model.id:
            return JSONResponse(self.model.as_json())
        message = f"there is no model {asked!r:.80} here: {self.model.id} is loaded (requests may give any name)"
        failure = Failure(FailureKind.UNKNOWN_MODEL, message)
        self.metrics.count_refused(counted_as(request.url.path), failure.status)
        return refusal(failure, CHAT)

    async def health(self, request: Request) -> Response:
        """GET /health: 503 where nothing can be answered any more, for whoever starts servers anew."""
        if self.facts.is_running():
            return JSONResponse({"status": "ok"})
        return refusal(Failure.of(EngineClosedError(_NO_ENGINE)), CHAT)

    async def debug_last(self, request: Request) -> Response:
        """GET /debug/last, with a script only: the last request as it reached the engine."""
        assert self.look_at_last is not None
        return JSONResponse(await anyio.to_thread.run_sync(self.look_at_last))

    async def show_metrics(self, request: Request) -> Response:
        """GET /metrics, for Prometheus."""
        return Response(self.metrics.exposition(), media_type=CONTENT_TYPE)

    async def show_props(self, request: Request) -> Response:
        """GET /props."""
        return JSONResponse(props(self.model, self.facts, self.metrics.load))

    async def show_openapi(self, request: Request) -> Response:
        """GET /openapi.json."""
        return JSONResponse(openapi_document())

    async def status(self, request: Request) -> Response:
        """GET /: what runs here, for people."""
        page = StatusPage(self.model, self.facts, self.metrics.load)
        if "text/html" in request.headers.get("accept", ""):
            return HTMLResponse(page.html(), headers=PAGE_HEADERS)
        return PlainTextResponse(page.text(), headers={"vary": "accept"})

    async def _guarded(
        self,
        request: Request,
        dialect: Dialect,
        read: Callable[[bytes, Dialect], Asked],
        act: Callable[[Request, Dialect, Asked], Awaitable[Response]],
    ) -> Response:
        try:
            check_headers(request.headers)
            asked = await self._asked(request, dialect, read)
            return Response(status_code=_GONE) if asked is None else await act(request, dialect, asked)
        except BodyRefused as refused:
            # What the client still sends is not read, so the connection is of no more use.
            return self._refused(request, refused.failure, dialect, {"connection": "close"})
        except WhitedwarfError as error:
            return self._refused(request, Failure.of(error), dialect)

    async def _asked(self, request: Request, dialect: Dialect, read: Callable[[bytes, Dialect], Asked]) -> Asked | None:
        """What is made of the body, which is let go of then: an answer may wait for hours."""
        async with reading(request, self.room, self.max_body_bytes) as body:
            return None if body is None else await anyio.to_thread.run_sync(self._read, body, dialect, read)

    def _read(self, body: bytes, dialect: Dialect, read: Callable[[bytes, Dialect], Asked]) -> Asked:
        try:
            return read(body, dialect)
        except WhitedwarfError as error:
            if self.trace is not None:
                self.trace.refused(next(self.numbers), dialect.name, body, Failure.of(error))
            raise

    def _prepare(self, body: bytes, dialect: Dialect) -> "_Numbered":
        prepared = self.road.prepare(body, dialect)
        number = next(self.numbers)
        return _Numbered(number, prepared, None if self.trace is None else self.trace.begin(number, prepared, body))

    def _refused(
        self, request: Request, failure: Failure, dialect: Dialect, headers: dict[str, str] | None = None
    ) -> Response:
        self.metrics.count_refused(dialect.name, failure.status)
        facts = {"id": request.state.id, "dialect": dialect.name, "status": failure.status, "why": failure.message}
        log.info("request_refused", extra=facts)
        return refusal(failure, dialect, headers)

    async def _answer(self, request: Request, dialect: Dialect, asked: "_Numbered") -> Response:
        prepared, trace = asked.prepared, asked.trace
        try:
            reply = self.road.start(prepared)
        except WhitedwarfError as error:
            if trace is not None:
                trace.end("refused", Failure.of(error))
            return self._refused(request, Failure.of(error), dialect)
        watch = Watch(asked.number, prepared, self.metrics, trace, request.state.id)
        reply.watched_by(watch)
        headers = _warnings(prepared)
        if prepared.is_streamed:
            return StreamedReply(reply, dialect, headers, lambda: watch.end(reply), self.keepalive_s)
        try:
            return await _whole(request, reply, dialect, headers)
        finally:
            reply.leave()
            watch.end(reply)


@dataclass(frozen=True, slots=True)
class _Numbered:
    """A request that can be answered, the log's number of it, and its block of the trace."""

    number: int
    prepared: Prepared
    trace: RequestTrace | None


async def _told_count(request: Request, dialect: Dialect, count: int) -> Response:
    kind = {"object": "response.input_tokens"} if dialect is RESPONSES else {}
    return JSONResponse({**kind, "input_tokens": count})


async def _whole(request: Request, reply: Answering, dialect: Dialect, headers: dict[str, str]) -> Response:
    """The answer in one body, or the status of its failure."""
    if not await unless_gone(request.receive, partial(collect_all, reply)):
        return Response(status_code=_GONE)
    if reply.failure is not None:
        return refusal(reply.failure, dialect)
    return JSONResponse(reply.body(), headers=headers)


def _warnings(prepared: Prepared) -> dict[str, str]:
    """What was asked for and is not done, as a header (RFC 7234 5.5): ASCII without controls."""
    shown = [sentence.encode("ascii", "backslashreplace").decode() for sentence in prepared.warnings]
    quoted = ["".join(filter(str.isprintable, sentence)).replace('"', "'").replace("\\", "/") for sentence in shown]
    return {"warning": ", ".join(f'199 whitedwarf "{sentence}"' for sentence in quoted)} if quoted else {}
