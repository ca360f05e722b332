"""Events become what is read on the screen."""

import time

from whitedwarf.agent.events import (
    AnswerEnd,
    AnswerEnded,
    Compacting,
    Drawn,
    Event,
    Notice,
    ParameterText,
    Reading,
    SessionChanged,
    ToolBegan,
    ToolCallStarted,
    ToolEnded,
    ToolOutput,
    TurnBegan,
    TurnEnded,
)
from whitedwarf.agent.tui import story as story_module
from whitedwarf.agent.tui.story import Story
from whitedwarf.conversation.events import ReasoningDelta, Repair, RepairKind, TextDelta, ToolCallFinished

DIFF = "--- a\n+++ b\n@@ -1,2 +1,2 @@\n same\n-old [upto]\n+new\n"


def told(*events: Event, is_plain: bool = False, is_open: bool = False, width: int = 70) -> list[str]:
    """What is read in the end, without empty lines."""
    story = Story(is_plain)
    for event in events:
        story.tell(event)
    if is_open:
        story.fold_all(True)
    lines = [line.plain.rstrip() for entry in story.entries for line in entry.lines(width)]
    return [line for line in lines if line]


def test_a_turn_is_the_users_words_a_thought_and_an_answer() -> None:
    assert told(
        TurnBegan("why?\nreally"),
        Reading(5, 5, 0, 0.1),
        ReasoningDelta("let me "),
        Drawn(1, 0.1),
        ReasoningDelta("see"),
        Drawn(2, 0.2),
        TextDelta("\n\nbecause"),
        AnswerEnded(AnswerEnd.DONE, 3, 8),
        TurnEnded(AnswerEnd.DONE, 8),
    ) == ["› why?", "› really", "▸ Thought, 2 tokens, 0.2 s", "because"]


def test_a_thought_shows_its_last_lines_while_it_goes_on_and_all_when_opened() -> None:
    lines = "".join(f"line {number}\n" for number in range(9))
    assert told(ReasoningDelta(lines)) == ["▸ Thinking", *(f"  line {number}" for number in range(5, 9))]
    assert told(ReasoningDelta(lines), TextDelta("x"), is_open=True)[1:10] == [f"  line {n}" for n in range(9)]


def test_white_space_between_calls_is_no_answer() -> None:
    assert told(TextDelta("\n\n"), ToolCallStarted(0, "list"), TextDelta(" \n")) == ["● list  being written"]


def test_a_call_is_shown_while_it_is_written_while_it_runs_and_when_it_has_ended() -> None:
    events: list[Event] = [ToolCallStarted(0, "bash"), ParameterText(0, "command", "make\nmake test", True)]
    assert told(*events) == ["● bash  being written", "  $ make", "    make test"]
    events += [ToolCallFinished(0, "bash", "{}"), AnswerEnded(AnswerEnd.CALLS, 5, 5)]
    assert told(*events)[0] == "● bash  waits"
    events += [ToolBegan(0, "bash", "$ make ...", {"command": "x"}), ToolOutput(0, "building\n"), ToolOutput(0, "ok\n")]
    assert told(*events) == ["● bash  running", "  $ make", "    make test", "  building", "  ok"]
    events += [ToolEnded(0, "bash", "job 1 done, exit_status 0\nok", False, 1.25)]
    assert told(*events) == ["● bash  done, 1.2 s", "  $ make", "    make test", "  building", "  ok"]


def test_long_output_shows_its_end_and_what_was_left_out() -> None:
    output = "".join(f"line {number}\n" for number in range(100))
    found = told(ToolBegan(0, "bash", "$ x", {"command": "x"}), ToolOutput(0, output))
    assert found[2:4] == ["  … 92 lines above", "  line 92"]


def test_a_flood_of_output_costs_its_last_lines() -> None:
    story = Story()
    began_s = time.process_time()
    story.tell(ToolBegan(0, "bash", "$ yes", {"command": "yes"}))
    for _ in range(50):
        story.tell(ToolOutput(0, "y\n" * 20_000))
        lines = story.entries[-1].lines(80)
    story.fold_all(True)
    assert [line.plain for line in lines[2:4]] == ["  … 999992 lines above", "  y"]
    assert len(story.entries[-1].lines(80)) < 6000
    assert time.process_time() - began_s < 20


