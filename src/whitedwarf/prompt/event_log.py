"""The events of one answer while they come into being, and the counts that go with them."""

from whitedwarf.conversation.events import (
    ArgumentsDelta,
    Event,
    Finished,
    FinishReason,
    ReasoningDelta,
    Repair,
    RepairKind,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
)
from whitedwarf.prompt.output_segment import Segment


class EventLog:
    """Events since the last `take`; `arguments` of the open call are kept until it closes."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._marked = 0
        self._thought: list[str] = []
        self._arguments: list[str] = []
        self._open_name: str | None = None
        self.has_text = False
        """Whether anything but blanks was answered."""
        self.calls_started = 0
        self.calls_finished = 0
        self.reasoning_tokens = 0
        self.completion_tokens = 0
        self._ids = 0  # of the completion tokens
        self.call_since: int | None = None  # completion tokens when the open block or its latest call began
        self.repairs: dict[RepairKind, int] = {}

    def mark(self) -> None:
        """What follows comes from the latest marker."""
        self._marked = len(self._events)

    def take(self, *, without_latest: bool = False) -> list[Event]:
        """The events since the last call; `without_latest` leaves those of the latest marker for the next call."""
        count = self._marked if without_latest else len(self._events)
        events = self._events[:count]
        del self._events[:count]
        self._marked = 0
        return events

    def count_ids(self, so_far: int) -> None:
        """How many ids the output consists of up to now, texts apart."""
        self.completion_tokens += so_far - self._ids
        self._ids = so_far

    def reasoning(self, text: str, segment: Segment, offset: int) -> None:
        """More thinking."""
        self.reasoning_tokens += segment.tokens_between(offset, offset + len(text))
        self._thought.append(text)
        self._events.append(ReasoningDelta(text, segment.token_span))

    @property
    def thought(self) -> str:
        """All thinking so far."""
        return "".join(self._thought)

    def text(self, text: str, segment: Segment, offset: int) -> None:
        """More of the answer."""
        self.has_text = self.has_text or bool(text.strip())
        self._events.append(TextDelta(text, segment.token_span))

    def start_call(self, name: str) -> None:
        """A call begins."""
        self._events.append(ToolCallStarted(self.calls_started, name))
        self._open_name = name
        self._arguments.clear()
        self.call_since = self.completion_tokens
        self.calls_started += 1

    def arguments(self, fragment: str) -> None:
        """More JSON text of the open call."""
        self._arguments.append(fragment)
        self._events.append(ArgumentsDelta(self.calls_started - 1, fragment))

    def finish_call(self) -> None:
        """The open call is complete."""
        assert self._open_name is not None
        self._events.append(ToolCallFinished(self.calls_started - 1, self._open_name, "".join(self._arguments)))
        self._open_name = None
        self.calls_finished += 1

    @property
    def has_open_call(self) -> bool:
        """Whether a call has started and not finished."""
        return self._open_name is not None

    def repair(self, kind: RepairKind) -> None:
        """Something was put right."""
        self.repairs[kind] = self.repairs.get(kind, 0) + 1
        self._events.append(Repair(kind))

    def finish(self, reason: FinishReason, stop_string: str | None = None) -> None:
        """The answer is over."""
        self._events.append(Finished(reason, stop_string, self.completion_tokens, self.reasoning_tokens))
