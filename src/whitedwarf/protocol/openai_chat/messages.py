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
    "ChatCompletionRequestFunctionCall",
    {"name": required(string), "arguments": required(string)},
    FunctionRequest,
)
_READ_CALL = record(
    "ChatCompletionRequestToolCall",
    {"id": required(string), "type": required(variant("function")), "function": required(_READ_FUNCTION)},
    CallRequest,
)


_ENUM = "ChatCompletionRequestMessage"


def _message(variant: str, fields: Mapping[str, Field], make: Callable[..., Any]) -> Reader:
    """A message; where it may have a name, nobody reads that."""

    def made(name: str | None = None, **members: Any) -> Any:
        return make(**members)

    return record(f"variant {_ENUM}::{variant}", fields, made)


_PROMPT_MEMBERS = {"content": required(read_blocks), "name": optional(string)}
_ASSISTANT_MEMBERS = {
    "content": optional(read_blocks),
    "reasoning_content": optional(string),
    "name": optional(string),
    "tool_calls": optional(list_of(_READ_CALL)),
    "prefix": optional(boolean),
}
read_message = tagged(
    _ENUM,
    {
        "system": _message("System", _PROMPT_MEMBERS, SystemRequest),
        "user": _message("User", _PROMPT_MEMBERS, UserRequest),
        "assistant": _message("Assistant", _ASSISTANT_MEMBERS, AssistantRequest),
        "tool": _message("Tool", {"content": required(read_blocks), "tool_call_id": required(string)}, ToolRequest),
        "latest_reminder": _message("LatestReminder", {"content": required(string)}, ReminderRequest),
    },
    tag="role",
)
"""One message of a body; MalformedRequest with the official words."""
