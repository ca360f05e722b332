"""Events as a parser might give them, made at random; and what a told answer adds up to, delta by delta."""

import json
from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st

from prompt.streams import cut
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

TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
NAMES = st.sampled_from(["read", "write file", "ns::f", "补丁"])
ARGUMENTS = st.dictionaries(TEXT, st.none() | st.integers(-99, 99) | TEXT | st.lists(TEXT, max_size=2), max_size=3)
SIZES = st.lists(st.integers(0, 9), max_size=12)


@st.composite
def event_sequences(draw: st.DrawFn) -> list[Event]:
    """A whole answer; sometimes the last call is cut off, and the answer with it."""
    events: list[Event] = [ReasoningDelta(text) for text in draw(st.lists(TEXT, max_size=3))]
    events += [TextDelta(text) for text in draw(st.lists(TEXT, max_size=3))]
    calls = draw(st.lists(st.tuples(NAMES, ARGUMENTS, SIZES), max_size=3))
    is_cut = bool(calls) and draw(st.booleans())
    for index, (name, arguments, sizes) in enumerate(calls):
        text = json.dumps(arguments, ensure_ascii=False)
        is_last = is_cut and index == len(calls) - 1
        pieces = cut(text[:-1] if is_last else text, sizes)
        events += [ToolCallStarted(index, name), *(ArgumentsDelta(index, piece) for piece in pieces)]
        events += [] if is_last else [ToolCallFinished(index, name, text)]
    for place in draw(st.lists(st.integers(0, len(events)), max_size=2)):
        events.insert(place, Repair(draw(st.sampled_from(RepairKind))))
    return [*events, _end(draw, bool(calls), is_cut=is_cut)]


def _end(draw: st.DrawFn, has_calls: bool, *, is_cut: bool) -> Finished:
    plain = [FinishReason.STOP, FinishReason.STOP_STRING, FinishReason.LENGTH, FinishReason.CONTENT_FILTER]
    reason = draw(st.sampled_from(plain))
    if is_cut:
        reason = FinishReason.LENGTH
    elif has_calls:
        reason = FinishReason.TOOL_CALLS
    return Finished(reason, "END" if reason is FinishReason.STOP_STRING else None, 7, 3)


def without_repairs(events: Iterable[Event]) -> list[Event]:
    return [event for event in events if not isinstance(event, Repair)]


def joined(deltas: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Neighbouring deltas of one kind as one; empty ones are none."""
    whole: list[tuple[str, str]] = []
    for kind, text in deltas:
        if text and whole and whole[-1][0] == kind:
            whole[-1] = (kind, whole[-1][1] + text)
        elif text:
            whole.append((kind, text))
    return whole


def chat_deltas(chunks: Iterable[dict[str, Any]]) -> list[tuple[str, str]]:
    """What a client shows as it comes, by field and call."""
    deltas: list[tuple[str, str]] = []
    for choice in (choice for chunk in chunks for choice in chunk["choices"]):
        for key in ("reasoning_content", "content"):
            deltas.append((key, choice["delta"].get(key) or ""))
        for call in choice["delta"].get("tool_calls", ()):
            function = call["function"]
            deltas += [(f"{key} {call['index']}", function[key]) for key in ("name", "arguments") if key in function]
    return joined(deltas)


def messages_deltas(events: Iterable[dict[str, Any]]) -> list[tuple[str, str]]:
    """What a client shows as it comes, by block and field."""
    deltas: list[tuple[str, str]] = []
    for event in events:
        if event["type"] == "content_block_delta":
            fields = {key: text for key, text in event["delta"].items() if key != "type"}
            deltas += [(f"{event['index']} {key}", text) for key, text in fields.items()]
    return joined(deltas)
