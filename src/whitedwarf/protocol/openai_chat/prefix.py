"""A last assistant message that only begins the answer: where it may stand, and where the model goes on."""

from whitedwarf.conversation.conversation import Conversation
from whitedwarf.conversation.message import AssistantMessage
from whitedwarf.conversation.response_format import JsonObject
from whitedwarf.prompt.parse_options import ParseStart
from whitedwarf.protocol.failures import RefusedRequest
from whitedwarf.protocol.openai_chat.messages import AssistantRequest, MessageRequest
from whitedwarf.protocol.openai_chat.request import ChatRequest
from whitedwarf.protocol.policy import Policy


def check_prefix_place(request: ChatRequest, policy: Policy) -> None:
    """Refuse a prefix that other messages follow; the local reading has put that right already."""
    if policy.is_official and any(map(_is_prefix, request.messages[:-1])):
        raise RefusedRequest(
            "Invalid completion message: prefix set true with message which is not final message or "
            "message role is not assistant"
        )


def check_prefix_use(request: ChatRequest, policy: Policy) -> None:
    """Refuse what the official library does not combine with a prefix; the local policy lets it through."""
    if not (policy.is_official and _is_prefix(request.messages[-1])):
        return
    if isinstance(request.response_format, JsonObject):
        raise RefusedRequest("response_format json_object should not be used with prefix")
    if request.tools or any(map(_has_calls, request.messages)):
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


def _is_prefix(message: MessageRequest) -> bool:
    return isinstance(message, AssistantRequest) and message.is_prefix


def _has_calls(message: MessageRequest) -> bool:
    return isinstance(message, AssistantRequest) and bool(message.tool_calls)
