"""Tools as a Responses request declares them: read, and written as responses and prompts repeat them.

Does not check names or schemas (tools.py), nor give names to namespaces' members (namespaces.py). Spec: recipe.md 4.
"""

from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from whitedwarf.conversation.json_value import Json
from whitedwarf.protocol.fields import (
    Reader,
    anything,
    boolean,
    list_of,
    optional,
    record,
    required,
    string,
    tagged,
    variant,
)

WEB_SEARCHES = ("web_search", "web_search_2025_08_26")


@dataclass(frozen=True, slots=True)
class FunctionTool:
    """A function of the client."""

    name: str
    description: str | None = None
    parameters: Json = None
    strict: bool | None = None


@dataclass(frozen=True, slots=True)
class CustomTool:
    """A tool that takes plain text; `format` may be a grammar of it."""

    name: str
    description: str | None = None
    format: Json = None


@dataclass(frozen=True, slots=True)
class NamespaceTool:
    """Tools that belong together; `tools` are their members."""

    name: str
    tools: tuple[FunctionTool | CustomTool, ...]
    description: str | None = None


@dataclass(frozen=True, slots=True)
class SearchTool:
    """A search for more tools; whoever runs it is the `execution`."""

    execution: str | None = None
    description: str | None = None
    parameters: Json = None

    @property
    def is_run_by_client(self) -> bool:
        """Whether the client runs it, so that the model may call it."""
        return self.execution == "client"


@dataclass(frozen=True, slots=True)
class WebSearchTool:
    """A web search that the client expects of the server."""

    kind: str
    search_context_size: str | None = None
    user_location: Json = None


@dataclass(frozen=True, slots=True)
class UnknownTool:
    """A tool of a kind that nothing is known of."""


Tool: TypeAlias = FunctionTool | CustomTool | NamespaceTool | SearchTool | WebSearchTool | UnknownTool

_FUNCTION = record(
    "ResponsesFunctionTool",
    {
        "name": required(string),
        "description": optional(string),
        "parameters": optional(anything),
        "strict": optional(boolean),
    },
    FunctionTool,
)
_CUSTOM = {"name": required(string)}  # the official library reads nothing else of it


def _namespace(name: str, description: str | None, tools: list[FunctionTool | CustomTool]) -> NamespaceTool:
    return NamespaceTool(name, tuple(tools), description)


def _location(city: str | None, country: str | None, region: str | None, timezone: str | None) -> Json:
    return {"city": city, "country": country, "region": region, "timezone": timezone}


_LOCATION = record(
    "ResponsesUserLocation", {name: optional(string) for name in ("city", "country", "region", "timezone")}, _location
)
_WEB_SEARCH = {
    "search_context_size": optional(variant("low", "medium", "high")),
    "user_location": optional(_LOCATION),
}
read_execution = variant("client", "server")
"""Reads who runs a tool search."""

_ENUM, _MEMBER_ENUM = "ResponsesTool", "ResponsesNamespaceTool"
_read_member = tagged(
    _MEMBER_ENUM,
    {"function": _FUNCTION, "custom": record(f"variant {_MEMBER_ENUM}::Custom", _CUSTOM, CustomTool)},
    is_inner=True,
)


def _web_search(kind: str) -> Reader:
    return record("ResponsesWebSearchTool", _WEB_SEARCH, partial(WebSearchTool, kind))


class _OpenKinds(dict[str, Reader]):
    """Readers by kind; every other kind is read as an unknown tool."""

    def __contains__(self, kind: object) -> bool:
        return True

    def __missing__(self, kind: str) -> Reader:
        return record(f"variant {_ENUM}::Unsupported", {}, UnknownTool)


_KINDS = _OpenKinds(  # in the official library's order, which counts where a kind is told by its number
    {
        "function": _FUNCTION,
        "web_search": _web_search("web_search"),
        "web_search_2025_08_26": _web_search("web_search_2025_08_26"),
        "namespace": record(
            f"variant {_ENUM}::Namespace",
            {"name": required(string), "description": optional(string), "tools": required(list_of(_read_member))},
            _namespace,
        ),
        "custom": record(f"variant {_ENUM}::Custom", _CUSTOM, CustomTool),
        "tool_search": record(
            f"variant {_ENUM}::ToolSearch",
            {
                "execution": optional(read_execution),
                "description": optional(string),
                "parameters": optional(anything),
            },
            SearchTool,
        ),
    }
)
read_tool = tagged(_ENUM, _KINDS)
"""Reads one tool of a request; an unknown kind is no error, a wrong member is one."""


def read_found_tool(value: Json) -> Tool:
    """Reads one tool within an item; there serde takes a kind's number, too, and any number."""
    if isinstance(value, dict) and _is_number(value.get("type")):
        value = value | {"type": _named_kind(value["type"])}
    elif isinstance(value, list) and value and _is_number(value[0]):
        value = [_named_kind(value[0]), *value[1:]]
    tool: Tool = read_tool(value)
    return tool


def _is_number(kind: Json) -> bool:
    return isinstance(kind, int) and not isinstance(kind, bool) and kind >= 0


def _named_kind(number: int) -> str:
    kinds = tuple(_KINDS)
    return kinds[number] if number < len(kinds) else "unsupported"


def listed(tool: Tool) -> dict[str, Json]:
    """A tool as a response object repeats it."""
    match tool:
        case FunctionTool():
            return _listed_function(tool)
        case CustomTool(name):
            return {"type": "custom", "name": name}
        case NamespaceTool(name, members, description):
            return {
                "type": "namespace",
                "name": name,
                "description": description,
                "tools": [listed(member) for member in members],
            }
        case SearchTool(execution, description, parameters):
            return {
                "type": "tool_search",
                "execution": execution,
                "description": description,
                "parameters": parameters,
            }
        case WebSearchTool(kind, size, location):
            return {"type": kind, "search_context_size": size, "user_location": location}
        case UnknownTool():
            raise ValueError("a tool of an unknown kind cannot be listed; leave it out")


def listed_flat(tool: Tool) -> list[dict[str, Json]]:
    """A tool as the model sees it among the results of a search: members tell their namespace."""
    if not isinstance(tool, NamespaceTool):
        return [listed(tool)]
    namespace: Json = {"name": tool.name, "description": tool.description or ""}
    return [listed(member) | {"namespace": namespace} for member in tool.tools]


def _listed_function(tool: FunctionTool) -> dict[str, Json]:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": tool.strict,
    }
