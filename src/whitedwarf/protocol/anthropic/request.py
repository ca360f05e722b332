"""The body of a Messages request as a typed value, and the official reading of it.

Promises: errors in the official library's words and order (spec/recipe.md 2 and 5). The local policy's reading is in
local_request.py; it gives the same value.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from whitedwarf.conversation.json_value import Json
from whitedwarf.conversation.response_format import JsonSchema
from whitedwarf.protocol.anthropic.blocks import Block, content_block, system_block, text_or_list
from whitedwarf.protocol.anthropic.tools import Declaration, ToolWish, declaration, tool_wish
from whitedwarf.protocol.billing_header import is_billing_block
from whitedwarf.protocol.failures import MalformedRequest
from whitedwarf.protocol.fields import (
    boolean,
    list_of,
    optional,
    record,
    required,
    single,
    string,
    unsigned,
    variant,
    wrong_type,
)
from whitedwarf.protocol.resolution import EFFORTS


@dataclass(frozen=True, slots=True)
class RequestMessage:
    """One message; a plain text is one text block."""

    role: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class MessagesRequest:
    """What a request says. `system` are the texts of the system prompt, None where there is none."""

    model: str
    messages: tuple[RequestMessage, ...]
    max_tokens: int | None = None
    system: tuple[str, ...] | None = None
    is_streamed: bool = False
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    stop_sequences: tuple[str, ...] = ()
    thinking: bool | None = None
    effort: str | None = None
    tools: tuple[Declaration, ...] = ()
    wish: ToolWish = field(default_factory=ToolWish)
    response_schema: JsonSchema | None = None


_MESSAGE = "adjacently tagged enum MessagesMessage"
_ROLE = variant("user", "assistant", "system")
_CONTENT = text_or_list(content_block)
_SYSTEM = text_or_list(system_block)


def _message(value: Json) -> RequestMessage:
    if isinstance(value, list | tuple):
        return _message_from_list(value)
    if not isinstance(value, dict):
        raise wrong_type(value, _MESSAGE)
    for name in ("role", "content"):  # the role is read first, wherever it stands
        if name not in value:
            raise MalformedRequest(f"missing field `{name}`")
        if name == "role":
            role = _ROLE(value["role"])
    return RequestMessage(role, _CONTENT(value["content"]))


def _message_from_list(values: Sequence[Json]) -> RequestMessage:
    """The library also takes `[role, content]`."""
    if not values:
        raise MalformedRequest(f"invalid length 0, expected {_MESSAGE}")
    if not isinstance(values[0], str):
        raise wrong_type(values[0], "variant identifier")
    role = _ROLE(values[0])
    if len(values) == 1:
        raise MalformedRequest(f"invalid length 1, expected {_MESSAGE}")
    blocks = _CONTENT(values[1])
    if len(values) > 2:
        raise MalformedRequest(f"invalid length {len(values)}, expected fewer elements in array")
    return RequestMessage(role, blocks)


def _system(value: Json) -> tuple[str, ...]:
    texts = tuple(block.text for block in _SYSTEM(value))
    is_list = not isinstance(value, str)
    return texts[1:] if is_list and texts and is_billing_block(texts[0]) else texts


def _thinking(type: str, budget_tokens: int | None) -> bool:
    return type != "disabled"


def _request(**members: Any) -> MessagesRequest:
    return MessagesRequest(
        model=members["model"],
        messages=tuple(members["messages"]),
        max_tokens=members["max_tokens"],
        system=members["system"],
        is_streamed=bool(members["stream"]),
        temperature=members["temperature"],
        top_p=members["top_p"],
        stop_sequences=tuple(members["stop_sequences"] or ()),
        thinking=members["thinking"],
        effort=members["output_config"],
        tools=tuple(members["tools"] or ()),
        wish=members["tool_choice"] or ToolWish(),
    )


read_official = record(
    "MessagesRequest",
    {
        "model": required(string),
        "messages": required(list_of(_message)),
        "system": optional(_system),
        "max_tokens": optional(unsigned(32)),
        "temperature": optional(single),
        "top_p": optional(single),
        "stop_sequences": optional(list_of(string)),
        "stream": optional(boolean),
        "tools": optional(list_of(declaration)),
        "tool_choice": optional(tool_wish),
        "thinking": optional(
            record(
                "MessagesThinking",
                {"type": required(variant("adaptive", "enabled", "disabled")), "budget_tokens": optional(unsigned(64))},
                _thinking,
            )
        ),
        "output_config": optional(
            record("MessagesOutputConfig", {"effort": optional(variant(*EFFORTS))}, lambda effort: effort)
        ),
        "metadata": optional(record("MessagesMetadata", {"user_id": optional(string)}, lambda user_id: None)),
    },
    _request,
)
"""Reads a whole body, officially."""
