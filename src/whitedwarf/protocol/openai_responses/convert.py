"""A Responses request made a conversation and options: spec/recipe.md 4, 6, 7, 11.

Promises: under the official policy the official library's result, or its first error; under the local one a superset
(local_request.py) that refuses only what makes no sense. Pure: no clock, no randomness, and nothing is fetched.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from whitedwarf.conversation.content import is_empty
from whitedwarf.conversation.conversation import Conversation
from whitedwarf.conversation.json_value import Json
from whitedwarf.conversation.message import Message, SystemMessage, UserMessage
from whitedwarf.conversation.response_format import JsonObject
from whitedwarf.conversation.tools import ToolChoice, ToolDefinition
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.parse_options import ParseMode, ParseOptions, ParseStart
from whitedwarf.protocol.converted import Converted, ResponsesReply
from whitedwarf.protocol.failures import RefusedRequest
from whitedwarf.protocol.missing_reasoning import check_reasoning, with_reasoning
from whitedwarf.protocol.openai_responses.choice import chosen_of
from whitedwarf.protocol.openai_responses.declarations import CustomTool, SearchTool, Tool
from whitedwarf.protocol.openai_responses.echo import echo_of
from whitedwarf.protocol.openai_responses.form import form_of
from whitedwarf.protocol.openai_responses.grouping import OfficialGrouping, Reading
from whitedwarf.protocol.openai_responses.items import Item, SearchOutputItem
from whitedwarf.protocol.openai_responses.local_grouping import LocalGrouping
from whitedwarf.protocol.openai_responses.local_request import read_local
from whitedwarf.protocol.openai_responses.namespaces import NamespaceNames, OfferedTool, plain_names
from whitedwarf.protocol.openai_responses.reading import read_official
from whitedwarf.protocol.openai_responses.request import HostedChoice, PlainFormat, ResponsesRequest
from whitedwarf.protocol.openai_responses.sampling import check_sampling, inference_options, sampling_warnings
from whitedwarf.protocol.openai_responses.tools import SERVER_TOOLS_REFUSED, check_tools, definitions_of
from whitedwarf.protocol.openai_responses.turns import Entry, ToolUpdate
from whitedwarf.protocol.policy import HostedTools, Missing, Policy
from whitedwarf.protocol.resolution import checked_stop_strings, resolve_constraint, resolve_thinking, version_of
from whitedwarf.protocol.tool_choice import ChosenTools
from whitedwarf.protocol.tool_definitions import check_strictness


def convert(body: Json, policy: Policy) -> Converted[ResponsesReply]:
    """Convert a body as read_json gives it; RequestError (failures.py) for the first thing that is wrong with it."""
    reading = read_official(body) if policy.is_official else read_local(body)
    request = reading.request
    version = version_of(request.model, policy)
    is_thinking, effort = resolve_thinking(reading.thinking, reading.effort, policy)
    known = _known_tools(request, version, policy)
    entries = _entries(request, known, version, policy)
    if is_thinking and policy.missing_reasoning is Missing.REFUSED:
        check_reasoning(_messages(entries), "reasoning_text", has_tools=known.has_any)
    _check_choice(request, policy)
    defined = _defined(entries, known, version, policy)
    chosen = chosen_of(request.tool_choice, defined.tools, known.namespaces, policy, is_thinking=is_thinking)
    messages = with_reasoning(_kept(defined.entries, chosen), is_thinking=is_thinking)
    form = form_of(request.text.format, messages, policy)
    _check_strict_use(request, chosen, policy)
    check_sampling(request, policy, is_thinking=is_thinking)
    conversation = Conversation(messages, is_thinking, chosen.tools, chosen.choice, effort, form.shown)
    return Converted(
        model=request.model,
        version=version,
        conversation=conversation,
        inference=inference_options(reading, conversation, version, policy),
        constraint=resolve_constraint(conversation, form.strict_schema, must_call=chosen.must_call),
        parsing=_parse_options(conversation, checked_stop_strings(reading.stop, policy), policy),
        is_streamed=request.stream,
        reply=_reply(request, known, policy, is_thinking=is_thinking),
        warnings=reading.warnings + sampling_warnings(reading, policy, is_thinking=is_thinking),
        unknown_fields=reading.unknown_fields,
    )


@dataclass(frozen=True, slots=True)
class _KnownTools:
    """All tools of a request under their names: those declared, and those that each search output brings."""

    declared: tuple[OfferedTool, ...]
    found: Mapping[int, tuple[OfferedTool, ...]]
    names: NamespaceNames
    namespaces: Mapping[str, tuple[str, str]]

    @property
    def has_any(self) -> bool:
        return bool(self.declared) or any(self.found.values())


@dataclass(frozen=True, slots=True)
class _Defined:
    """Messages in which found tools have their definitions, and all tools."""

    entries: tuple[Message, ...]
    tools: tuple[ToolDefinition, ...]


def _known_tools(request: ResponsesRequest, version: ModelVersion, policy: Policy) -> _KnownTools:
    """Checks every name, in the official order, and gives those in namespaces theirs."""
    check_tools(request.tools, "tools", policy)
    items = _items(request)
    can_search = version is ModelVersion.V41 or not policy.is_official
    outputs = {index: item.tools for index, item in enumerate(items) if isinstance(item, SearchOutputItem)}
    if can_search:
        for index, tools in outputs.items():
            check_tools(tools, f"input[{index}].tools", policy)
    names = NamespaceNames(version, plain_names(request.tools))
    declared = names.offered(request.tools)
    namespaces = names.origins()
    are_known = not policy.is_official
    found = {index: names.offered(tools, are_known=are_known) for index, tools in outputs.items()}
    if not can_search:  # names are given all the same
        declared = tuple(tool for tool in declared if not isinstance(tool.tool, SearchTool))
        found = dict.fromkeys(found, ())
    return _KnownTools(declared, found, names, namespaces if policy.is_official else names.origins())


def _items(request: ResponsesRequest) -> tuple[Item, ...]:
    """The items; RefusedRequest where a request says nothing at all."""
    if request.input is None and not request.instructions:
        raise RefusedRequest("Either input or instructions must be provided")
    if request.input is None or isinstance(request.input, str):
        return ()
    if not request.input:
        raise RefusedRequest("Input items array must not be empty")
    return request.input


def _entries(request: ResponsesRequest, known: _KnownTools, version: ModelVersion, policy: Policy) -> list[Entry]:
    entries: list[Entry] = [SystemMessage(request.instructions)] if request.instructions else []
    if isinstance(request.input, str):
        return [*entries, UserMessage(request.input)]
    reading = Reading(known.names, known.found, version)
    grouping = OfficialGrouping(reading) if policy.is_official else LocalGrouping(reading)
    return entries + grouping.entries(_items(request))


def _messages(entries: Iterable[Entry]) -> list[Message]:
    return [entry for entry in entries if not isinstance(entry, ToolUpdate)]


def _check_choice(request: ResponsesRequest, policy: Policy) -> None:
    if isinstance(request.tool_choice, HostedChoice) and policy.responses_web_search is HostedTools.REFUSED:
        raise RefusedRequest(SERVER_TOOLS_REFUSED)


def _defined(entries: Iterable[Entry], known: _KnownTools, version: ModelVersion, policy: Policy) -> _Defined:
    """The definitions of all tools, declared ones first; each update becomes a system message with its own.

    A tool that is found again is refused officially; locally it is told again, which is how a client changes it.
    """
    tools = {tool.name: tool for tool in definitions_of(known.declared, version, policy)}
    messages: list[Message] = []
    for entry in entries:
        if isinstance(entry, ToolUpdate):
            earlier = tuple(tools.values()) if policy.is_official else ()
            found = definitions_of(entry.tools, version, policy, earlier, is_deferred=True)
            for tool in found:
                tools.setdefault(tool.name, tool)
            messages.append(SystemMessage("", found))
        else:
            messages.append(entry)
    return _Defined(tuple(messages), tuple(tools.values()))


def _kept(messages: Iterable[Message], chosen: ChosenTools) -> Iterable[Message]:
    """The messages, with only those tools that are offered; what says nothing any more is left out."""
    names = {tool.name for tool in chosen.tools}
    for message in messages:
        if not isinstance(message, SystemMessage) or message.tools is None:
            yield message
        elif tools := tuple(tool for tool in message.tools if tool.name in names):
            yield SystemMessage(message.content, tools)
        elif not is_empty(message.content):
            yield SystemMessage(message.content)


def _check_strict_use(request: ResponsesRequest, chosen: ChosenTools, policy: Policy) -> None:
    check_strictness(chosen.tools, policy)
    has_strict = any(tool.is_strict for tool in chosen.tools)
    if policy.is_official and has_strict and request.text.format != PlainFormat():
        raise RefusedRequest("response_format should not be used with tools")


def _parse_options(conversation: Conversation, stop_strings: tuple[str, ...], policy: Policy) -> ParseOptions:
    return ParseOptions(
        mode=ParseMode.STRICT if policy.is_official else ParseMode.SALVAGE,
        start=ParseStart.REASONING if conversation.is_thinking else ParseStart.CONTENT,
        parse_tool_calls=conversation.offers_tools,
        starts_in_tool_calls=conversation.tool_choice is ToolChoice.REQUIRED,
        parse_json_output=isinstance(conversation.response_format, JsonObject),
        stop_strings=stop_strings,
    )


def _reply(request: ResponsesRequest, known: _KnownTools, policy: Policy, *, is_thinking: bool) -> ResponsesReply:
    everything = [*known.declared, *(tool for tools in known.found.values() for tool in tools)]
    is_summarized = bool(request.reasoning.summary or request.reasoning.generate_summary)
    return ResponsesReply(
        is_thinking=is_thinking,
        echo=echo_of(request),
        namespaces=known.namespaces,
        custom_tools=frozenset(tool.name for tool in everything if isinstance(tool.tool, CustomTool)),
        searches_tools=any(map(_is_search, request.tools)),
        summarizes=is_summarized and not policy.is_official,
        is_official=policy.is_official,
    )


def _is_search(tool: Tool) -> bool:
    return isinstance(tool, SearchTool) and tool.is_run_by_client
