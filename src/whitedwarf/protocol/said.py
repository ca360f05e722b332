"""One answer as a message of the conversation: what its events add up to, for the day when it comes back as history."""

from collections.abc import Iterable, Mapping, Sequence

from whitedwarf.conversation.events import Event, ReasoningDelta, Repair, RepairKind, TextDelta, ToolCallFinished
from whitedwarf.conversation.message import AssistantMessage
from whitedwarf.conversation.tools import ToolCall
from whitedwarf.prompt.spoken_block import spoken_words
from whitedwarf.prompt.tokenizer import Tokenizer

HARMLESS = frozenset({RepairKind.UNASKED_THOUGHT})
"""Repairs after which the model's own words for its calls are still those to go on from."""


class Said:
    """Takes the events of an answer."""

    def __init__(self, *, is_thinking: bool) -> None:
        self._is_thinking = is_thinking
        self._thoughts: list[str] = []
        self._texts: list[str] = []
        self._calls: list[ToolCallFinished] = []
        self._is_sound = True

    def take(self, events: Iterable[Event]) -> None:
        """More of it."""
        for event in events:
            match event:
                case ReasoningDelta(text):
                    self._thoughts.append(text)
                case TextDelta(text):
                    self._is_sound = self._is_sound and not self._calls
                    self._texts.append(text)
                case ToolCallFinished():
                    self._calls.append(event)
                case Repair(kind):
                    self._is_sound = self._is_sound and kind in HARMLESS

    def message(self, call_ids: Mapping[int, str], ids: Sequence[int], tokenizer: Tokenizer) -> AssistantMessage:
        """The whole; `ids` are its tokens, `call_ids` what clients know its calls by."""
        content = "".join(self._texts)
        calls = tuple([ToolCall(call_ids[call.index], call.name, call.arguments) for call in self._calls])
        words = spoken_words(ids, content, tokenizer) if calls and self._is_sound else None
        reasoning = "".join(self._thoughts) if self._is_thinking else None
        return AssistantMessage(content, reasoning, calls or None, spoken_calls=words)