def test_a_change_of_a_whole_large_file_is_shown_in_part() -> None:
    diff = "--- a\n+++ b\n@@ -0,0 +1,30000 @@\n" + "+x\n" * 30_000
    events = (ToolBegan(0, "write", "Writing a", {}), ToolEnded(0, "write", "written", False, 0.1, diff))
    assert told(*events)[-1] == "  … 1958 more lines (Ctrl+O)"
    assert told(*events, is_open=True)[-2:] == ["   … 28003 more lines", "  written"]


def test_a_failure_says_why() -> None:
    assert told(
        ToolBegan(0, "read", "Reading a.py 1:500", {"path": "a.py"}),
        ToolEnded(0, "read", "Tool error: no file a.py", True, 0.0),
    ) == ["● Reading a.py 1:500  failed, 0.0 s", "  Tool error: no file a.py"]


def test_what_a_tool_read_is_counted_and_opened_on_demand() -> None:
    events = (ToolBegan(0, "read", "Reading a", {"path": "a"}), ToolEnded(0, "read", "1 x\n2 y\n3 z\n", False, 0.0))
    assert told(*events) == ["● Reading a  done, 0.0 s", "  … 3 more lines (Ctrl+O)"]
    assert told(*events, is_open=True)[1:] == ["  1 x", "  2 y", "  3 z"]


def test_an_edit_shows_its_two_sides_and_then_the_change() -> None:
    events: list[Event] = [ToolCallStarted(0, "edit"), ParameterText(0, "path", "a.py", True)]
    events += [
        ParameterText(0, "old", "def f():\n[upto]\nreturn 1\n", True),
        ParameterText(0, "new", "def g():\n    re"),
    ]
    assert told(*events) == [
        "● edit a.py  being written",
        "  - def f():",
        "  - [upto]",
        "  - return 1",
        "  + def g():",
        "  +     re",
    ]
    events += [ToolBegan(0, "edit", "Editing a.py", {}), ToolEnded(0, "edit", "edited\n…", False, 0.0, DIFF)]
    assert told(*events) == ["● Editing a.py  done, 0.0 s", "   1   same", "   2 - old [upto]", "   2 + new"]


def test_a_written_file_shows_its_last_lines_while_it_comes() -> None:
    body = "".join(f"x = {number}\n" for number in range(50))
    found = told(ToolCallStarted(0, "write"), ParameterText(0, "path", "a.py", True), ParameterText(0, "content", body))
    assert found[:3] == ["● write a.py  being written", "  … 38 lines above", "  + x = 38"]
    assert len(found) == 14


def test_parallel_calls_have_a_panel_each() -> None:
    assert told(
        ToolCallStarted(0, "list"),
        ParameterText(0, "path", "a", True),
        ToolCallFinished(0, "list", "{}"),
        ToolCallStarted(1, "list"),
        ParameterText(1, "path", "b", True),
        ToolCallFinished(1, "list", "{}"),
        AnswerEnded(AnswerEnd.CALLS, 9, 9),
        ToolBegan(0, "list", "Listing a", {}),
        ToolEnded(0, "list", "x", False, 0.0),
        ToolBegan(1, "list", "Listing b", {}),
    ) == ["● Listing a  done, 0.0 s", "● Listing b  running"]


def test_the_next_answers_calls_are_new_ones() -> None:
    assert told(
        ToolBegan(0, "list", "Listing a", {}),
        ToolEnded(0, "list", "x", False, 0.0),
        AnswerEnded(AnswerEnd.CALLS, 9, 9),
        Reading(1, 1, 9, 0.1),
        ToolCallStarted(0, "list"),
    ) == ["● Listing a  done, 0.0 s", "● list  being written"]


def test_a_call_that_is_refused_while_it_is_written_says_why() -> None:
    assert told(
        ToolCallStarted(0, "edit"),
        ParameterText(0, "path", "a.py", True),
        AnswerEnded(AnswerEnd.REFUSED, 9, 9, "old was not found"),
    ) == ["● edit a.py  not run", "  old was not found"]


def test_calls_that_cannot_be_read_are_told_once() -> None:
    said = "the answer cannot be used, which the model is told: no closing tag"
    assert told(TextDelta("x"), AnswerEnded(AnswerEnd.FAULTY, 9, 9, "no closing tag")) == ["x", f"· {said}"]


