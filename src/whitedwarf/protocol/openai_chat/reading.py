"""A Chat request's body, read: what was asked, and what was passed over. local_request.py reads more."""

from collections.abc import Mapping
from dataclasses import dataclass

from whitedwarf.conversation.json_value import Json
from whitedwarf.protocol.openai_chat.request import FIELDS, ChatRequest, read_request


@dataclass(frozen=True, slots=True)
class Reading:
    """A typed request; `thinking` and `effort` however they were said, the rest in the local dialect only."""

    request: ChatRequest
    thinking: bool | None = None
    effort: str | None = None
    top_k: int | None = None
    min_p: float | None = None
    logit_bias: tuple[tuple[int, float], ...] = ()
    custom_tools: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()
    unknown_fields: tuple[str, ...] = ()


def read_official(body: Json) -> Reading:
    """The body as the official library reads it; MalformedRequest with its words."""
    request: ChatRequest = read_request(body)
    switch = request.thinking
    unknown = tuple(name for name in body if name not in FIELDS) if isinstance(body, Mapping) else ()
    return Reading(
        request,
        thinking=None if switch is None else switch.type != "disabled",
        effort=request.reasoning_effort,
        unknown_fields=unknown,
    )
