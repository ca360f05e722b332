"""Anthropic Messages requests: a body in, a Conversation and everything that its answer depends on out.

Promises: under the official policy the official library's results, errors and their order (spec/recipe.md 5 and 6);
under the local one a superset. A pure function; time and memory grow with the body and no faster.
"""

from dataclasses import replace

from whitedwarf.conversation.conversation import Conversation
from whitedwarf.conversation.json_value import Json
from whitedwarf.conversation.message import AssistantMessage, Message, SystemMessage
from whitedwarf.conversation.options import InferenceOptions
from whitedwarf.conversation.response_format import PlainText, ResponseFormat
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.parse_options import ParseStart
from whitedwarf.prompt.recipe_memory import RecipeMemory
from whitedwarf.protocol.anthropic.local_request import read_local, unread_fields
from whitedwarf.protocol.anthropic.messages import Setting, read_messages
from whitedwarf.protocol.anthropic.pieces import SEPARATOR
from whitedwarf.protocol.anthropic.request import MessagesRequest, read_official
from whitedwarf.protocol.anthropic.tools import Toolbox
from whitedwarf.protocol.converted import Converted, MessagesReply
from whitedwarf.protocol.failures import RefusedRequest
from whitedwarf.protocol.image_parts import unseen_images
from whitedwarf.protocol.missing_reasoning import check_reasoning, with_reasoning
from whitedwarf.protocol.notes import Notes
from whitedwarf.protocol.one_call import asks_for_one_call
from whitedwarf.protocol.parsing import parse_options
from whitedwarf.protocol.policy import Missing, Policy
from whitedwarf.protocol.resolution import (
    check_max_tokens,
    check_temperature,
    check_top_p,
    checked_stop_strings,
    resolve_constraint,
    resolve_thinking,
    resolved_temperature,
    resolved_top_p,
    version_of,
)
from whitedwarf.protocol.schema_form import schema_form
from whitedwarf.protocol.tool_paths import tool_paths
from whitedwarf.protocol.unfollowed_options import ignored_while_thinking, lowered_limit


def convert(body: Json, policy: Policy, memory: RecipeMemory | None = None) -> Converted[MessagesReply]:
    """The request that `body` is; MalformedRequest and RefusedRequest where it is none or cannot be answered."""
    notes = Notes()
    request: MessagesRequest = (
        read_official(body) if policy.is_official else read_local(body, notes, policy.assumed_model)
    )
    version = version_of(request.model, policy)
    is_thinking, effort = resolve_thinking(request.thinking, request.effort, policy)
    toolbox = Toolbox(request.tools, request.wish, version, policy)
    messages = _messages(request, Setting(version, policy, toolbox, notes), is_thinking=is_thinking)
    chosen = toolbox.chosen(is_thinking=is_thinking, memory=memory)
    conversation = Conversation(
        messages,
        is_thinking=is_thinking,
        tools=chosen.tools,
        tool_choice=chosen.choice,
        reasoning_effort=effort,
        response_format=_form(request, policy),
    )
    stop_strings = checked_stop_strings(list(request.stop_sequences), policy)
    inference = _inference(request, conversation, version, policy)
    parsing = parse_options(conversation, _start(conversation), stop_strings, policy)
    return Converted(
        model=request.model,
        version=version,
        conversation=conversation,
        inference=inference,
        constraint=resolve_constraint(conversation, must_call=chosen.must_call, memory=memory),
        parsing=parsing,
        is_streamed=request.is_streamed,
        reply=MessagesReply(is_thinking=is_thinking and parsing.start is not ParseStart.CONTENT_CONTINUED),
        takes_one_call=not policy.is_official and asks_for_one_call(body),
        tool_paths=tool_paths(body),
        warnings=(
            *notes.sentences,
            *_sampling_warnings(request, policy, is_thinking=is_thinking),
            *unseen_images(messages, policy),
        ),
        unknown_fields=unread_fields(body),
    )


def _messages(request: MessagesRequest, setting: Setting, *, is_thinking: bool) -> tuple[Message, ...]:
    if not request.messages:
        raise RefusedRequest("messages: at least one message is required")
    messages = read_messages(request.messages, setting)
    if is_thinking and setting.policy.missing_reasoning is Missing.REFUSED:
        check_reasoning(messages, "content[].thinking", has_tools=not setting.toolbox.is_empty)
    if request.system is not None:
        messages.insert(0, SystemMessage(SEPARATOR.join(request.system)))
    complete = with_reasoning(messages, is_thinking=is_thinking)
    return complete if setting.policy.is_official else _with_prefix(complete)


def _with_prefix(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """An answer at the very end is one to go on with: that is what Messages clients mean by it."""
    last = messages[-1] if messages else None
    if isinstance(last, AssistantMessage) and last.content and not last.tool_calls:
        return (*messages[:-1], replace(last, is_prefix=True))
    return messages


def _inference(
    request: MessagesRequest, conversation: Conversation, version: ModelVersion, policy: Policy
) -> InferenceOptions:
    check_temperature(request.temperature)
    check_top_p(request.top_p)
    is_thinking = conversation.is_thinking
    return InferenceOptions(
        max_tokens=_max_tokens(request.max_tokens, policy.max_tokens_bound(is_thinking=is_thinking)),
        temperature=resolved_temperature(request.temperature, is_thinking=is_thinking),
        top_p=resolved_top_p(request.top_p, version, conversation, policy),
        top_k=None if is_thinking else request.top_k,
        min_p=None if is_thinking else request.min_p,
    )


def _form(request: MessagesRequest, policy: Policy) -> ResponseFormat:
    form = request.response_schema
    return PlainText() if form is None else schema_form(form.schema, policy, is_strict=False).told


def _sampling_warnings(request: MessagesRequest, policy: Policy, *, is_thinking: bool) -> tuple[str, ...]:
    bound = policy.max_tokens_bound(is_thinking=is_thinking)
    asked = {
        "temperature": request.temperature,
        "top_p": request.top_p,
        "top_k": request.top_k,
        "min_p": request.min_p,
    }
    lowered = lowered_limit("max_tokens", request.max_tokens, bound)
    return lowered + ignored_while_thinking(asked, is_thinking=is_thinking)


def _max_tokens(requested: int | None, bound: int) -> int | None:
    """Too many are as many as may be: clients ask for more than any model has."""
    if requested is None:
        return None
    check_max_tokens(min(requested, bound), bound)
    return min(requested, bound)


def _start(conversation: Conversation) -> ParseStart:
    last = conversation.messages[-1] if conversation.messages else None
    if isinstance(last, AssistantMessage) and last.is_prefix:
        return ParseStart.CONTENT_CONTINUED
    return ParseStart.REASONING if conversation.is_thinking else ParseStart.CONTENT