def test_a_turn_that_ends_leaves_no_call_running() -> None:
    found = told(ToolCallStarted(0, "bash"), TurnEnded(AnswerEnd.INTERRUPTED, 5))
    assert found == ["● bash  not run", "  the turn has ended"]


def test_notices_errors_and_repairs_are_lines() -> None:
    assert told(Notice("a\nb"), Notice("bad", is_error=True), Repair(RepairKind.INVALID_JSON)) == [
        "· a",
        "  b",
        "Error: bad",
        "· put right: invalid json",
    ]


def test_compaction_is_one_line_that_goes_on() -> None:
    assert told(Compacting("summary", 5, 4096), Compacting("summary", 90, 4096)) == [
        "· COMPACTING: a summary is written, 90 tokens"
    ]
    assert told(Compacting("summary", 5, 4096), Compacting("rebuild", 10, 50))[-1] == (
        "· COMPACTING: 10 of 50 tokens are read again"
    )


def test_another_session_is_parted_from_the_last_one() -> None:
    first, saved = SessionChanged("", "one", 5), SessionChanged("aaaa000011", "one", 5)
    other, new = SessionChanged("bbbb000011", "two", 9), SessionChanged("", "", 1)
    assert told(first, saved) == []
    assert told(first, saved, other)[-1] == "Session bbbb0000: two"
    assert told(first, saved, other, new)[-1] == "New session"


def test_models_cannot_write_to_the_terminal_anywhere() -> None:
    bad = "\x1b]0;owned\x07\u202e"
    events = (
        TurnBegan(bad),
        ReasoningDelta(bad),
        TextDelta(bad),
        ToolCallStarted(0, f"bash{bad}"),
        ParameterText(0, f"a{bad}", bad, True),
        ToolCallStarted(1, "bash"),
        ParameterText(1, "command", bad, True),
        ToolCallStarted(2, "write"),
        ParameterText(2, "path", bad, True),
        ParameterText(2, "content", bad + "\n" + bad),
        ToolBegan(1, "bash", bad, {}),
        ToolOutput(1, bad),
        ToolEnded(1, "bash", bad, True, 0.1, f"@@ -1 +1 @@\n-{bad}\n+{bad}\n"),
        AnswerEnded(AnswerEnd.FAULTY, 1, 1, bad),
        Notice(bad),
        SessionChanged("a", bad, 1),
        SessionChanged("b", bad, 1),
    )
    text = "".join(told(*events, is_open=True))
    assert "owned" in text
    assert not set(text) & set("\x1b\x07\u202e")


def test_for_ears_there_are_words_instead_of_signs() -> None:
    found = told(
        ReasoningDelta("x"),
        TextDelta("- a"),
        ToolBegan(0, "bash", "$ x", {"command": "x"}),
        ToolEnded(0, "bash", "failed", True, 0.5),
        is_plain=True,
    )
    assert found == ["Thought", "- a", "Tool bash  failed, 0.5 s", "  $ x", "  failed"]


def test_only_the_newest_entries_are_kept() -> None:
    story = Story()
    for number in range(story_module.MOST_ENTRIES + 10):
        story.tell(Notice(str(number)))
    assert len(story.entries) < story_module.MOST_ENTRIES
    assert "/history" in story.entries[0].lines(80)[0].plain
    assert story.take_changed() == 0


def test_what_has_changed_is_the_lowest_entry_that_has() -> None:
    story = Story()
    for event in (TurnBegan("x"), ToolCallStarted(0, "a"), ToolCallStarted(1, "b")):
        story.tell(event)
    assert story.take_changed() == 0
    story.tell(ToolOutput(1, "x"))
    assert story.take_changed() == 2
    story.tell(ToolOutput(0, "x"))
    story.tell(ToolOutput(1, "x"))
    assert story.take_changed() == 1
    assert story.take_changed() is None


def test_a_call_that_is_asked_about_says_that_it_waits() -> None:
    story = Story()
    story.tell(ToolBegan(0, "bash", "$ ls", {"command": "ls"}))
    story.ask(True)
    assert "waits for your answer" in story.entries[0].lines(80)[0].plain
    story.ask(False)
    assert "running" in story.entries[0].lines(80)[0].plain
