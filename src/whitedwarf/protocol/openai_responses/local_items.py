"""The input's items as clients write them.

Promises: each item keeps its place; what other servers did for themselves, and what is not known, is left out and told;
an error names the item it is about. Does not know how items belong together: local_grouping.py.
"""

from collections.abc import Callable
from dataclasses import dataclass

from whitedwarf.conversation.json_value import Json
from whitedwarf.protocol.custom_tools import custom_arguments
from whitedwarf.protocol.failures import MalformedRequest, RefusedRequest
from whitedwarf.protocol.local_values import (
    Object,
    expected,
    json_text,
    needed_text,
    object_of,
    text_at,
)
from whitedwarf.protocol.notes import Notes, shortened
from whitedwarf.protocol.openai_responses.carried_thoughts import carried
from whitedwarf.protocol.openai_responses.declarations import Tool
from whitedwarf.protocol.openai_responses.items import (
    TOOL_SEARCH,
    CallItem,
    Item,
    MessageItem,
    OutputItem,
    ReasoningItem,
    SearchOutputItem,
    UnknownItem,
)
from whitedwarf.protocol.openai_responses.local_blocks import local_answer, local_content, local_output, texts_within
from whitedwarf.protocol.openai_responses.local_tools import local_tools

ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}
_BUILT_IN_CALLS = {  # the name that the model knows such a tool by, and where the item has the arguments
    "local_shell_call": ("local_shell", "action"),
    "shell_call": ("shell", "action"),
    "apply_patch_call": ("apply_patch", "operation"),
    "computer_call": ("computer", "action"),
}
_HOSTED_CALLS = ("web_search_call", "file_search_call", "image_generation_call", "code_interpreter_call", "mcp_call")
_SILENT = ("compaction", "context_compaction", "compaction_summary", "additional_tools")


@dataclass(frozen=True, slots=True)
class LocalInput:
    """The items, and the tools that items declare."""

    items: tuple[Item, ...]
    tools: tuple[Tool, ...] = ()


def local_input(value: Json, notes: Notes) -> LocalInput:
    """All items; MalformedRequest or RefusedRequest for the first that has no right reading."""
    entries = [value] if isinstance(value, dict) else value
    if not isinstance(entries, list | tuple):
        raise expected("input", "a text or a list of items", value)
    objects = [(f"input[{index}]", _object(entry, f"input[{index}]")) for index, entry in enumerate(entries)]
    added = [(path, entry) for path, entry in objects if entry.get("type") == "additional_tools"]
    return LocalInput(
        tuple(_item(entry, path, notes) for path, entry in objects),
        tuple(tool for path, entry in added for tool in local_tools(entry.get("tools"), f"{path}.tools", notes)),
    )


def _object(entry: Json, path: str) -> Object:
    """A bare text is what the user says."""
    return {"role": "user", "content": entry} if isinstance(entry, str) else object_of(entry, path)


def _item(entry: Object, path: str, notes: Notes) -> Item:
    kind = entry.get("type")
    if kind is None:
        kind = "message"
    if not isinstance(kind, str):
        raise expected(f"{path}.type", "a string", kind)
    reader = _READERS.get(kind)
    if reader is not None:
        return reader(entry, path, notes)
    if kind in _BUILT_IN_CALLS:
        name, member = _BUILT_IN_CALLS[kind]
        return CallItem(_call_id(entry, path), name, json_text(entry.get(member) or {}))
    if kind.endswith("_call_output"):
        return _output(entry, path, notes)
    return _left_out(kind, path, notes)


def _left_out(kind: str, path: str, notes: Notes) -> Item:
    if kind == "item_reference":
        raise RefusedRequest(
            f"{path}: this server stores no items, so an item_reference refers to nothing. "
            "Send the item itself: the full input with every request."
        )
    if kind in _HOSTED_CALLS:
        notes.warn(f"What another server ran itself was left out: items of type {shortened(kind)}.")
    elif kind not in _SILENT:
        notes.warn(f"Items of type {shortened(kind)} are not understood and were left out.")
    return UnknownItem()


def _message(entry: Object, path: str, notes: Notes) -> Item:
    if "role" not in entry and "content" not in entry:
        raise expected(path, "an item with a type, or a message with role and content", entry)
    role = entry.get("role", "user")
    if not isinstance(role, str) or role not in ROLES:
        raise MalformedRequest(f"{path}.role: expected one of {', '.join(ROLES)}; got {shortened(role)}")
    read = local_answer if role == "assistant" else local_content
    return MessageItem(ROLES[role], read(entry.get("content"), f"{path}.content", notes))


def _reasoning(entry: Object, path: str, notes: Notes) -> Item:
    """The thoughts themselves, or else their summary, or else what we had given the client to keep."""
    told = texts_within(entry.get("content")) or texts_within(entry.get("summary"))
    return ReasoningItem(told or carried(entry.get("encrypted_content")))


def _function_call(entry: Object, path: str, notes: Notes) -> Item:
    arguments = entry.get("arguments")
    return CallItem(
        _call_id(entry, path),
        needed_text(entry, "name", path),
        "{}" if arguments is None else json_text(arguments),
        text_at(entry, "namespace", path),
    )


def _custom_call(entry: Object, path: str, notes: Notes) -> Item:
    given = entry.get("input")
    return CallItem(
        _call_id(entry, path),
        needed_text(entry, "name", path),
        custom_arguments("" if given is None else json_text(given)),
        text_at(entry, "namespace", path),
    )


def _search_call(entry: Object, path: str, notes: Notes) -> Item:
    arguments = entry.get("arguments")
    return CallItem(
        _call_id(entry, path), TOOL_SEARCH, "{}" if arguments is None else json_text(arguments), is_search=True
    )


def _call_id(entry: Object, path: str) -> str:
    """Some clients name a call only by its item; one without any name is answered by a result without one."""
    return text_at(entry, "call_id", path) or text_at(entry, "id", path) or path


def _output(entry: Object, path: str, notes: Notes) -> Item:
    return OutputItem(
        text_at(entry, "call_id", path) or None, local_output(entry.get("output"), f"{path}.output", notes)
    )


def _shell_output(entry: Object, path: str, notes: Notes) -> Item:
    """The output's own id is that of the call."""
    call_id = text_at(entry, "call_id", path) or text_at(entry, "id", path)
    return OutputItem(call_id, local_output(entry.get("output"), f"{path}.output", notes))


def _search_output(entry: Object, path: str, notes: Notes) -> Item:
    tools = local_tools(entry.get("tools"), f"{path}.tools", notes)
    return SearchOutputItem(text_at(entry, "call_id", path) or None, tools)


_READERS: dict[str, Callable[[Object, str, Notes], Item]] = {
    "message": _message,
    "reasoning": _reasoning,
    "function_call": _function_call,
    "custom_tool_call": _custom_call,
    "tool_search_call": _search_call,
    "function_call_output": _output,
    "custom_tool_call_output": _output,
    "local_shell_call_output": _shell_output,
    "tool_search_output": _search_output,
}
