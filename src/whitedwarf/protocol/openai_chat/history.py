"""Chat messages to the conversation's: which order of calls and results is accepted, and what becomes of reasoning.

Promises: the official rules and texts (spec/recipe.md 3) under the official policy. The local policy takes calls and
results as they come. Messages keep their order.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from whitedwarf.conversation.content import is_empty
from whitedwarf.conversation.message import (
    AssistantMessage,
    LatestReminder,
    Message,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from whitedwarf.conversation.tools import ToolCall
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.protocol.billing_header import without_billing_line
from whitedwarf.protocol.failures import RefusedRequest
from whitedwarf.protocol.missing_reasoning import check_reasoning, with_reasoning
from whitedwarf.protocol.openai_chat.content import content_of, text_of
from whitedwarf.protocol.openai_chat.messages import (
    AssistantRequest,
    CallRequest,
    MessageRequest,
    ReminderRequest,
    SystemRequest,
    ToolRequest,
    UserRequest,
)
from whitedwarf.protocol.policy import Missing, Policy

_UNANSWERED = (
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'"
)


@dataclass(frozen=True, slots=True)
class Setting:
    """What the conversion of messages depends on."""

    version: ModelVersion
    policy: Policy
    is_thinking: bool
    has_tools: bool  # declared, whether or not they are offered


@dataclass(slots=True)
class _Pairing:
    """The calls that wait for their results, and those of the same message that have theirs."""

    waiting: set[str] = field(default_factory=set)
    answered: set[str] = field(default_factory=set)

    def begin(self, calls: Sequence[CallRequest], index: int) -> None:
        self.waiting, self.answered = set(), set()
        for call in calls:
            if call.id in self.waiting:
                raise _repeated(call.id, index)
            self.waiting.add(call.id)

    def answer(self, call_id: str | None, index: int) -> None:
        if not self.waiting:
            raise RefusedRequest(
                "Messages with role 'tool' must be a response to a preceding message with 'tool_calls'"
            )
        if call_id in self.answered:
            raise _repeated(call_id, index)
        if call_id is None or call_id not in self.waiting:
            raise RefusedRequest(
                f"{_UNANSWERED}, The following tool_call_ids did not have response messages: {call_id}"
            )
        self.waiting.remove(call_id)
        self.answered.add(call_id)

    def end(self) -> None:
        if self.waiting:
            raise RefusedRequest(f"{_UNANSWERED}. (insufficient tool messages following tool_calls message)")


def _repeated(call_id: str | None, index: int) -> RefusedRequest:
    return RefusedRequest(f"Duplicate value for 'tool_call_id' of {call_id} in message[{index}]")


def converted_messages(requests: Sequence[MessageRequest], setting: Setting) -> tuple[Message, ...]:
    """The conversation's messages; RefusedRequest for the first that the policy does not accept."""
    if not requests:
        raise RefusedRequest("Empty input messages")
    messages = tuple(_messages(requests, setting))
    if setting.is_thinking and setting.policy.missing_reasoning is Missing.REFUSED:
        check_reasoning(messages, "reasoning_content", has_tools=setting.has_tools)
    return with_reasoning(messages, is_thinking=setting.is_thinking)


def _messages(requests: Sequence[MessageRequest], setting: Setting) -> Iterator[Message]:
    pairing = _Pairing()
    for index, request in enumerate(requests):
        if setting.policy.is_official:
            _check_order(pairing, request, index)
        message = _message(request, index, setting)
        if setting.policy.is_official and isinstance(request, AssistantRequest):
            pairing.begin(request.tool_calls or (), index)
        if not (isinstance(message, SystemMessage) and is_empty(message.content)):
            yield message
    pairing.end()


def _check_order(pairing: _Pairing, request: MessageRequest, index: int) -> None:
    if isinstance(request, ToolRequest):
        pairing.answer(request.tool_call_id, index)
    else:
        pairing.end()


def _message(request: MessageRequest, index: int, setting: Setting) -> Message:
    path, version = f".messages[{index}]", setting.version
    match request:
        case SystemRequest(content):
            return SystemMessage(without_billing_line(content_of(content, path, version)))
        case UserRequest(content):
            return UserMessage(content_of(content, path, version))
        case ToolRequest(content, call_id):
            return ToolMessage(content_of(content, path, version), call_id)
        case ReminderRequest(text):
            return LatestReminder(text)
        case AssistantRequest():
            return _assistant(request, index, setting)


def _assistant(request: AssistantRequest, index: int, setting: Setting) -> AssistantMessage:
    if request.content is None and request.tool_calls is None:
        raise RefusedRequest("Invalid assistant message: content or tool_calls must be set")
    content = "" if request.content is None else text_of(request.content, f".messages[{index}]", setting.version)
    return AssistantMessage(content, request.reasoning_content, _calls(request.tool_calls, index), request.is_prefix)


def _calls(calls: Sequence[CallRequest] | None, index: int) -> tuple[ToolCall, ...] | None:
    if calls is None:
        return None
    if not calls:
        raise RefusedRequest(
            f"Invalid 'messages[{index}].tool_calls': empty array. Expected an array with minimum length 1, "
            "but got an empty array instead."
        )
    return tuple(ToolCall(call.id, call.function.name, call.function.arguments) for call in calls)
