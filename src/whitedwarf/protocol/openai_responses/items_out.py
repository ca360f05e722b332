"""The items that an answer consists of, while they are written: what they share, and those that are text.

An item gives its events when it opens, grows and closes, and shows itself whole at any time. Promises: the official
members in the official order (spec/recipe.md 13). Does not know what opens or closes an item.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from whitedwarf.conversation.json_value import Json
from whitedwarf.protocol.openai_responses.carried_thoughts import carrying
from whitedwarf.protocol.openai_responses.numbering import Numbering, StreamEvent
from whitedwarf.protocol.token_log import ScoredToken

ItemStatus: TypeAlias = Literal["in_progress", "completed", "incomplete"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where an item stands in its answer."""

    answer_id: str
    index: int
    numbering: Numbering


class ItemOut(ABC):
    """One item of the answer; its id is as hard to guess as the answer's."""

    ID_PREFIX: ClassVar[str]
    IS_CALL: ClassVar[bool] = False

    def __init__(self, place: Place) -> None:
        self._place = place
        self.id = f"{self.ID_PREFIX}_{place.answer_id}_{place.index}"

    def opened(self) -> list[StreamEvent]:
        """The events that begin the item."""
        place = self._place
        added = place.numbering.event(
            "response.output_item.added", item=self.shown("in_progress"), output_index=place.index
        )
        return [added, *self._content_opened()]

    def closed(self, status: ItemStatus, *, precedes_call: bool = False) -> list[StreamEvent]:
        """The events that end the item; a message before a call is not yet the answer."""
        content = self._content_closed(status)
        place = self._place
        done = place.numbering.event("response.output_item.done", item=self.shown(status), output_index=place.index)
        return [*content, done]

    @abstractmethod
    def shown(self, status: ItemStatus) -> dict[str, Json]:
        """The item as it is so far."""

    def _content_opened(self) -> list[StreamEvent]:
        return []

    @abstractmethod
    def _content_closed(self, status: ItemStatus) -> list[StreamEvent]: ...

    def _event(self, kind: str, **members: Json) -> StreamEvent:
        return self._place.numbering.event(kind, item_id=self.id, output_index=self._place.index, **members)


class TextItemOut(ItemOut):
    """An item of one part, which is text."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._texts: list[str] = []

    @property
    def text(self) -> str:
        """All text so far."""
        return "".join(self._texts)

    def grown(self, text: str, tokens: Sequence[ScoredToken] = ()) -> list[StreamEvent]:
        """The event that adds this text; `tokens` are those that it was read from."""
        self._texts.append(text)
        return [self._delta(text, tokens)]

    def _parts(self, status: ItemStatus) -> list[Json]:
        return [] if status == "in_progress" else [self._part(self.text)]

    @abstractmethod
    def _delta(self, text: str, tokens: Sequence[ScoredToken]) -> StreamEvent: ...

    @abstractmethod
    def _part(self, text: str) -> dict[str, Json]: ...


class ReasoningOut(TextItemOut):
    """Thinking, told as what it is."""

    ID_PREFIX = "rs"

    def shown(self, status: ItemStatus) -> dict[str, Json]:
        return {
            "type": "reasoning",
            "id": self.id,
            "status": status,
            "content": self._parts(status),
            "summary": [],
            "encrypted_content": f"{self._place.answer_id}-{self._place.index}",
        }

    def _content_opened(self) -> list[StreamEvent]:
        return [self._event("response.content_part.added", content_index=0, part=self._part(""))]

    def _content_closed(self, status: ItemStatus) -> list[StreamEvent]:
        return [
            self._event("response.reasoning_text.done", content_index=0, text=self.text),
            self._event("response.content_part.done", content_index=0, part=self._part(self.text)),
        ]

    def _delta(self, text: str, tokens: Sequence[ScoredToken]) -> StreamEvent:
        return self._event("response.reasoning_text.delta", content_index=0, delta=text)

    def _part(self, text: str) -> dict[str, Json]:
        return {"type": "reasoning_text", "text": text}


class CarriedReasoningOut(ReasoningOut):
    """Thinking that comes back also from clients that send no more of it than `encrypted_content`."""

    def shown(self, status: ItemStatus) -> dict[str, Json]:
        told = super().shown(status)
        if status != "in_progress":
            told["encrypted_content"] = carrying(str(told["encrypted_content"]), self.text)
        return told


class SummaryOut(ReasoningOut):
    """Thinking, told as a summary of itself: the form that clients show to people."""

    def shown(self, status: ItemStatus) -> dict[str, Json]:
        return {**super().shown(status), "content": [], "summary": self._parts(status)}

    def _content_opened(self) -> list[StreamEvent]:
        return [self._event("response.reasoning_summary_part.added", summary_index=0, part=self._part(""))]

    def _content_closed(self, status: ItemStatus) -> list[StreamEvent]:
        return [
            self._event("response.reasoning_summary_text.done", summary_index=0, text=self.text),
            self._event("response.reasoning_summary_part.done", summary_index=0, part=self._part(self.text)),
        ]

    def _delta(self, text: str, tokens: Sequence[ScoredToken]) -> StreamEvent:
        return self._event("response.reasoning_summary_text.delta", summary_index=0, delta=text)

    def _part(self, text: str) -> dict[str, Json]:
        return {"type": "summary_text", "text": text}


class MessageOut(TextItemOut):
    """The answer proper, or what is said before a call."""

    ID_PREFIX = "msg"

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._phase = "final_answer"
        self._logprobs: list[Json] = []

    def shown(self, status: ItemStatus) -> dict[str, Json]:
        return {
            "type": "message",
            "id": self.id,
            "status": status,
            "role": "assistant",
            "phase": self._phase,
            "content": self._parts(status),
        }

    def closed(self, status: ItemStatus, *, precedes_call: bool = False) -> list[StreamEvent]:
        if precedes_call:
            self._phase = "commentary"
        return super().closed(status)

    def _content_opened(self) -> list[StreamEvent]:
        return [self._event("response.content_part.added", content_index=0, part=self._part(""))]

    def _content_closed(self, status: ItemStatus) -> list[StreamEvent]:
        text = self.text
        return [
            self._event("response.output_text.done", content_index=0, logprobs=list(self._logprobs), text=text),
            self._event("response.content_part.done", content_index=0, part=self._part(text)),
        ]

    def _delta(self, text: str, tokens: Sequence[ScoredToken]) -> StreamEvent:
        logprobs: list[Json] = [token.as_json() for token in tokens]
        self._logprobs += logprobs
        return self._event("response.output_text.delta", content_index=0, delta=text, logprobs=logprobs)

    def _part(self, text: str) -> dict[str, Json]:
        return {"type": "output_text", "annotations": [], "logprobs": list(self._logprobs), "text": text}
