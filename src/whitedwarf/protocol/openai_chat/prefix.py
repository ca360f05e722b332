"""A last assistant message that only begins the answer: where it may stand, and where the model goes on."""

from collections.abc import Sequence
from dataclasses import replace

from whitedwarf.conversation.conversation import Conversation
from whitedwarf.conversation.message import AssistantMessage, Message
from whitedwarf.conversation.response_format import JsonObject
from whitedwarf.prompt.parse_options import ParseStart
from whitedwarf.protocol.failures import RefusedRequest
from whitedwarf.protocol.openai_chat.request import ChatRequest
from whitedwarf.protocol.policy import Policy


def without_early_prefixes(messages: tuple[Message, ...], policy: Policy) -> tuple[Message, ...]:
    """A prefix that other messages follow is refused officially; the local policy takes it for a whole answer."""
    if not any(map(_is_prefix, messages[:-1])):
        return messages
    if policy.is_official:
        raise RefusedRequest(
            "Invalid completion message: prefix set true with message which is not final message or "
            "message role is not assistant"
        )
    return (*map(_whole, messages[:-1]), messages[-1])


def check_prefix_use(messages: Sequence[Message], request: ChatRequest, policy: Policy) -> None:
    """Refuse what the official library does not combine with a prefix; the local policy lets it through."""
    if not policy.is_official or not any(map(_is_prefix, messages[-1:])):
        return
    if isinstance(request.response_format, JsonObject):
        raise RefusedRequest("response_format json_object should not be used with prefix")
    if request.tools or any(map(_has_calls, messages)):
        raise RefusedRequest("Function call should not be used with prefix")


def parse_start(conversation: Conversation, policy: Policy) -> ParseStart:
    """Where the prompt leaves off: after a prefix, the model goes on in the middle of it."""
    last = conversation.messages[-1] if conversation.messages else None
    prefix = last if isinstance(last, AssistantMessage) and last.is_prefix else AssistantMessage("")
    if not conversation.is_thinking:
        # The official library drops newlines at the start of what is to continue an answer.
        return ParseStart.CONTENT if policy.is_official or not prefix.content else ParseStart.CONTENT_CONTINUED
    if prefix.content:
        return ParseStart.CONTENT_CONTINUED
    return ParseStart.REASONING_CONTINUED if prefix.reasoning else ParseStart.REASONING


def _whole(message: Message) -> Message:
    return replace(message, is_prefix=False) if isinstance(message, AssistantMessage) else message


def _is_prefix(message: Message) -> bool:
    return isinstance(message, AssistantMessage) and message.is_prefix


def _has_calls(message: Message) -> bool:
    return isinstance(message, AssistantMessage) and bool(message.tool_calls)
