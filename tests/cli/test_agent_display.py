"""What the agent does, as lines: on terminals and elsewhere, hostile text, readers who leave."""

import io

import pytest

from whitedwarf.agent.events import (
    AnswerEnd,
    AnswerEnded,
    Compacting,
    Drawn,
    Event,
    Notice,
    QueueChanged,
    Reading,
    ToolBegan,
    ToolEnded,
    ToolOutput,
    TurnBegan,
    TurnEnded,
)
from whitedwarf.cli.agent_display import AgentDisplay
from whitedwarf.conversation.events import ReasoningDelta, TextDelta

TURN: list[Event] = [
    TurnBegan("List it."),
    Reading(0, 30, 10, 0.0),
    Reading(30, 30, 10, 0.5),
    ReasoningDelta("Look first."),
    TextDelta("I look."),
    AnswerEnded(AnswerEnd.CALLS, 9, 50),
    ToolBegan(0, "list", "Listing .", {}),
    ToolOutput(0, "a.py\n"),
    ToolEnded(0, "list", "a.py", False, 0.1),
    ToolBegan(1, "edit", "Editing a.py", {}),
    ToolEnded(1, "edit", "done", False, 0.1, "--- a.py\n+++ a.py\n-old\n+new\n"),
    ToolBegan(2, "bash", "$ false", {}),
    ToolEnded(2, "bash", "Tool error: no\nmore", True, 0.1),
    Reading(0, 5, 50, 0.0),
    TextDelta("There is "),
    Drawn(1, 0.5),
    TextDelta("a.py."),
    Drawn(10, 2.0),
    AnswerEnded(AnswerEnd.DONE, 10, 65),
    TurnEnded(AnswerEnd.DONE, 65),
]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(*events: Event, said: io.StringIO | None = None) -> tuple[str, str, AgentDisplay]:
    """What stands in both streams."""
    said, notes = said or io.StringIO(), io.StringIO()
    display = AgentDisplay(said, notes)
    for event in events:
        display.listen(event)
    return said.getvalue(), notes.getvalue(), display


def test_a_turn_as_lines() -> None:
    said, notes, display = shown(*TURN)
    assert said.splitlines() == [
        "Look first.",
        "I look.",
        "[tool] Listing .",
        "a.py",
        "[tool] Editing a.py",
        "--- a.py",
        "+++ a.py",
        "-old",
        "+new",
        "[tool] $ false",
        "  Tool error: no",
        "  more",
        "There is a.py.",
    ]
    assert notes.splitlines() == ["reading 30/30 tokens (10 known), 60 t/s", "5.0 t/s, 65 tokens in the context"]
    assert (display.answer, display.end, display.has_failed) == ("There is a.py.", AnswerEnd.DONE, False)


def test_a_terminal_gets_colours_and_obeys_nothing() -> None:
    hostile = "\033[2J\033]0;x\007"
    events = [
        TextDelta(hostile),
        ToolBegan(0, "bash", f"$ {hostile}", {}),
        ToolOutput(0, hostile),
        ToolEnded(0, "bash", hostile, True, 0.0, ""),
        ToolEnded(0, "edit", "", False, 0.0, f"+{hostile}"),
    ]
    said, _, _ = shown(*events, said=Terminal())
    assert "\033[2J" not in said
    assert "\033]0" not in said
    assert "\033[32m+·[2J" in said


def test_notices_faults_and_the_queue_are_notes() -> None:
    said, notes, display = shown(
        TextDelta("half"),
        AnswerEnded(AnswerEnd.REFUSED, 3, 10, "there is no x.py"),
        QueueChanged(("more",)),
        QueueChanged(()),
        Compacting("summary", 3, 9),
        Notice("The disk is full.", is_error=True),
    )
    assert said == "half\n"
    assert notes.splitlines() == [
        "the call was not right: there is no x.py",
        "waiting: 1",
        "shortening the context (summary): 3/9 tokens",
        "The disk is full.",
    ]
    assert display.has_failed


def test_a_reader_who_leaves_is_noticed_once() -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    calls: list[int] = []
    display = AgentDisplay(Gone(), io.StringIO(), lambda: calls.append(1))
    for event in TURN:
        display.listen(event)
    assert isinstance(display.error, BrokenPipeError)
    assert calls == [1]


@pytest.mark.parametrize("colour", [True, False])
def test_thoughts_are_grey_where_there_are_colours(colour: bool) -> None:
    said, _, _ = shown(ReasoningDelta("Hm."), TextDelta("Ok."), said=Terminal() if colour else io.StringIO())
    assert said == ("\033[90mHm.\033[0m\nOk." if colour else "Hm.\nOk.")
