"""A Responses request made a conversation and options: spec/recipe.md 4, 6, 7, 11.

Promises: under the official policy the official library's result, or its first error; under the local one a superset
(local_request.py) that refuses only what makes no sense. Pure: no clock, no randomness, and nothing is fetched.
"""

from whitedwarf.conversation.conversation import Conversation
from whitedwarf.conversation.json_value import Json
from whitedwarf.conversation.message import SystemMessage, UserMessage
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.parse_options import ParseOptions, ParseStart
from whitedwarf.prompt.recipe_memory import RecipeMemory
from whitedwarf.protocol.converted import Converted, ResponsesReply
from whitedwarf.protocol.failures import RefusedRequest
from whitedwarf.protocol.image_parts import unseen_images
from whitedwarf.protocol.input_forms import input_forms
from whitedwarf.protocol.missing_reasoning import check_reasoning, with_reasoning
from whitedwarf.protocol.one_call import asks_for_one_call
from whitedwarf.protocol.openai_responses.choice import chosen_of
from whitedwarf.protocol.openai_responses.declarations import CustomTool, SearchTool, Tool
from whitedwarf.protocol.openai_responses.echo import echo_of
from whitedwarf.protocol.openai_responses.form import form_of
from whitedwarf.protocol.openai_responses.grouping import OfficialGrouping, Reading
from whitedwarf.protocol.openai_responses.known_tools import (
    KnownTools,
    defined_tools,
    kept_tools,
    known_tools,
    undefined_tools,
)
from whitedwarf.protocol.openai_responses.local_grouping import LocalGrouping
from whitedwarf.protocol.openai_responses.local_request import read_local
from whitedwarf.protocol.openai_responses.reading import read_official, request_items
from whitedwarf.protocol.openai_responses.request import HostedChoice, PlainFormat, ResponsesRequest
from whitedwarf.protocol.openai_responses.sampling import check_sampling, inference_options, sampling_warnings
from whitedwarf.protocol.openai_responses.tools import SERVER_TOOLS_REFUSED
from whitedwarf.protocol.openai_responses.turns import Entry, messages_of
from whitedwarf.protocol.parsing import parse_options
from whitedwarf.protocol.policy import HostedTools, Missing, Policy
from whitedwarf.protocol.resolution import checked_stop_strings, resolve_constraint, resolve_thinking, version_of
from whitedwarf.protocol.tool_choice import ChosenTools
from whitedwarf.protocol.tool_definitions import check_strictness
from whitedwarf.protocol.tool_paths import tool_paths


def convert(body: Json, policy: Policy, memory: RecipeMemory | None = None) -> Converted[ResponsesReply]:
    """Convert a body as read_json gives it; RequestError (failures.py) for the first thing that is wrong with it."""
    reading = read_official(body) if policy.is_official else read_local(body, policy.assumed_model)
    request = reading.request
    version = version_of(request.model, policy)
    is_thinking, effort = resolve_thinking(reading.thinking, reading.effort, policy)
    known = known_tools(request, version, policy)
    entries = _entries(request, known, version, policy)
    if is_thinking and policy.missing_reasoning is Missing.REFUSED:
        check_reasoning(messages_of(entries), "reasoning_text", has_tools=known.has_any)
    _check_choice(request, policy)
    is_callable = request.tool_choice != "none"
    defined = defined_tools(entries, known, version, policy, memory) if is_callable else undefined_tools(entries)
    chosen = chosen_of(request.tool_choice, defined.tools, known.namespaces, policy, is_thinking=is_thinking)
    messages = with_reasoning(kept_tools(defined.messages, chosen), is_thinking=is_thinking)
    form = form_of(request.text.format, messages, policy)
    _check_strict_use(request, chosen, policy)
    check_sampling(request, policy, is_thinking=is_thinking)
    conversation = Conversation(messages, is_thinking, chosen.tools, chosen.choice, effort, form.told)
    return Converted(
        model=request.model,
        version=version,
        conversation=conversation,
        inference=inference_options(reading, conversation, version, policy),
        constraint=resolve_constraint(conversation, form.enforced_schema, must_call=chosen.must_call, memory=memory),
        parsing=_parsing(conversation, checked_stop_strings(reading.stop, policy), policy),
        is_streamed=request.stream,
        reply=_reply(request, known, policy, is_thinking=is_thinking),
        takes_one_call=not policy.is_official and asks_for_one_call(body),
        tool_paths=tool_paths(body),
        input_forms={} if policy.is_official else input_forms(body),
        warnings=(
            *reading.warnings,
            *sampling_warnings(reading, policy, is_thinking=is_thinking),
            *unseen_images(messages, policy),
        ),
        unknown_fields=reading.unknown_fields,
    )


def _entries(request: ResponsesRequest, known: KnownTools, version: ModelVersion, policy: Policy) -> list[Entry]:
    entries: list[Entry] = [SystemMessage(request.instructions)] if request.instructions else []
    if isinstance(request.input, str):
        return [*entries, UserMessage(request.input)]
    reading = Reading(known.names, known.found, version)
    grouping = OfficialGrouping(reading) if policy.is_official else LocalGrouping(reading)
    return entries + grouping.entries(request_items(request))


def _check_choice(request: ResponsesRequest, policy: Policy) -> None:
    if isinstance(request.tool_choice, HostedChoice) and policy.responses_web_search is HostedTools.REFUSED:
        raise RefusedRequest(SERVER_TOOLS_REFUSED)


def _check_strict_use(request: ResponsesRequest, chosen: ChosenTools, policy: Policy) -> None:
    check_strictness(chosen.tools, policy)
    has_strict = any(tool.is_strict for tool in chosen.tools)
    if policy.is_official and has_strict and request.text.format != PlainFormat():
        raise RefusedRequest("response_format should not be used with tools")


def _parsing(conversation: Conversation, stop_strings: tuple[str, ...], policy: Policy) -> ParseOptions:
    start = ParseStart.REASONING if conversation.is_thinking else ParseStart.CONTENT
    return parse_options(conversation, start, stop_strings, policy)


def _reply(request: ResponsesRequest, known: KnownTools, policy: Policy, *, is_thinking: bool) -> ResponsesReply:
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
