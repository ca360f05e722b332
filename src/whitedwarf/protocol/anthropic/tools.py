"""Tools as Messages requests declare them: functions of the client, and tools that a server was to run.

Promises: the official reading, checks, order and texts (spec/recipe.md 5) under the official policy. Names in the
conversation find their definitions here. The local reading is in local_tools.py; it gives the same values.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from whitedwarf.conversation.json_value import Json
from whitedwarf.conversation.tools import ToolChoice, ToolDefinition
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.recipe_memory import RecipeMemory
from whitedwarf.protocol.failures import MalformedRequest, RefusedRequest
from whitedwarf.protocol.fields import Reader, boolean, optional, record, required, string, tagged
from whitedwarf.protocol.policy import HostedTools, Policy
from whitedwarf.protocol.tool_choice import ChosenTools, chosen_tools
from whitedwarf.protocol.tool_definitions import DeclaredTool, check_tool_name, tool_definitions

_WEB_SEARCHES = frozenset({"web_search_20250305", "web_search_20260209"})


@dataclass(frozen=True, slots=True)
class ServerTool:
    """A tool that the client expects the server to run."""

    type: str
    name: str = "web_search"


Declaration: TypeAlias = DeclaredTool | ServerTool


@dataclass(frozen=True, slots=True)
class ToolWish:
    """What `tool_choice` asks for; with a `name`, that tool and no other."""

    choice: ToolChoice = ToolChoice.AUTO
    name: str | None = None


def _server_tool(type: str, name: str | None) -> ServerTool:
    return ServerTool(type) if name is None else ServerTool(type, name)


_read_server_tool = record("MessagesServerTool", {"type": required(string), "name": optional(string)}, _server_tool)


def declaration(value: Json) -> Declaration:
    """Reads one declared tool, officially: any `type` makes it a server's."""
    members: Mapping[str, Json] = value if isinstance(value, dict) else {}
    if "type" in members:
        read: ServerTool = _read_server_tool(members)
        return read
    if "name" not in members:
        raise MalformedRequest("missing field `name`")
    return DeclaredTool(
        _member(members, "name", string),
        _member(members, "description", string),
        members.get("input_schema"),
        is_deferred=bool(_member(members, "defer_loading", boolean)),
    )


def _member(members: Mapping[str, Json], name: str, read: Reader) -> Any:
    value = members.get(name)
    if value is None and name != "name":
        return None
    try:
        return read(value)
    except MalformedRequest as error:
        raise MalformedRequest(f"field `{name}`: {error}") from error


def _auto(disable_parallel_tool_use: bool | None) -> ToolWish:
    return ToolWish()


def _named(name: str, disable_parallel_tool_use: bool | None) -> ToolWish:
    return ToolWish(name=name)


_PARALLEL = {"disable_parallel_tool_use": optional(boolean)}
tool_wish = tagged(
    "MessagesToolChoice",
    {
        "auto": record("variant MessagesToolChoice::Auto", _PARALLEL, _auto),
        "any": record("variant MessagesToolChoice::Any", _PARALLEL, _auto),
        "tool": record("variant MessagesToolChoice::Tool", {"name": required(string), **_PARALLEL}, _named),
        "none": record("variant MessagesToolChoice::None", {}, lambda: ToolWish(ToolChoice.NONE)),
    },
)
"""Reads a tool choice, officially: `any` leaves the model its choice."""


class Toolbox:
    """The tools of one request and the wish for one, names checked; messages look definitions up before their check."""

    def __init__(self, declared: Iterable[Declaration], wish: ToolWish, version: ModelVersion, policy: Policy) -> None:
        self._policy = policy
        self._declared = tuple(declared)
        self._wish = self._possible(wish)
        self._functions = tuple(_functions(self._declared, policy))
        if policy.is_official:
            self._functions = _officially_deferred(self._functions, version)
        self._by_name = {tool.name: tool for tool in reversed(self._functions)}

    @property
    def is_empty(self) -> bool:
        """Whether nothing was declared, not even a server's tool."""
        return not self._declared

    def find(self, name: str) -> ToolDefinition | None:
        """The declared tool of that name."""
        tool = self._by_name.get(name)
        return None if tool is None else _unchecked(tool)

    def keeps(self, tool: ToolDefinition) -> bool:
        """Whether the wish leaves that tool to the model."""
        wish = self._wish
        return wish.choice is not ToolChoice.NONE if wish.name is None else tool.name == wish.name

    def chosen(self, *, is_thinking: bool, memory: RecipeMemory | None = None) -> ChosenTools:
        """The tools to offer; RefusedRequest where a declaration is bad or the wish cannot be met."""
        wish = self._wish
        offered = () if wish.choice is ToolChoice.NONE else self._functions  # what is not offered is not checked
        tools = tool_definitions(offered, self._policy, is_schema_required=True, memory=memory)
        if wish.name is not None and wish.name not in self._by_name and not self.is_empty:
            raise RefusedRequest(
                f"Invalid value for 'tool_call': no function named '{wish.name}' was specified "
                "in the 'tools' parameter."
            )
        return chosen_tools(tools, wish.choice, wish.name, self._policy, is_thinking=is_thinking)

    def _possible(self, wish: ToolWish) -> ToolWish:
        """A server's tool that is left out cannot be required; officially, nor can a function of its name."""
        is_function = any(tool.name == wish.name for tool in self._declared if isinstance(tool, DeclaredTool))
        is_left_out = any(tool.name == wish.name for tool in self._declared if isinstance(tool, ServerTool))
        return ToolWish() if is_left_out and (self._policy.is_official or not is_function) else wish


def _functions(declared: Iterable[Declaration], policy: Policy) -> Iterator[DeclaredTool]:
    for index, tool in enumerate(declared):
        if isinstance(tool, DeclaredTool):
            check_tool_name(tool.name, f"tools[{index}].name", policy)
            yield tool
        elif policy.messages_web_search is HostedTools.REFUSED or (
            policy.is_official and tool.type not in _WEB_SEARCHES
        ):
            raise RefusedRequest(f"tools[{index}]: server tools are not supported")


def _officially_deferred(tools: tuple[DeclaredTool, ...], version: ModelVersion) -> tuple[DeclaredTool, ...]:
    """V4 knows no deferred tools; V4.1 needs one that is not."""
    if version is ModelVersion.V4:
        return tuple(replace(tool, is_deferred=False) if tool.is_deferred else tool for tool in tools)
    if tools and all(tool.is_deferred for tool in tools):
        raise RefusedRequest("tools: at least one tool must have defer_loading=false. All tools cannot be deferred.")
    return tools


def _unchecked(tool: DeclaredTool) -> ToolDefinition:
    return ToolDefinition(tool.name, tool.description, tool.parameters, tool.strict, tool.is_deferred)
