"""The endpoints: read a request, hand it to the road, send back what comes. Knows HTTP and no dialect.

Promises: whatever can be refused — no JSON, too long, queue full, closing — is an HTTP status before anything is sent;
a client that leaves ends its request; every request that was queued is counted and logged once.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import anyio
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from whitedwarf.conversation.json_value import Json
from whitedwarf.errors import WhitedwarfError
from whitedwarf.protocol.dialects import CHAT, Dialect, Told
from whitedwarf.protocol.failures import Failure, FailureKind
from whitedwarf.respond import Prepared, Reply, Road
from whitedwarf.server.body import MAX_BODY_BYTES, BodyRefused, read_body
from whitedwarf.server.metrics import CONTENT_TYPE, Metrics, Running
from whitedwarf.server.models import ServedModel
from whitedwarf.server.refusal import refusal
from whitedwarf.server.stream import KEEPALIVE_S, StreamedReply, told_whole, unless_gone

log = logging.getLogger(__name__)

Endpoint = Callable[[Request], Awaitable[Response]]
SHORTEST_TIMED_S = 0.0005
_GONE = 499  # nobody reads it; the usual number for a client that left


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Everything that is answered, over one model; `look_at_last` where a script answers in its place."""

    road: Road
    model: ServedModel
    metrics: Metrics = field(default_factory=Metrics)
    max_body_bytes: int = MAX_BODY_BYTES
    keepalive_s: float = KEEPALIVE_S
    look_at_last: Callable[[], dict[str, Json]] | None = None

    def answer(self, dialect: Dialect) -> Endpoint:
        """The endpoint that answers requests of this dialect."""

        async def endpoint(request: Request) -> Response:
            return await self._guarded(request, dialect, self._answer)

        return endpoint

    def count(self, dialect: Dialect) -> Endpoint:
        """The endpoint that says how long a prompt is; it never waits for the engine (demand.md P27)."""

        async def endpoint(request: Request) -> Response:
            return await self._guarded(request, dialect, self._count)

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
        return refusal(Failure(FailureKind.UNKNOWN_MODEL, message), CHAT)

    async def health(self, request: Request) -> Response:
        """GET /health."""
        return JSONResponse({"status": "ok"})

    async def debug_last(self, request: Request) -> Response:
        """GET /debug/last, with a script only: the last request as it reached the engine."""
        assert self.look_at_last is not None
        return JSONResponse(await anyio.to_thread.run_sync(self.look_at_last))

    async def show_metrics(self, request: Request) -> Response:
        """GET /metrics, for Prometheus."""
        return Response(self.metrics.exposition(), media_type=CONTENT_TYPE)

    async def status(self, request: Request) -> Response:
        """GET /: what runs here, for people."""
        return PlainTextResponse(
            f"whitedwarf serves {self.model.name} as {self.model.id}, context {self.model.context_length} tokens.\n\n"
            "OpenAI:    /v1/chat/completions  /v1/responses  /v1/completions  /v1/models\n"
            "Anthropic: /v1/messages  /v1/messages/count_tokens\n"
            "Server:    /health  /metrics\n"
        )

    async def _guarded(
        self, request: Request, dialect: Dialect, act: Callable[[Request, Dialect, bytes], Awaitable[Response]]
    ) -> Response:
        try:
            body = await read_body(request, self.max_body_bytes)
            return Response(status_code=_GONE) if body is None else await act(request, dialect, body)
        except BodyRefused as refused:
            # What the client still sends is not read, so the connection is of no more use.
            return self._refused(refused.failure, dialect, {"connection": "close"})
        except WhitedwarfError as error:
            return self._refused(Failure.of(error), dialect)

    def _refused(self, failure: Failure, dialect: Dialect, headers: dict[str, str] | None = None) -> Response:
        self.metrics.count_refused(dialect.name, failure.status)
        log.info("request_refused", extra={"dialect": dialect.name, "status": failure.status, "why": failure.message})
        return refusal(failure, dialect, headers)

    async def _count(self, request: Request, dialect: Dialect, body: bytes) -> Response:
        count = await anyio.to_thread.run_sync(self.road.count_tokens, body, dialect)
        return JSONResponse({"input_tokens": count})

    async def _answer(self, request: Request, dialect: Dialect, body: bytes) -> Response:
        prepared = await anyio.to_thread.run_sync(self.road.prepare, body, dialect)
        reply = self.road.start(prepared)
        running = self.metrics.begin(dialect.name, prepared.converted.unknown_fields)
        headers = _warnings(prepared)
        if prepared.is_streamed:
            return StreamedReply(reply, dialect, headers, lambda: _end(running, dialect, reply), self.keepalive_s)
        try:
            return await _whole(request, reply, dialect, headers)
        finally:
            reply.generation.cancel()
            _end(running, dialect, reply)


async def _whole(request: Request, reply: Reply, dialect: Dialect, headers: dict[str, str]) -> Response:
    """The answer in one body, or the status of its failure."""
    told: list[Told] = []

    async def work() -> None:
        told.extend(await told_whole(reply))

    if not await unless_gone(request.receive, work):
        return Response(status_code=_GONE)
    if reply.failure is not None:
        return refusal(reply.failure, dialect)
    return JSONResponse(reply.body(told), headers=headers)


def _end(running: Running, dialect: Dialect, reply: Reply) -> None:
    end = "failed" if reply.failure else "done" if reply.is_over else "cancelled"
    running.count_repairs(reply.repairs)
    seconds = running.end(end, reply.prompt_tokens, reply.cached_tokens, reply.generated_tokens)
    log.info(
        "request_ended",
        extra={
            "dialect": dialect.name,
            "end": end,
            "prompt": reply.prompt_tokens,
            "cached": reply.cached_tokens,
            "generated": reply.generated_tokens,
            "seconds": round(seconds, 3),
            "why": reply.failure.message if reply.failure else "",
            "repairs": ",".join(reply.repairs),
            **_engine_facts(reply),
        },
    )


def _engine_facts(reply: Reply) -> dict[str, object]:
    """Where the prompt's beginning came from, why no more of it did, and tokens a second."""
    finished = reply.finished
    if finished is None:
        return {}
    computed = finished.prompt_tokens - finished.reused_tokens
    return {
        "reuse": finished.reuse.value,
        "miss": "" if finished.miss_reason is None else finished.miss_reason.value,
        "prefill_tps": _rate(computed, finished.prefill_s),
        "decode_tps": _rate(finished.generated_tokens, finished.decode_s),
    }


def _rate(tokens: int, seconds: float) -> object:
    """Tokens a second; nothing where the time was too short to tell, as with a script."""
    return round(tokens / seconds, 1) if seconds >= SHORTEST_TIMED_S else ""


def _warnings(prepared: Prepared) -> dict[str, str]:
    """What was asked for and is not done, as a header (RFC 7234 5.5): ASCII without controls."""
    shown = [sentence.encode("ascii", "backslashreplace").decode() for sentence in prepared.warnings]
    quoted = ["".join(filter(str.isprintable, sentence)).replace('"', "'").replace("\\", "/") for sentence in shown]
    return {"warning": ", ".join(f'199 whitedwarf "{sentence}"' for sentence in quoted)} if quoted else {}
