"""The body of a Chat Completions request, typed: the twenty fields that the official library reads."""

from collections.abc import Mapping
from dataclasses import dataclass

from whitedwarf.conversation.json_value import Json
from whitedwarf.protocol.failures import MalformedRequest
from whitedwarf.protocol.fields import (
    Field,
    boolean,
    list_of,
    optional,
    record,
    required,
    single,
    string,
    unsigned,
    variant,
)
from whitedwarf.protocol.openai_chat.messages import MessageRequest, read_message
from whitedwarf.protocol.openai_chat.response_formats import FormatRequest, read_format
from whitedwarf.protocol.openai_chat.tools import ChoiceRequest, ToolRequested, read_choice, read_tool
from whitedwarf.protocol.resolution import EFFORTS


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """How a streamed answer is to be told."""

    include_usage: bool | None = None


@dataclass(frozen=True, slots=True)
class ThinkingRequest:
    """Whether to think; the budget is read and not used."""

    type: str
    budget_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """Everything that a request may say; None where it does not."""

    messages: list[MessageRequest]
    model: str
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    n: int | None = None
    stop: str | list[str] | None = None
    seed: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    tools: list[ToolRequested] | None = None
    tool_choice: ChoiceRequest | None = None
    parallel_tool_calls: bool | None = None
    response_format: FormatRequest | None = None
    thinking: ThinkingRequest | None = None
    reasoning_effort: str | None = None


def read_stop(value: Json) -> str | list[str]:
    """One string or several."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise MalformedRequest("expected a string or a list")
    return [string(item) for item in value]


FIELDS: Mapping[str, Field] = {
    "messages": required(list_of(read_message)),
    "model": required(string),
    "frequency_penalty": optional(single),
    "logprobs": optional(boolean),
    "top_logprobs": optional(unsigned(8)),
    "max_tokens": optional(unsigned(32)),
    "n": optional(unsigned(8)),
    "presence_penalty": optional(single),
    "seed": optional(unsigned(64)),
    "stop": optional(read_stop),
    "stream": optional(boolean),
    "stream_options": optional(
        record("ChatCompletionStreamOptions", {"include_usage": optional(boolean)}, StreamOptions)
    ),
    "temperature": optional(single),
    "top_p": optional(single),
    "response_format": optional(read_format),
    "tools": optional(list_of(read_tool)),
    "tool_choice": optional(read_choice),
    "reasoning_effort": optional(variant(*EFFORTS)),
    "thinking": optional(
        record(
            "ChatCompletionThinking",
            {"type": required(variant("adaptive", "enabled", "disabled")), "budget_tokens": optional(unsigned(64))},
            ThinkingRequest,
        )
    ),
    "parallel_tool_calls": optional(boolean),
}

read_request = record("ChatCompletionRequest", FIELDS, ChatRequest)
"""A whole body; MalformedRequest with the official words."""
