"""What a body says, whichever policy read it."""

from dataclasses import dataclass

from whitedwarf.conversation.json_value import Json
from whitedwarf.protocol.failures import RefusedRequest
from whitedwarf.protocol.openai_responses.items import Item
from whitedwarf.protocol.openai_responses.request import READ_FIELDS, ResponsesRequest, read_request


@dataclass(frozen=True, slots=True)
class RequestReading:
    """A request, and what the official dialect has no place for; `thinking`: what the request says outright."""

    request: ResponsesRequest
    thinking: bool | None = None
    effort: str | None = None
    stop: list[str] | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    warnings: tuple[str, ...] = ()
    unknown_fields: tuple[str, ...] = ()


def read_official(body: Json) -> RequestReading:
    """The body as the official library reads it; MalformedRequest with its words."""
    request = read_request(body)
    names = body if isinstance(body, dict) else ()
    return RequestReading(
        request,
        effort=request.reasoning.effort,
        unknown_fields=tuple(name for name in names if name not in READ_FIELDS),
    )


def request_items(request: ResponsesRequest) -> tuple[Item, ...]:
    """The items; RefusedRequest where a request says nothing at all."""
    if request.input is None and not request.instructions:
        raise RefusedRequest("Either input or instructions must be provided")
    if request.input is None or isinstance(request.input, str):
        return ()
    if not request.input:
        raise RefusedRequest("Input items array must not be empty")
    return request.input
