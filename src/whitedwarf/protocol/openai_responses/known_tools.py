"""All tools of a request, those declared and those that searches found: named, defined, and kept as far as chosen.

Promises: the official order of checks: declared names, that there is any input, found names; and later, once the items
are read, the definitions, unless no tool may be called. Time is linear in the tools. Spec: recipe.md 4.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TypeAlias

from whitedwarf.conversation.content import is_empty
from whitedwarf.conversation.message import Message, SystemMessage
from whitedwarf.conversation.tools import ToolDefinition
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.recipe_memory import RecipeMemory
from whitedwarf.protocol.openai_responses.declarations import SearchTool, Tool
from whitedwarf.protocol.openai_responses.items import SearchOutputItem
from whitedwarf.protocol.openai_responses.namespaces import NamespaceNames, OfferedTool, plain_names
from whitedwarf.protocol.openai_responses.reading import request_items
from whitedwarf.protocol.openai_responses.request import ResponsesRequest
from whitedwarf.protocol.openai_responses.tools import check_tools, definitions_of
from whitedwarf.protocol.openai_responses.turns import Entry, ToolUpdate, messages_of
from whitedwarf.protocol.policy import Policy
from whitedwarf.protocol.tool_choice import ChosenTools

Offered: TypeAlias = tuple[OfferedTool, ...]
Tools: TypeAlias = tuple[ToolDefinition, ...]


@dataclass(frozen=True, slots=True)
class KnownTools:
    """All tools of a request under their names: those declared, and those that each search output brings."""

    declared: tuple[OfferedTool, ...]
    found: Mapping[int, tuple[OfferedTool, ...]]
    names: NamespaceNames
    namespaces: Mapping[str, tuple[str, str]]

    @property
    def has_any(self) -> bool:
        return bool(self.declared) or any(self.found.values())


@dataclass(frozen=True, slots=True)
class Defined:
    """Messages in which found tools have their definitions, and all tools."""

    messages: tuple[Message, ...]
    tools: tuple[ToolDefinition, ...]


def known_tools(request: ResponsesRequest, version: ModelVersion, policy: Policy) -> KnownTools:
    """Checks every name, in the official order, and gives those in namespaces theirs."""
    check_tools(request.tools, "tools", policy)
    items = enumerate(request_items(request))
    outputs = {index: item.tools for index, item in items if isinstance(item, SearchOutputItem)}
    can_search = version is ModelVersion.V41 or not policy.is_official
    if can_search:
        for index, tools in outputs.items():
            check_tools(tools, f"input[{index}].tools", policy)
    known = _named(request.tools, outputs, version, policy)
    return known if can_search else _without_searches(known)


def _named(
    tools: Sequence[Tool], outputs: Mapping[int, Sequence[Tool]], version: ModelVersion, policy: Policy
) -> KnownTools:
    names = NamespaceNames(version, plain_names(tools))
    declared = names.offered(tools)
    namespaces = names.origins()  # officially these alone are told apart in the answer
    are_known = not policy.is_official
    found = {index: names.offered(tools, are_known=are_known) for index, tools in outputs.items()}
    return KnownTools(declared, found, names, namespaces if policy.is_official else names.origins())


def _without_searches(known: KnownTools) -> KnownTools:
    """What found tools were named stays, as earlier calls may be of them."""
    declared = tuple(tool for tool in known.declared if not isinstance(tool.tool, SearchTool))
    return replace(known, declared=declared, found=dict.fromkeys(known.found, ()))


def defined_tools(
    entries: Sequence[Entry],
    known: KnownTools,
    version: ModelVersion,
    policy: Policy,
    memory: RecipeMemory | None = None,
) -> Defined:
    """The definitions of all tools, declared ones first; each update becomes a system message with its own."""
    tools = definitions_of(known.declared, version, policy, memory=memory)
    updates = [entry.tools for entry in entries if isinstance(entry, ToolUpdate)]
    if not updates:
        return Defined(messages_of(entries), tools)
    define = _defined_once if policy.is_official else _defined_anew
    found = define(updates, tools, version, policy)
    by_name = {tool.name: tool for tool in tools}
    for tool in chain.from_iterable(found):
        by_name.setdefault(tool.name, tool)
    rest = iter(found)
    messages = (SystemMessage("", next(rest)) if isinstance(entry, ToolUpdate) else entry for entry in entries)
    return Defined(tuple(messages), tuple(by_name.values()))


def _defined_once(updates: Sequence[Offered], earlier: Tools, version: ModelVersion, policy: Policy) -> list[Tools]:
    """The found tools' definitions; one that is found again, or is declared, is refused."""
    found = iter(definitions_of(chain.from_iterable(updates), version, policy, earlier, is_deferred=True))
    return [tuple(islice(found, len(update))) for update in updates]


def _defined_anew(updates: Sequence[Offered], earlier: Tools, version: ModelVersion, policy: Policy) -> list[Tools]:
    """The same where a tool may be told again, which is how a client changes it."""
    return [definitions_of(update, version, policy, is_deferred=True) for update in updates]


def undefined_tools(entries: Iterable[Entry]) -> Defined:
    """No tool may be called, so nobody looks at how they are defined."""
    return Defined(messages_of(entries), ())


def kept_tools(messages: Iterable[Message], chosen: ChosenTools) -> Iterable[Message]:
    """The messages, with only those tools that are offered; what says nothing any more is left out."""
    names = {tool.name for tool in chosen.tools}
    for message in messages:
        if not isinstance(message, SystemMessage) or message.tools is None:
            yield message
        elif tools := tuple(tool for tool in message.tools if tool.name in names):
            yield SystemMessage(message.content, tools)
        elif not is_empty(message.content):
            yield SystemMessage(message.content)
