"""A Chat Completions request made a conversation and options: spec/recipe.md 3 and 6.

Promises: under the official policy the official library's result, or its first error; under the local one a superset
(local_request.py) that refuses only what makes no sense. Pure: no clock, no randomness, and nothing is fetched.
"""

from dataclasses import dataclass

from whitedwarf.conversation.conversation import Conversation
from whitedwarf.conversation.json_value import Json
from whitedwarf.conversation.tools import ToolChoice
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.parse_options import ParseOptions, ParseStart
from whitedwarf.prompt.recipe_memory import RecipeMemory
from whitedwarf.protocol.converted import ChatReply, Converted
from whitedwarf.protocol.failures import RefusedRequest
from whitedwarf.protocol.image_parts import unseen_images
from whitedwarf.protocol.input_forms import input_forms
from whitedwarf.protocol.one_call import asks_for_one_call
from whitedwarf.protocol.openai_chat.history import Setting, converted_messages
from whitedwarf.protocol.openai_chat.local_request import read_local
from whitedwarf.protocol.openai_chat.prefix import check_prefix_use, parse_start, without_early_prefixes
from whitedwarf.protocol.openai_chat.reading import Reading, read_official
from whitedwarf.protocol.openai_chat.request import ChatRequest
from whitedwarf.protocol.openai_chat.response_formats import answer_form, check_json_word
from whitedwarf.protocol.openai_chat.sampling import check_sampling, inference_options, sampling_warnings
from whitedwarf.protocol.openai_chat.tools import ChoiceRequest, check_tool_names, declared_tools
from whitedwarf.protocol.parsing import parse_options
from whitedwarf.protocol.policy import Policy
from whitedwarf.protocol.resolution import checked_stop_strings, resolve_constraint, resolve_thinking, version_of
from whitedwarf.protocol.tool_choice import ChosenTools, chosen_tools
from whitedwarf.protocol.tool_definitions import check_strictness, tool_definitions
from whitedwarf.protocol.tool_paths import tool_paths

EARLY_PREFIX_IGNORED = "`prefix` is only for the last message; on an earlier one it was ignored."


def convert(body: Json, policy: Policy, memory: RecipeMemory | None = None) -> Converted[ChatReply]:
    """Convert a body as read_json gives it; RequestError (failures.py) for the first thing that is wrong with it."""
    reading = read_official(body) if policy.is_official else read_local(body, policy.assumed_model)
    version = version_of(reading.request.model, policy)
    accepted = _accepted(reading, version, policy, memory)
    conversation = accepted.conversation
    parsing = parse_options(conversation, parse_start(conversation, policy), accepted.stop_strings, policy)
    return Converted(
        model=reading.request.model,
        version=version,
        conversation=conversation,
        inference=inference_options(reading, conversation, version, policy),
        constraint=resolve_constraint(
            conversation, accepted.enforced_schema, must_call=accepted.must_call, memory=memory
        ),
        parsing=parsing,
        is_streamed=bool(reading.request.stream),
        reply=_reply(reading, conversation, parsing, policy),
        num_choices=reading.request.n or 1,
        takes_one_call=not policy.is_official and asks_for_one_call(body),
        tool_paths=tool_paths(body),
        input_forms={} if policy.is_official else input_forms(body),
        warnings=reading.warnings + accepted.warnings + unseen_images(conversation.messages, policy),
        unknown_fields=reading.unknown_fields,
    )


@dataclass(frozen=True, slots=True)
class _Accepted:
    """What passed all checks."""

    conversation: Conversation
    must_call: bool
    enforced_schema: Json
    stop_strings: tuple[str, ...]
    warnings: tuple[str, ...]


def _accepted(reading: Reading, version: ModelVersion, policy: Policy, memory: RecipeMemory | None) -> _Accepted:
    """The conversation, checked in the official order (spec/recipe.md 3 "Validation order")."""
    request = reading.request
    check_tool_names(request.tools or (), policy)
    is_thinking, effort = resolve_thinking(reading.thinking, reading.effort, policy)
    messages = converted_messages(request.messages, Setting(version, policy, is_thinking, bool(request.tools)))
    placed = without_early_prefixes(messages, policy)
    check_json_word(request.response_format, messages, policy)
    chosen = _chosen_tools(request, policy, memory, is_thinking=is_thinking)
    check_prefix_use(placed, request, policy)
    stop_strings = checked_stop_strings(request.stop, policy)
    _check_streaming(request, policy)
    form = answer_form(request.response_format, policy)
    _check_strict_use(request, chosen, policy)
    check_sampling(request, policy, is_thinking=is_thinking)
    conversation = Conversation(placed, is_thinking, chosen.tools, chosen.choice, effort, form.told)
    warnings = sampling_warnings(reading, policy, is_thinking=is_thinking)
    if placed is not messages:
        warnings += (EARLY_PREFIX_IGNORED,)
    return _Accepted(conversation, chosen.must_call, form.enforced_schema, stop_strings, warnings)


def _chosen_tools(
    request: ChatRequest, policy: Policy, memory: RecipeMemory | None, *, is_thinking: bool
) -> ChosenTools:
    wanted = request.tool_choice or ChoiceRequest()
    offered = () if wanted.choice is ToolChoice.NONE else request.tools or ()  # what is not offered is not checked
    tools = tool_definitions(declared_tools(offered), policy, memory=memory)
    return chosen_tools(tools, wanted.choice, wanted.name, policy, is_thinking=is_thinking)


def _check_streaming(request: ChatRequest, policy: Policy) -> None:
    if policy.is_official and request.stream_options is not None and not request.stream:
        raise RefusedRequest("stream_options should be set along with stream = true")


def _check_strict_use(request: ChatRequest, chosen: ChosenTools, policy: Policy) -> None:
    check_strictness(chosen.tools, policy)
    has_strict = any(tool.is_strict for tool in chosen.tools)
    if policy.is_official and has_strict and request.response_format is not None:
        raise RefusedRequest("response_format should not be used with tools")


def _reply(reading: Reading, conversation: Conversation, parsing: ParseOptions, policy: Policy) -> ChatReply:
    options = reading.request.stream_options
    wants_usage = options is not None and bool(options.include_usage)
    return ChatReply(
        is_thinking=conversation.is_thinking,
        usage_chunk=not policy.is_official and wants_usage,
        omits_null_usage=bool(reading.request.stream) and not wants_usage,
        custom_tools=reading.custom_tools,
        continues_answer=parsing.start is ParseStart.CONTENT_CONTINUED,
    )
