"""The items of a Responses request's input, read (spec/recipe.md 4). Does not know how they belong together."""

from dataclasses import dataclass
from typing import TypeAlias

from whitedwarf.conversation.json_value import Json
from whitedwarf.protocol.custom_tools import custom_arguments
from whitedwarf.protocol.failures import MalformedRequest
from whitedwarf.protocol.fields import (
    Reader,
    list_of,
    optional,
    record,
    required,
    string,
    variant,
    within_tagged,
    wrong_type,
)
from whitedwarf.protocol.openai_responses.blocks import Blocks, read_content, read_output
from whitedwarf.protocol.openai_responses.declarations import Tool, read_execution, read_found_tool
from whitedwarf.protocol.resolution import compact

TOOL_SEARCH = "tool_search"
"""The name that the model calls to search for tools."""


@dataclass(frozen=True, slots=True)
class MessageItem:
    """What somebody said."""

    role: str
    content: Blocks


@dataclass(frozen=True, slots=True)
class ReasoningItem:
    """What the model thought."""

    text: str


@dataclass(frozen=True, slots=True)
class CallItem:
    """A call that the model made. `arguments` is meant to be JSON text; `is_search`: of the search for tools."""

    call_id: str
    name: str
    arguments: str
    namespace: str | None = None
    is_search: bool = False


@dataclass(frozen=True, slots=True)
class OutputItem:
    """What a tool gave; without an id it is not said to which call."""

    call_id: str | None
    output: Blocks
    is_custom: bool = False


@dataclass(frozen=True, slots=True)
class SearchOutputItem:
    """The tools that a search found; only the local policy takes it without an id."""

    call_id: str | None
    tools: tuple[Tool, ...]


@dataclass(frozen=True, slots=True)
class HostedCallItem:
    """A call that a server ran for itself: nothing of it reaches the model."""


@dataclass(frozen=True, slots=True)
class UnknownItem:
    """A kind of item that nothing is known of: as if it were not there."""


Item: TypeAlias = MessageItem | ReasoningItem | CallItem | OutputItem | SearchOutputItem | HostedCallItem | UnknownItem


def _reasoning(content: list[str] | None, encrypted_content: str | None) -> ReasoningItem:
    return ReasoningItem("\n".join(content or ()))


def _custom_call(call_id: str, name: str, input: str) -> CallItem:
    return CallItem(call_id, name, custom_arguments(input))


def _search_call(call_id: str, execution: str | None, arguments: Json) -> CallItem:
    return CallItem(call_id, TOOL_SEARCH, compact(arguments), is_search=True)


def _search_output(call_id: str, tools: list[Tool], execution: str | None) -> SearchOutputItem:
    return SearchOutputItem(call_id, tuple(tools))


def _custom_output(call_id: str, output: Blocks) -> OutputItem:
    return OutputItem(call_id, output, is_custom=True)


def _object(value: Json) -> Json:
    if not isinstance(value, dict):
        raise wrong_type(value, "a map")
    return value


def _text_of(text: str) -> str:
    return text


def _hosted(_: Json) -> HostedCallItem:
    return HostedCallItem()


_MESSAGE = record(
    "ResponsesInputMessage",
    {"role": required(variant("user", "assistant", "system", "developer")), "content": required(read_content)},
    MessageItem,
)
_READERS: dict[str, Reader] = {
    "message": _MESSAGE,
    "reasoning": record(
        "ResponsesReasoningItem",
        {
            "content": optional(
                within_tagged(list_of(record("ResponsesReasoningContent", {"text": required(string)}, _text_of))),
            ),
            "encrypted_content": optional(string),
        },
        _reasoning,
    ),
    "function_call": record(
        "ResponsesFunctionCall",
        {
            "arguments": required(string),
            "call_id": required(string),
            "name": required(string),
            "namespace": optional(string),
        },
        CallItem,
    ),
    "custom_tool_call": record(
        "ResponsesCustomToolCall",
        {"call_id": required(string), "name": required(string), "input": required(string)},
        _custom_call,
    ),
    "tool_search_call": record(
        "ResponsesToolSearchCall",
        {"call_id": required(string), "execution": optional(read_execution), "arguments": required(_object)},
        _search_call,
    ),
    "function_call_output": record(
        "ResponsesFunctionCallOutput", {"call_id": optional(string), "output": required(read_output)}, OutputItem
    ),
    "custom_tool_call_output": record(
        "ResponsesCustomToolCallOutput",
        {"call_id": required(string), "output": optional(read_output, default="")},
        _custom_output,
    ),
    "tool_search_output": record(
        "ResponsesToolSearchOutput",
        {
            "call_id": required(string),
            "tools": required(list_of(read_found_tool)),
            "execution": optional(read_execution),
        },
        _search_output,
    ),
    "web_search_call": _hosted,
}


def read_item(value: Json) -> Item:
    """One item; MalformedRequest, in the official words, for what is none."""
    if not isinstance(value, dict) or not ("type" in value or "role" in value):
        raise MalformedRequest("invalid input item")
    if "type" not in value:
        message: MessageItem = _MESSAGE(value)
        return message
    kind = value["type"]
    if not isinstance(kind, str):
        raise wrong_type(kind, "variant identifier")
    reader = _READERS.get(kind)
    if reader is None:
        return UnknownItem()
    item: Item = reader(value)
    return item


_READ_ITEMS = list_of(read_item)


def read_input(value: Json) -> str | tuple[Item, ...]:
    """The whole input: one text, or its items."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list | tuple):
        raise MalformedRequest("input should be a string or a list of input items")
    items: list[Item] = _READ_ITEMS(value)
    return tuple(items)
