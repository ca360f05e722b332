"""Earlier answers whose reasoning the client did not send back: refused or taken as empty (spec/recipe.md 3).

Promises: one rule for all dialects. An answer came without thinking, and is let through, when the id of one of its
calls says so: `ET_` after six or eight characters, the whole id in ASCII, as the official library reads it. Messages
come with the reasoning that the request has: None where it has none.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from whitedwarf.conversation.message import AssistantMessage, Message, UserMessage
from whitedwarf.protocol.failures import RefusedRequest

_UNTHOUGHT_MARK = "ET_"
_MARK_PLACES = (6, 8)  # `toolu_ET_…` and `call_00_ET_…`


def check_reasoning(messages: Sequence[Message], field: str, *, has_tools: bool) -> None:
    """Refuse answers to the last user message that lack reasoning and have to do with tools.

    `field` is the dialect's name for reasoning; `has_tools`: the request declares some, whatever their kind.
    """
    for message in reversed(messages):
        if isinstance(message, UserMessage):
            return
        if isinstance(message, AssistantMessage) and _lacks_reasoning(message, has_tools):
            raise RefusedRequest(f"The `{field}` in the thinking mode must be passed back to the API.")


def with_reasoning(messages: Iterable[Message], *, is_thinking: bool) -> tuple[Message, ...]:
    """The same messages: missing reasoning is empty while the model thinks, and there is none while it does not."""
    return tuple(_with_reasoning(message, is_thinking) for message in messages)


def _with_reasoning(message: Message, is_thinking: bool) -> Message:
    if not isinstance(message, AssistantMessage):
        return message
    reasoning = (message.reasoning or "") if is_thinking else None
    return message if reasoning == message.reasoning else replace(message, reasoning=reasoning)


def _lacks_reasoning(message: AssistantMessage, has_tools: bool) -> bool:
    if message.reasoning is not None or not (message.tool_calls or has_tools):
        return False
    return not any(map(_came_without_thinking, (call.id for call in message.tool_calls or ())))


def _came_without_thinking(call_id: str) -> bool:
    return call_id.isascii() and any(call_id.startswith(_UNTHOUGHT_MARK, place) for place in _MARK_PLACES)
