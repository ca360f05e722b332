"""Events on their way from the agent's thread to the screen's: `put` never waits for the screen.

What says the same again is joined when it is taken, so that a burst costs the screen as much as a single event: text
that continues, and figures of which only the newest counts.
"""

import threading
from dataclasses import replace

from whitedwarf.agent.events import Compacting, Drawn, Event, ParameterText, Reading, ToolOutput
from whitedwarf.conversation.events import ArgumentsDelta, ReasoningDelta, TextDelta

_FIGURES = (Drawn, Reading, Compacting)


class Inbox:
    """From any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: list[Event] = []

    def put(self, event: Event) -> None:
        """The next one."""
        with self._lock:
            self._events.append(event)

    def take(self) -> list[Event]:
        """All there are, joined; in their order."""
        with self._lock:
            events, self._events = self._events, []
        return joined(events)


def joined(events: list[Event]) -> list[Event]:
    """The same story in fewer events. Text may move to before a figure beside it, never across anything else."""
    told: list[Event] = []
    texts: list[list[str]] = []  # beside each of `told`
    for event in events:
        if isinstance(event, ArgumentsDelta):  # shown as ParameterText, and whole when the call has ended
            continue
        place = _place(told, event)
        if place is None:
            told.append(event)
            texts.append([_text(event)])
        elif isinstance(event, _FIGURES):
            told[place] = event
        else:
            texts[place].append(_text(event))
            if isinstance(event, ParameterText):
                told[place] = event
    return [_with_text(event, parts) for event, parts in zip(told, texts, strict=True)]


def _place(told: list[Event], event: Event) -> int | None:
    """Where an event of the same kind stands that this one continues."""
    if isinstance(event, _FIGURES):
        return len(told) - 1 if told and type(told[-1]) is type(event) else None
    for index in range(len(told) - 1, max(-1, len(told) - 3), -1):
        if _continues(told[index], event):
            return index
        if not isinstance(told[index], Drawn):
            return None
    return None


def _continues(before: Event, event: Event) -> bool:
    match before, event:
        case (ReasoningDelta(), ReasoningDelta()) | (TextDelta(), TextDelta()):
            return True
        case ToolOutput(), ToolOutput():
            return before.index == event.index
        case ParameterText(), ParameterText():
            return (before.index, before.parameter) == (event.index, event.parameter) and not before.is_closed
        case _:
            return False


def _text(event: Event) -> str:
    return event.text if isinstance(event, ReasoningDelta | TextDelta | ToolOutput | ParameterText) else ""


def _with_text(event: Event, parts: list[str]) -> Event:
    if len(parts) == 1:
        return event
    assert isinstance(event, ReasoningDelta | TextDelta | ToolOutput | ParameterText)
    return replace(event, text="".join(parts))
