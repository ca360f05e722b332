"""Requests that cannot be answered, and how each dialect says so.

Promises: every request that is at fault is a 400 with a complete sentence; bodies are plain JSON values, keys in the
dialect's order. Official texts: spec/recipe.md 1; those that agents act on, with their statuses: spec/clients.md 5.
"""

from dataclasses import dataclass
from enum import Enum

from whitedwarf.conversation.json_value import Json
from whitedwarf.errors import ContextOverflowError, EngineBusyError, EngineClosedError, RequestError, WhitedwarfError


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


class FailureKind(Enum):
    """Why there is no answer: HTTP status, and the names that OpenAI (type, code) and Anthropic have for it."""

    INVALID = (400, "invalid_request_error", "invalid_request_error", "invalid_request_error")
    TOO_LONG = (400, "invalid_request_error", "context_length_exceeded", "invalid_request_error")
    UNAUTHORIZED = (401, "authentication_error", "invalid_api_key", "authentication_error")
    FORBIDDEN = (403, "invalid_request_error", "forbidden", "permission_error")
    NOT_FOUND = (404, "invalid_request_error", "not_found", "not_found_error")
    UNKNOWN_MODEL = (404, "invalid_request_error", "model_not_found", "not_found_error")
    WRONG_METHOD = (405, "invalid_request_error", "method_not_allowed", "invalid_request_error")
    TOO_SLOW = (408, "invalid_request_error", "request_timeout", "invalid_request_error")
    NO_LENGTH = (411, "invalid_request_error", "length_required", "invalid_request_error")
    TOO_LARGE = (413, "invalid_request_error", "request_too_large", "request_too_large")
    WRONG_TYPE = (415, "invalid_request_error", "unsupported_media_type", "invalid_request_error")
    RATE_LIMITED = (429, "rate_limit_error", "rate_limit_exceeded", "rate_limit_error")
    SERVER = (500, "server_error", "server_error", "api_error")
    NOT_SUPPORTED = (501, "invalid_request_error", "not_supported", "api_error")
    OVERLOADED = (503, "server_error", "overloaded", "overloaded_error")

    def __init__(self, status: int, openai_type: str, openai_code: str, anthropic_type: str) -> None:
        self.status = status
        self.openai_type = openai_type
        self.openai_code = openai_code
        self.anthropic_type = anthropic_type


@dataclass(frozen=True, slots=True)
class Failure:
    """A request without answer. `prompt_tokens` and `context_length` are known where the prompt was too long."""

    kind: FailureKind
    message: str
    prompt_tokens: int | None = None
    context_length: int | None = None

    @classmethod
    def of(cls, error: WhitedwarfError) -> "Failure":
        """What an error means to a client."""
        match error:
            case ContextLengthExceeded():
                return cls(FailureKind.TOO_LONG, str(error), error.prompt_tokens, error.context_length)
            case ContextOverflowError():
                return cls(FailureKind.TOO_LONG, str(error))
            case InvalidJson():
                return cls(FailureKind.INVALID, str(error))
            case MalformedRequest():
                return cls(FailureKind.INVALID, f"invalid request body: {error}")
            case RequestError():
                return cls(FailureKind.INVALID, str(error))
            case EngineBusyError():
                return cls(FailureKind.RATE_LIMITED, str(error))
            case EngineClosedError():
                return cls(FailureKind.OVERLOADED, str(error))
            case _:
                return cls(FailureKind.SERVER, str(error))

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.kind.status


def openai_body(failure: Failure, param: str = "messages") -> dict[str, Json]:
    """The body for Chat, Responses and Completions; `param` is where the prompt is: messages, input or prompt."""
    is_about_prompt = failure.kind is FailureKind.TOO_LONG
    shown: dict[str, Json] = {
        "message": _openai_message(failure, "prompt" if param == "prompt" else "messages"),
        "type": failure.kind.openai_type,
        "param": param if is_about_prompt else None,
        "code": failure.kind.openai_code,
    }
    return {"error": shown | _sizes(failure)}


def anthropic_body(failure: Failure) -> dict[str, Json]:
    """The body for Messages."""
    shown: dict[str, Json] = {"type": failure.kind.anthropic_type, "message": _anthropic_message(failure)}
    return {"type": "error", "error": shown | _sizes(failure)}


def _openai_message(failure: Failure, noun: str) -> str:
    """The words by which agents know that the conversation has to become shorter."""
    if not _is_prompt_alone_too_long(failure):
        return failure.message
    return (
        f"This model's maximum context length is {failure.context_length} tokens. However, your {noun} resulted in "
        f"{failure.prompt_tokens} tokens. Please reduce the length of the {noun}."
    )


def _anthropic_message(failure: Failure) -> str:
    if not _is_prompt_alone_too_long(failure):
        return failure.message
    return f"prompt is too long: {failure.prompt_tokens} tokens > {failure.context_length} maximum"


def _is_prompt_alone_too_long(failure: Failure) -> bool:
    """Whether no answer would fit, however short: else the message has to say what was asked for."""
    if failure.prompt_tokens is None or failure.context_length is None:
        return False
    return failure.prompt_tokens >= failure.context_length


def _sizes(failure: Failure) -> dict[str, Json]:
    if failure.prompt_tokens is None or failure.context_length is None:
        return {}
    return {"n_prompt_tokens": failure.prompt_tokens, "n_ctx": failure.context_length}
