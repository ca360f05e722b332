"""The tools of a request as clients write them, made what the official dialect has (declarations.py).

Promises: functions in any of the usual wrappings; any custom tool; members of namespaces that were declared twice alike
are there once. Tools that the server would have to run itself are left out and told of.
"""

from collections.abc import Iterable, Iterator

from whitedwarf.conversation.json_value import Json
from whitedwarf.protocol.local_choices import left_out_tools
from whitedwarf.protocol.local_values import Object, needed_text, object_of, objects_of, text_at
from whitedwarf.protocol.notes import Notes
from whitedwarf.protocol.openai_responses.declarations import (
    CustomTool,
    FunctionTool,
    NamespaceTool,
    SearchTool,
    Tool,
)
from whitedwarf.protocol.resolution import compact


def local_tools(value: Json, path: str, notes: Notes) -> tuple[Tool, ...]:
    """All tools of a list that the model can be offered; MalformedRequest, with its place, for what is no tool."""
    tools = (_tool(entry, place, notes) for place, entry in objects_of(value, path))
    return tuple(tool for tool in tools if tool is not None)


def without_repeats(tools: Iterable[Tool]) -> tuple[Tool, ...]:
    """The same tools without members that their namespace already has, word for word."""
    seen: set[tuple[str, str]] = set()
    return tuple(_unseen(tool, seen) if isinstance(tool, NamespaceTool) else tool for tool in tools)


def _unseen(namespace: NamespaceTool, seen: set[tuple[str, str]]) -> NamespaceTool:
    members = []
    for member in namespace.tools:
        mark = (namespace.name, _mark(member))
        if mark not in seen:
            seen.add(mark)
            members.append(member)
    return NamespaceTool(namespace.name, tuple(members), namespace.description)


def _mark(member: FunctionTool | CustomTool) -> str:
    """The same text for the same tool."""
    if isinstance(member, FunctionTool):
        return compact(["function", member.name, member.description, member.parameters])
    return compact(["custom", member.name, member.description, member.format])


def _tool(entry: Object, path: str, notes: Notes) -> Tool | None:
    match entry.get("type", "function"):
        case "function":
            return _function(_unwrapped(entry, "function", path), path)
        case "custom":
            return _custom(_unwrapped(entry, "custom", path), path)
        case "namespace":
            return _namespace(entry, path, notes)
        case "tool_search" if entry.get("execution") == "client":
            return SearchTool("client", text_at(entry, "description", path), entry.get("parameters"))
        case kind:
            notes.warn(left_out_tools(kind))
            return None


def _unwrapped(entry: Object, kind: str, path: str) -> Object:
    """The tool itself, where a client nests it as Chat does."""
    return object_of(entry[kind], f"{path}.{kind}") if entry.get(kind) is not None else entry


def _function(function: Object, path: str) -> FunctionTool:
    parameters = function.get("parameters")
    strict = function.get("strict")
    return FunctionTool(
        needed_text(function, "name", path),
        text_at(function, "description", path),
        function.get("input_schema") if parameters is None else parameters,
        strict if isinstance(strict, bool) else None,
    )


def _custom(custom: Object, path: str) -> CustomTool:
    return CustomTool(needed_text(custom, "name", path), text_at(custom, "description", path), custom.get("format"))


def _namespace(entry: Object, path: str, notes: Notes) -> NamespaceTool:
    return NamespaceTool(
        needed_text(entry, "name", path),
        tuple(_members(entry, f"{path}.tools", notes)),
        text_at(entry, "description", path),
    )


def _members(entry: Object, path: str, notes: Notes) -> Iterator[FunctionTool | CustomTool]:
    for tool in local_tools(entry.get("tools"), path, notes):
        if isinstance(tool, FunctionTool | CustomTool):
            yield tool
        else:
            notes.warn("Namespaces hold functions and custom tools; what else they held was left out.")
