"""The tools of a Chat request as clients write them, in the form that the official dialect has (tools.py).

Promises: functions in any of the usual wrappings, and custom tools as functions of one text. Tools that the server
would have to run itself are left out and told of; anything else is refused with its place.
"""

from dataclasses import dataclass
from typing import Any

from whitedwarf.protocol.custom_tools import custom_description, custom_parameters
from whitedwarf.protocol.local_choices import left_out_tools
from whitedwarf.protocol.local_values import Object, located, object_of, objects_of
from whitedwarf.protocol.notes import Notes
from whitedwarf.protocol.openai_chat.local_choice import local_choice
from whitedwarf.protocol.openai_chat.tools import ChoiceRequest, ToolRequested, read_tool


@dataclass(frozen=True, slots=True)
class LocalTools:
    """The tools that are left, the choice among them, and the names of those that are custom ones."""

    tools: list[ToolRequested]
    choice: ChoiceRequest | None
    custom: frozenset[str]


def local_tools(body: Object, notes: Notes) -> LocalTools:
    """What the body says of tools, in its present and its older form; MalformedRequest where it cannot be read."""
    wanted = local_choice(body, notes)
    tools: list[ToolRequested] = []
    custom: set[str] = set()
    for path, entry in objects_of(body.get("tools"), "tools") + objects_of(body.get("functions"), "functions"):
        is_custom = _is_custom(entry)
        official = _custom(entry, path) if is_custom else _function(entry, notes)
        if official is None:
            continue
        tool: ToolRequested = located(path, read_tool, official)
        name = tool.function.name
        if wanted.allowed is None or name in wanted.allowed:
            tools.append(tool)
            custom |= {name} if is_custom else set()
    return LocalTools(tools, wanted.choice, frozenset(custom))


def _is_custom(entry: Object) -> bool:
    return entry.get("type") == "custom" and _schema_of(entry) is None


def _custom(entry: Object, path: str) -> Object:
    custom = object_of(entry.get("custom", entry), f"{path}.custom")
    description = custom.get("description")
    if isinstance(description, str | None):
        description = custom_description(description, custom.get("format"))
    return _tool(custom.get("name"), description, custom_parameters(), None)


def _function(entry: Object, notes: Notes) -> Object | None:
    """A function, wrapped or not; None for what is none."""
    function = entry.get("function", entry)
    kind = entry.get("type", "function")
    if kind != "function" and "function" not in entry and _schema_of(entry) is None:
        notes.warn(left_out_tools(kind))
        return None
    if not isinstance(function, dict):
        return {"type": "function", "function": function}
    return _tool(function.get("name"), function.get("description"), _schema_of(function), function.get("strict"))


def _schema_of(function: Object) -> Any:
    """The parameters, under OpenAI's name or Anthropic's."""
    parameters = function.get("parameters")
    return function.get("input_schema") if parameters is None else parameters


def _tool(name: Any, description: Any, parameters: Any, strict: Any) -> Object:
    function = {"name": name, "description": description, "parameters": parameters, "strict": strict}
    return {"type": "function", "function": function}
