"""Events on their way: joined, in order, nothing lost; whoever tells never waits."""

import threading
import time

from hypothesis import given
from hypothesis import strategies as st

from whitedwarf.agent.events import (
    AnswerEnd,
    AnswerEnded,
    Drawn,
    Event,
    Notice,
    ParameterText,
    Reading,
    ToolOutput,
)
from whitedwarf.agent.tui.inbox import Inbox, joined
from whitedwarf.conversation.events import ArgumentsDelta, ReasoningDelta, TextDelta

_TEXT = st.text("ab", max_size=3)
_EVENTS = st.one_of(
    _TEXT.map(TextDelta),
    _TEXT.map(ReasoningDelta),
    st.builds(Drawn, st.integers(0, 9), st.just(0.1)),
    st.builds(Reading, st.integers(0, 9), st.just(9), st.just(0), st.just(0.1)),
    st.builds(ParameterText, st.integers(0, 1), st.sampled_from(["old", "new"]), _TEXT, st.booleans()),
    st.builds(ToolOutput, st.integers(0, 1), _TEXT),
    st.just(AnswerEnded(AnswerEnd.DONE, 1, 1)),
    _TEXT.map(Notice),
)


def kind(event: Event) -> object:
    """What may be joined with what: the same text of the same place."""
    match event:
        case ParameterText():
            return ParameterText, event.index, event.parameter
        case ToolOutput():
            return ToolOutput, event.index
        case _:
            return type(event)


def story(events: list[Event]) -> list[tuple[object, str]]:
    """The texts in their order, neighbours of one kind together, without figures."""
    told: list[tuple[object, str]] = []
    for event in events:
        if isinstance(event, Drawn | Reading):
            continue
        text = getattr(event, "text", "")
        if told and told[-1][0] == kind(event) and not isinstance(event, AnswerEnded | Notice):
            told[-1] = (kind(event), told[-1][1] + text)
        else:
            told.append((kind(event), text))
    return told


@given(st.lists(_EVENTS, max_size=30))
def test_joining_changes_no_text_and_no_order(events: list[Event]) -> None:
    assert story(joined(events)) == story(events)


@given(st.lists(_EVENTS, max_size=30))
def test_the_newest_figure_is_kept_and_none_is_invented(events: list[Event]) -> None:
    for figure in (Drawn, Reading):
        before = [event for event in events if isinstance(event, figure)]
        after = [event for event in joined(events) if isinstance(event, figure)]
        assert after[-1:] == before[-1:]
        assert all(event in before for event in after)


@given(st.lists(_EVENTS, max_size=30))
def test_a_parameter_that_was_closed_stays_closed(events: list[Event]) -> None:
    closings = [kind(event) for event in events if isinstance(event, ParameterText) and event.is_closed]
    assert [kind(event) for event in joined(events) if isinstance(event, ParameterText) and event.is_closed] == closings


def test_a_burst_of_tokens_becomes_two_events() -> None:
    burst: list[Event] = []
    for number in range(1000):
        burst += [TextDelta("x"), Drawn(number, 0.1), ArgumentsDelta(0, "{")]
    assert joined(burst) == [TextDelta("x" * 1000), Drawn(999, 0.1)]


def test_events_of_many_threads_all_arrive() -> None:
    inbox = Inbox()
    threads = [threading.Thread(target=lambda: [inbox.put(Notice("x")) for _ in range(500)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(inbox.take()) == 2000
    assert inbox.take() == []


def test_a_hundred_thousand_tokens_are_joined_in_linear_time() -> None:
    events: list[Event] = [event for number in range(50_000) for event in (TextDelta("word "), Drawn(number, 0.1))]
    began_s = time.process_time()
    assert len(joined(events)) == 2
    assert time.process_time() - began_s < 20
