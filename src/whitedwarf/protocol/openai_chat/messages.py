"""The messages of a Chat request as they come, typed but not yet checked against one another."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from whitedwarf.protocol.fields import (
    Field,
    Reader,
    boolean,
    list_of,
    optional,
    record,
    required,
    string,
    tagged,
    variant,
)
from whitedwarf.protocol.openai_chat.content import Blocks, read_blocks


@dataclass(frozen=True, slots=True)
class SystemRequest:
    """`role: system`."""

    content: Blocks


@dataclass(frozen=True, slots=True)
class UserRequest:
    """`role: user`."""

    content: Blocks


@dataclass(frozen=True, slots=True)
class FunctionRequest:
    """The name and arguments of a call."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class CallRequest:
    """A call that the model made."""

    id: str
    type: str
    function: FunctionRequest


@dataclass(frozen=True, slots=True)
class AssistantRequest:
    """`role: assistant`."""

    content: Blocks | None = None
    reasoning_content: str | None = None
    tool_calls: list[CallRequest] | None = None
    prefix: bool | None = None

    @property
    def is_prefix(self) -> bool:
        """Whether the answer is to go on from here."""
        return self.prefix is True


@dataclass(frozen=True, slots=True)
class ToolRequest:
    """`role: tool`."""

    content: Blocks
    tool_call_id: str | None  # always there in the official dialect


@dataclass(frozen=True, slots=True)
class ReminderRequest:
    """`role: latest_reminder`."""

    content: str


MessageRequest: TypeAlias = SystemRequest | UserRequest | AssistantRequest | ToolRequest | ReminderRequest

_READ_FUNCTION = record(
    "ChatCompletionRequestToolCallFunction",
    {"name": required(string), "arguments": required(string)},
    FunctionRequest,
)
_READ_CALL = record(
    "ChatCompletionRequestToolCall",
    {"id": required(string), "type": required(variant("function")), "function": required(_READ_FUNCTION)},
    CallRequest,
)


def _named(fields: Mapping[str, Field], make: Callable[..., Any]) -> Reader:
    """A message that may also have a name, which nobody reads."""

    def made(name: str | None, **members: Any) -> Any:
        return make(**members)

    return record("ChatCompletionRequestMessage", {**fields, "name": optional(string)}, made)


_READ_ASSISTANT = _named(
    {
        "content": optional(read_blocks),
        "reasoning_content": optional(string),
        "tool_calls": optional(list_of(_READ_CALL)),
        "prefix": optional(boolean),
    },
    AssistantRequest,
)
read_message = tagged(
    "ChatCompletionRequestMessage",
    {
        "system": _named({"content": required(read_blocks)}, SystemRequest),
        "user": _named({"content": required(read_blocks)}, UserRequest),
        "assistant": _READ_ASSISTANT,
        "tool": _named({"content": required(read_blocks), "tool_call_id": required(string)}, ToolRequest),
        "latest_reminder": record("ChatCompletionRequestMessage", {"content": required(string)}, ReminderRequest),
    },
    tag="role",
)
"""One message of a body; MalformedRequest with the official words."""
