"""The line of state says what matters at every width, and nothing by colour alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whitedwarf.agent.events import (
    AnswerEnd,
    AnswerEnded,
    Compacting,
    Drawn,
    Event,
    Reading,
    SessionChanged,
    ToolBegan,
    ToolCallStarted,
    ToolEnded,
    TurnBegan,
    TurnEnded,
)
from whitedwarf.agent.tui.activity import Activity, Phase
from whitedwarf.agent.tui.status_line import head_line, status_line
from whitedwarf.conversation.events import ReasoningDelta, TextDelta


def after(*events: Event) -> Activity:
    activity = Activity()
    for event in events:
        activity = activity.after(event)
    return activity


def line(activity: Activity, width: int = 100, *, power: int = 100, is_plain: bool = False, **more: object) -> str:
    return status_line(
        activity,
        context=100_000,
        compact_at=0.85,
        power=power,
        width=width,
        is_plain=is_plain,
        **more,  # type: ignore[arg-type]
    ).plain


READING = after(TurnBegan("x"), Reading(500, 2000, 10_000, 2.0))


def test_reading_has_a_bar_a_speed_and_the_time_that_is_left() -> None:
    assert [part.rstrip() for part in line(READING).split("ctx ")] == [
        "reading ▕█████               ▏ 500/2k 25% · 250 t/s · 6.0 s left",
        "10.5k/100k ▕▉       ▏ 10%",
    ]


def test_in_little_room_reading_keeps_its_percentage() -> None:
    assert line(READING, 40).startswith("reading 25% · 250 t/s")
    assert line(READING, 26).startswith("reading ")


def test_nothing_read_yet_has_no_speed() -> None:
    assert "t/s" not in line(after(Reading(0, 2000, 0, 0.0)))
    assert "reading" in line(after(Reading(0, 0, 0, 0.0)))


def test_drawing_counts_tokens_and_shows_when_nothing_is_left_to_chance() -> None:
    drawing = after(Reading(10, 10, 0, 1.0), TextDelta("x"), Drawn(50, 2.0))
    assert line(drawing).startswith("answering · 50 tokens · 25.0 t/s  ")
    greedy = drawing.after(ToolCallStarted(0, "edit")).after(Drawn(60, 2.5, is_greedy=True))
    assert line(greedy).startswith("writing a call · 60 tokens · 24.0 t/s · ❄ greedy")
    assert line(greedy, 40).startswith("writing a call")


def test_thinking_and_waiting_texts_are_told() -> None:
    from dataclasses import replace

    thinking = replace(after(ReasoningDelta("x"), Drawn(5, 1.0)), waiting=("a", "b"))
    assert line(thinking).startswith("thinking · 5 tokens · 5.0 t/s · 2 queued")


def test_a_running_tool_is_named_and_timed_when_it_takes_long() -> None:
    running = after(ToolBegan(0, "bash", "$ make", {}))
    assert line(running, elapsed_s=1.0).startswith("running bash  ")
    assert line(running, elapsed_s=75.0).startswith("running bash · 1:15")
    assert after(ToolBegan(0, "a", "", {}), ToolEnded(0, "a", "", False, 0.1)).phase is Phase.STARTING


def test_compaction_says_what_it_does() -> None:
    assert line(after(Compacting("summary", 100, 4096))).startswith("COMPACTING · writing a summary · 100/4.1k tokens")
    assert line(after(Compacting("rebuild", 5000, 12_000))).startswith("COMPACTING · reading the rest again · 5k/12k")


def test_after_a_compaction_the_context_holds_what_was_read_again() -> None:
    full = after(TurnEnded(AnswerEnd.DONE, 90_000), Compacting("summary", 100, 4096))
    assert full.used_tokens == 90_000
    assert full.after(Compacting("rebuild", 500, 12_000)).used_tokens == 12_000


def test_the_end_of_a_turn_is_ready_or_interrupted() -> None:
    assert line(after(TurnEnded(AnswerEnd.DONE, 500))).startswith("ready ")
    assert line(after(TurnEnded(AnswerEnd.INTERRUPTED, 500))).startswith("interrupted ")
    assert line(after(TurnEnded(AnswerEnd.INTERRUPTED, 500), TurnBegan("x"))).startswith("starting ")


def test_the_context_warns_in_words_before_it_is_shortened() -> None:
    assert "76%  " not in line(after(TurnEnded(AnswerEnd.DONE, 76_000)))
    assert line(after(TurnEnded(AnswerEnd.DONE, 74_000))).endswith("74%")
    assert line(after(TurnEnded(AnswerEnd.DONE, 76_000))).endswith("76% compacts soon")
    assert line(after(TurnEnded(AnswerEnd.DONE, 76_000)), 80).endswith("76%!")


def test_power_is_shown_below_a_hundred() -> None:
    assert "⚡ power 60%" in line(Activity(), power=60)
    assert "⚡60%" in line(Activity(), 40, power=60)
    assert "power" not in line(Activity())


def test_a_question_and_a_hint_take_the_place_of_the_state() -> None:
    assert line(READING, is_asking=True).startswith("waiting for your answer")
    assert line(READING, hint="copied", is_asking=True).startswith("copied ")


def test_for_ears_the_line_stays_the_same_while_the_phase_does() -> None:
    first = after(TurnBegan("x"), TextDelta("x"), Drawn(5, 0.2))
    assert line(first, is_plain=True, elapsed_s=1.0).startswith("answering  ")
    assert not set(line(READING, is_plain=True)) & set("▕▏█❄⚡·")


@given(st.integers(1, 220), st.integers(0, 100_000), st.sampled_from(list(Phase)), st.booleans(), st.integers(1, 100))
def test_it_is_never_wider_than_the_terminal(width: int, used: int, phase: Phase, is_plain: bool, power: int) -> None:
    activity = Activity(phase=phase, used_tokens=used, done=used, total=100_000, tokens=used, seconds=3.0, tool="bash")
    found = status_line(activity, context=100_000, compact_at=0.85, power=power, width=width, is_plain=is_plain)
    assert found.cell_length <= width


def test_what_is_used_grows_while_the_model_reads_and_draws() -> None:
    reading = after(Reading(500, 2000, 10_000, 1.0))
    assert reading.used_tokens == 10_500
    assert reading.after(TextDelta("x")).after(Drawn(40, 1.0)).used_tokens == 12_040
    assert reading.after(AnswerEnded(AnswerEnd.DONE, 40, 12_050)).used_tokens == 12_050


@pytest.mark.parametrize("width", [20, 40, 59, 60, 80, 200])
def test_the_head_line_fits_and_begins_with_the_title(width: int) -> None:
    content = head_line("DeepSeek V4 Flash", "/home/ada/a/long/way/down", "A title that is rather long for this", width)
    assert content.cell_length <= width
    assert content.plain.startswith(" A title")


def test_a_session_without_a_title_is_new() -> None:
    assert head_line("m", "/w", "", 80).plain.startswith(" new session")


def test_a_new_session_was_not_interrupted() -> None:
    ended = TurnEnded(AnswerEnd.INTERRUPTED, 5)
    assert line(after(ended)).startswith("interrupted")
    assert line(after(ended, SessionChanged("", "", 0))).startswith("ready")
