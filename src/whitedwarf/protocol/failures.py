"""Requests that cannot be answered, and how each dialect says so.

Promises: every failure is a 400 with a complete sentence; bodies are plain JSON values, keys in the dialect's order.
Official texts: spec/recipe.md 1; context overflow: spec/clients.md 5.
"""

from whitedwarf.conversation.json_value import Json
from whitedwarf.errors import RequestError


class MalformedRequest(RequestError):  # noqa: N818  (named for what came)
    """The body is no JSON (InvalidJson), or some part of it has the wrong type."""


class InvalidJson(MalformedRequest):
    """The body is no JSON. The text is complete, where other malformed requests go under `invalid request body: `."""


class RefusedRequest(RequestError):  # noqa: N818
    """Well-formed, but not to be answered."""


class ContextLengthExceeded(RefusedRequest):
    """The prompt (and the answer that was asked for) is longer than the context."""

    def __init__(self, message: str, prompt_tokens: int, context_length: int) -> None:
        super().__init__(message)
        self.prompt_tokens = prompt_tokens
        self.context_length = context_length


def openai_error(error: RequestError, code: str = "invalid_request_error", param: str | None = None) -> dict[str, Json]:
    """The body that the official library gives, in all three protocols."""
    shown = {"message": str(error), "type": "invalid_request_error", "param": param, "code": code}
    return {"error": shown}
