"""Responses without an answer, in the words of the dialect that the address belongs to."""

from collections.abc import Mapping

from starlette.responses import JSONResponse

from whitedwarf.protocol.dialects import CHAT, COMPLETIONS, MESSAGES, RESPONSES, Dialect
from whitedwarf.protocol.failures import Failure, FailureKind

RETRY_AFTER_S = 5
"""Clients wait exactly this long; of more than 60 some give up at once (spec/clients.md 5)."""

_STARTS = {
    "/v1/messages": MESSAGES,
    "/v1/responses": RESPONSES,
    "/v1/completions": COMPLETIONS,
    "/v1/chat/completions": CHAT,
}
_TRY_AGAIN = (FailureKind.RATE_LIMITED, FailureKind.OVERLOADED)


def dialect_of(path: str) -> Dialect:
    """The dialect spoken at this address; Chat's where none is."""
    return next((dialect for start, dialect in _STARTS.items() if path.startswith(start)), CHAT)


def counted_as(path: str) -> str:
    """The dialect's name for the metrics: "other" where none is spoken at this address."""
    return next((dialect.name for start, dialect in _STARTS.items() if path.startswith(start)), "other")


def refusal(failure: Failure, dialect: Dialect, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """The response that tells a failure."""
    waits = {"retry-after": str(RETRY_AFTER_S)} if failure.kind in _TRY_AGAIN else {}
    return JSONResponse(dialect.failure_body(failure), failure.status, {**waits, **(headers or {})})
