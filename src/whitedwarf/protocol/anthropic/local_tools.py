"""Declared tools and the choice among them as the local policy reads them.

Promises: the values of tools.py. Tools that a server was to run are left out and noted; where one of them was to bring
deferred tools in, these are offered from the start, for nothing else would ever bring them.
"""

from collections.abc import Iterable
from dataclasses import replace

from whitedwarf.conversation.json_value import Json
from whitedwarf.conversation.tools import ToolChoice
from whitedwarf.protocol.anthropic.tools import Declaration, ServerTool, ToolWish
from whitedwarf.protocol.failures import MalformedRequest
from whitedwarf.protocol.local_choices import left_out_tools
from whitedwarf.protocol.local_values import Object, expected, flag_at, object_of, text_at
from whitedwarf.protocol.notes import Notes
from whitedwarf.protocol.tool_definitions import DeclaredTool

_FUNCTIONS = (None, "custom", "function")
_TOOL_SEARCH = "tool_search_tool"
_CHOICES = {
    "auto": ToolChoice.AUTO,
    "any": ToolChoice.REQUIRED,
    "required": ToolChoice.REQUIRED,
    "none": ToolChoice.NONE,
}


def declarations(values: Iterable[Json], notes: Notes) -> tuple[Declaration, ...]:
    """All declared tools."""
    tools = tuple(_declaration(value, f"tools[{index}]", notes) for index, value in enumerate(values))
    if any(isinstance(tool, ServerTool) and tool.type.startswith(_TOOL_SEARCH) for tool in tools):
        return tuple(replace(tool, is_deferred=False) if isinstance(tool, DeclaredTool) else tool for tool in tools)
    return tools


def _declaration(value: Json, path: str, notes: Notes) -> Declaration:
    members = object_of(value, path)
    kind = text_at(members, "type", path)
    name = text_at(members, "name", path)
    if kind not in _FUNCTIONS:
        notes.warn(left_out_tools(kind))
        return ServerTool(kind or "", name or kind or "")
    if name is None:
        raise MalformedRequest(f"{path}.name: expected the tool's name, got nothing")
    return DeclaredTool(
        name,
        text_at(members, "description", path),
        members.get("input_schema"),
        strict=flag_at(members, "strict", path),
        is_deferred=flag_at(members, "defer_loading", path),
    )


def tool_wish(value: Json) -> ToolWish:
    """What `tool_choice` asks for: an object, or only its type."""
    if value is None:
        return ToolWish()
    members: Object = {"type": value} if isinstance(value, str) else object_of(value, "tool_choice")
    kind = members.get("type")
    if kind == "tool":
        name = text_at(members, "name", "tool_choice")
        if name is None:
            raise MalformedRequest("tool_choice.name: expected the name of a tool, got nothing")
        return ToolWish(ToolChoice.REQUIRED, name)
    if not isinstance(kind, str) or kind not in _CHOICES:
        raise expected("tool_choice.type", "one of auto, any, tool, none", kind)
    return ToolWish(_CHOICES[kind])
