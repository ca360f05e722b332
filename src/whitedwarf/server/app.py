"""The application: which address is answered by what, and what stands before all of them.

/v1/chat/completions  /v1/responses  /v1/completions  /v1/messages        answers, streamed or whole
/v1/messages/count_tokens  /v1/chat/completions/input_tokens
/v1/responses/input_tokens                                                how long a prompt is
/v1/models  /v1/models/{id}  /health  /metrics  /props  /openapi.json  /    what is here
/debug/last                                                               with --script: the last request
"""

from functools import partial

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from whitedwarf.protocol.dialects import CHAT, COMPLETIONS, MESSAGES, RESPONSES
from whitedwarf.protocol.failures import Failure, FailureKind
from whitedwarf.server.endpoints import Endpoints
from whitedwarf.server.gate import Gate
from whitedwarf.server.metrics import Metrics
from whitedwarf.server.refusal import counted_as, dialect_of, refusal
from whitedwarf.web.auth import ApiKeys
from whitedwarf.web.host_check import HostRule

_KINDS = {404: FailureKind.NOT_FOUND, 405: FailureKind.WRONG_METHOD}
_NOT_SUPPORTED = {
    "/v1/embeddings": "DeepSeek V4 was trained to write, not to embed: nothing in it stands for a text as one vector, "
    "and none that we could make up would be worth searching by. Use a model made for embeddings, behind a server of "
    "its own",
}


def make_app(endpoints: Endpoints, hosts: HostRule, keys: ApiKeys | None = None) -> ASGIApp:
    """The whole server as an ASGI application."""
    inner = Starlette(
        routes=_routes(endpoints),
        exception_handlers={
            HTTPException: partial(_tell_http_error, endpoints.metrics),
            Exception: partial(_tell_bug, endpoints.metrics),
        },
    )
    inner.router.redirect_slashes = False  # a redirected POST would lose its body with some clients
    return Gate(inner, hosts, keys, endpoints.metrics.count_refused)


def _routes(endpoints: Endpoints) -> list[Route]:
    scripted = [Route("/debug/last", endpoints.debug_last)] if endpoints.look_at_last else []
    return [
        *scripted,
        Route("/v1/chat/completions", endpoints.answer(CHAT), methods=["POST"]),
        Route("/v1/responses", endpoints.answer(RESPONSES), methods=["POST"]),
        Route("/v1/messages", endpoints.answer(MESSAGES), methods=["POST"]),
        Route("/v1/completions", endpoints.answer(COMPLETIONS), methods=["POST"]),
        Route("/v1/messages/count_tokens", endpoints.count(MESSAGES), methods=["POST"]),
        Route("/v1/chat/completions/input_tokens", endpoints.count(CHAT), methods=["POST"]),
        Route("/v1/responses/input_tokens", endpoints.count(RESPONSES), methods=["POST"]),
        Route("/v1/models", endpoints.models),
        Route("/v1/models/{model_id:path}", endpoints.one_model),
        Route("/health", endpoints.health),
        Route("/metrics", endpoints.show_metrics),
        Route("/props", endpoints.show_props),
        Route("/openapi.json", endpoints.show_openapi),
        Route("/", endpoints.status),
    ]


async def _tell_http_error(metrics: Metrics, request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if request.url.path in _NOT_SUPPORTED:
        metrics.count_refused(counted_as(request.url.path), FailureKind.NOT_SUPPORTED.status)
        return refusal(Failure(FailureKind.NOT_SUPPORTED, _NOT_SUPPORTED[request.url.path]), CHAT)
    kind = _KINDS.get(error.status_code, FailureKind.INVALID)
    allowed = (error.headers or {}).get("Allow")
    expected = f"expected {allowed}" if allowed else error.detail
    message = f"{request.method} {request.url.path!r:.120}: {expected}. GET / lists what is answered here"
    metrics.count_refused(counted_as(request.url.path), kind.status)
    return refusal(Failure(kind, message), dialect_of(request.url.path), error.headers)


async def _tell_bug(metrics: Metrics, request: Request, error: Exception) -> Response:
    failure = Failure(FailureKind.SERVER, "the server failed on this request; its log says why")
    metrics.count_refused(counted_as(request.url.path), failure.status)
    return refusal(failure, dialect_of(request.url.path))
