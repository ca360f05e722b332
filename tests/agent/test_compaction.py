"""The context is shortened when it has to be, and what does not fit all the same is replaced or refused."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.scripted_agent import PATIENCE_S, QUICK, Echo, Stage, block, call, scripted, stage
from whitedwarf.agent.compact import (
    MAX_SUMMARY_TOKENS,
    SUMMARY_REQUEST,
    needs_compaction,
    summary_note,
    tail_tokens,
)
from whitedwarf.agent.events import AnswerEnd, Compacting, Notice, ToolEnded, TurnBegan, TurnEnded
from whitedwarf.agent.tool import Outcome
from whitedwarf.agent.tools.standard import standard_tools
from whitedwarf.agent.workspace import Workspace
from whitedwarf.engine.script import ScriptedAnswer
from whitedwarf.prompt.tokenizer import Tokenizer

CONTEXT = 3200


def filler(tokens: int) -> str:
    """About so many tokens."""
    return " the" * tokens


def answers(tokenizer: Tokenizer, *texts: str) -> list[ScriptedAnswer]:
    return [scripted(tokenizer, text) for text in texts]


def notices(on: Stage) -> list[str]:
    return [event.text for event in on.ear.of(Notice)]


@given(st.integers(0, 200_000), st.integers(1024, 200_000))
def test_a_context_is_full_by_its_share_or_by_what_is_left(used: int, context: int) -> None:
    free = context - used
    expected = used >= 0.85 * context or free <= min(8192, context // 4)
    assert needs_compaction(used, context) is expected
    assert needs_compaction(context, context)


def test_the_tail_is_a_tenth_but_not_more_than_fifty_thousand() -> None:
    assert (tail_tokens(100_000), tail_tokens(1_000_000)) == (10_000, 50_000)


def test_a_full_context_is_shortened_before_the_next_words(tokenizer: Tokenizer) -> None:
    script = answers(tokenizer, filler(2400), "The user said one.", "never drawn", "Two, then.")
    with stage(tokenizer, *script, context_length=CONTEXT) as on:
        on.says("One.", "Two.")
        prompt = on.prompt(tokenizer)
        assert filler(2400) not in prompt
        assert "<｜latest_reminder｜>" + summary_note("The user said one.") in prompt
        assert prompt.endswith("<｜User｜>Two.<｜Assistant｜></think>")
        assert {event.step for event in on.ear.of(Compacting)} == {"summary", "rebuild"}
        assert "was shortened from" in notices(on)[0]
        requested = on.prompt(tokenizer, -3)
        assert requested.endswith(f"<｜User｜>{SUMMARY_REQUEST}<｜Assistant｜></think>")
        assert on.engine.received[-3].options.max_tokens <= MAX_SUMMARY_TOKENS
        assert on.ear.of(TurnEnded)[-1].end is AnswerEnd.DONE


def test_a_context_is_shortened_once_for_results_that_do_not_fit(tokenizer: Tokenizer) -> None:
    echo = Echo(act=lambda arguments, running: Outcome(filler(1200)))
    script = [
        *answers(tokenizer, filler(1700)),
        scripted(tokenizer, *block(call("echo", text="x"))),
        *answers(tokenizer, "Summary.", "never drawn", "Done."),
    ]
    with stage(tokenizer, *script, tools=[echo], context_length=CONTEXT) as on:
        on.says("One.", "Two.")
        prompt = on.prompt(tokenizer)
        assert f"<tool_result>Tool result 1 (echo):\n{filler(1200)}</tool_result>" in prompt
        assert summary_note("Summary.") in prompt
        assert on.ear.of(TurnEnded)[-1].end is AnswerEnd.DONE


def test_what_does_not_fit_even_then_is_an_error_that_asks_for_less(tokenizer: Tokenizer) -> None:
    sizes = iter([3000, 5])
    echo = Echo(act=lambda arguments, running: Outcome(filler(next(sizes))))
    script = [
        scripted(tokenizer, *block(call("echo", text="x"), call("echo", text="y"))),
        *answers(tokenizer, "Summary.", "never drawn", "Done."),
    ]
    with stage(tokenizer, *script, tools=[echo], context_length=CONTEXT) as on:
        on.says("One.")
        prompt = on.prompt(tokenizer)
        assert "Tool error: the result has 30" in prompt
        assert "ask for a smaller part" in prompt
        assert (
            f"<tool_result>Tool result 2 (echo):\n{filler(5)}</tool_result>" in prompt
        )  # only what is too large is replaced
        assert filler(3000) == on.ear.of(ToolEnded)[0].text  # the user has seen it
        assert on.ear.of(TurnEnded)[-1].end is AnswerEnd.DONE


def test_more_results_than_can_ever_fit_do_not_end_the_session(tokenizer: Tokenizer) -> None:
    echo = Echo(act=lambda arguments, running: Outcome(filler(100)))
    script = [
        scripted(tokenizer, *block(*[call("echo", text="x")] * 44)),
        *answers(tokenizer, "Summary.", "never drawn", "Done.", "Summary.", "never drawn", "Yes."),
    ]
    with stage(tokenizer, *script, tools=[echo], context_length=CONTEXT) as on:
        on.says("One.")
        assert "calls are left out, because the context has no room" in on.prompt(tokenizer)
        on.says("Two?")
        assert [event.end for event in on.ear.of(TurnEnded)] == [AnswerEnd.DONE] * 2


def test_an_answer_that_fills_the_context_leaves_room_for_a_summary(tokenizer: Tokenizer) -> None:
    script = answers(tokenizer, filler(20_000), "It counted.", "never drawn", "Yes.")
    with stage(tokenizer, *script, context_length=8192) as on:
        on.says("Count.")
        assert on.ear.of(TurnEnded)[-1].end is AnswerEnd.LENGTH
        on.says("Go on.")
        assert summary_note("It counted.") in on.prompt(tokenizer)
        assert on.ear.of(TurnEnded)[-1].end is AnswerEnd.DONE


def test_words_that_never_fit_are_not_said(tokenizer: Tokenizer) -> None:
    with stage(tokenizer, *answers(tokenizer, "Fine."), context_length=CONTEXT) as on:
        on.says(filler(5000))
        assert on.ear.of(TurnBegan) == []
        assert "not sent" in notices(on)[-1]
        assert on.ear.of(Compacting) == []  # nothing could be dropped
        on.says("Short.")
        assert on.ear.of(TurnEnded)[-1].end is AnswerEnd.DONE


def test_compaction_can_be_asked_for(tokenizer: Tokenizer) -> None:
    with stage(tokenizer, *answers(tokenizer, "Hello.", "Greetings.", "never drawn", "Yes.")) as on:
        on.says("Hi.")
        on.agent.request(on.agent.compact)
        on.says("Still there?")
        assert summary_note("Greetings.") in on.prompt(tokenizer)


@pytest.mark.parametrize("step", ["summary", "rebuild"])
def test_interrupted_while_it_is_shortened_nothing_is_lost(tokenizer: Tokenizer, step: str) -> None:
    slow = scripted(tokenizer, "one two three four", delay_s=0.02, prefill_s=0.0)
    stuck = scripted(tokenizer, "x", prefill_s=30.0)
    steps = [slow] if step == "summary" else [*answers(tokenizer, "Summary."), stuck]
    script = [*answers(tokenizer, filler(2400)), *steps, *answers(tokenizer, "Yes.")]
    with stage(tokenizer, *script, context_length=CONTEXT) as on:
        on.says("One.")
        on.ear.on = lambda event: on.agent.interrupt() if isinstance(event, Compacting) and event.step == step else None
        on.says("Two.")
        assert "stays as it was" in notices(on)[0]
        assert on.ear.of(TurnEnded)[-1].end is AnswerEnd.INTERRUPTED
        assert filler(2400) in tokenizer.decode(on.dialogue.transcript.ids.tolist())
        assert tokenizer.decode(on.dialogue.transcript.ids.tolist()).endswith("<｜User｜>Two.")


def test_an_interruption_just_before_the_summary_is_asked_for_is_one(tokenizer: Tokenizer) -> None:
    slow = scripted(tokenizer, "one two three four", delay_s=0.02)
    script = [*answers(tokenizer, "Hello."), slow, *answers(tokenizer, "never read"), *answers(tokenizer, "Yes.")]
    with stage(tokenizer, *script, context_length=CONTEXT) as on:
        on.says("One.")
        kept = on.dialogue.ids.tolist()
        on.ear.on = lambda event: on.agent.interrupt() if isinstance(event, Compacting) and not event.done else None
        on.agent.request(on.agent.compact)
        assert on.agent.wait_idle(PATIENCE_S)
        assert on.dialogue.ids.tolist() == kept


def test_results_are_reported_though_the_shortening_was_interrupted(tokenizer: Tokenizer) -> None:
    echo = Echo(act=lambda arguments, running: Outcome(filler(1200)))
    script = [
        *answers(tokenizer, filler(1700)),
        scripted(tokenizer, *block(call("echo", text="x"))),
        scripted(tokenizer, "one two three four", delay_s=0.02),
    ]
    with stage(tokenizer, *script, tools=[echo], context_length=CONTEXT) as on:
        on.says("One.")
        on.ear.on = lambda event: on.agent.interrupt() if isinstance(event, Compacting) else None
        on.says("Two.")
        assert on.ear.of(TurnEnded)[-1].end is AnswerEnd.INTERRUPTED
        said = tokenizer.decode(on.dialogue.transcript.ids.tolist())
        assert said.endswith("ask for a smaller part of its output</tool_result>")


def test_a_model_without_a_summary_drops_nothing(tokenizer: Tokenizer) -> None:
    script = answers(tokenizer, filler(2400), " ", "Two, then.")
    with stage(tokenizer, *script, context_length=CONTEXT) as on:
        on.says("One.", "Two.")
        assert "no summary" in notices(on)[0]
        assert filler(2400) in tokenizer.decode(on.dialogue.transcript.ids.tolist())


def test_the_reminder_counts_anew_behind_a_summary(tokenizer: Tokenizer) -> None:
    settings = replace(QUICK, reminder_after_tokens=700)
    script = answers(tokenizer, filler(600), "Summary.", "never drawn", "x")
    with stage(tokenizer, *script, settings=settings) as on:
        on.says("One.")
        on.agent.request(on.agent.compact)
        on.says("Two.")
        assert "A reminder" not in on.prompt(tokenizer)


def test_a_session_in_which_nothing_was_answered_is_not_made_longer(tokenizer: Tokenizer) -> None:
    with stage(tokenizer, *answers(tokenizer, "never drawn")) as on:
        assert on.agent.wait_idle(PATIENCE_S)
        before = on.dialogue.used_tokens
        on.agent.request(on.agent.compact)
        assert on.agent.wait_idle(PATIENCE_S)
        assert notices(on) == ["there is nothing to shorten: the model has said nothing yet, or nothing since then"]
        assert on.dialogue.used_tokens == before
        assert not on.engine.received


def test_a_reminder_never_fills_the_context(tokenizer: Tokenizer) -> None:
    settings = replace(QUICK, system=filler(800), reminder_after_tokens=1000)
    script = answers(tokenizer, filler(600), "Two.", "Three.")
    with stage(tokenizer, *script, context_length=CONTEXT, settings=settings) as on:
        on.says("One.", filler(700), "Three?")
        assert [event.end for event in on.ear.of(TurnEnded)] == [AnswerEnd.DONE] * 3
        assert "A reminder" not in on.prompt(tokenizer)


def test_jobs_that_run_are_told_behind_the_summary(tokenizer: Tokenizer, tmp_path: Path) -> None:
    bash = standard_tools(Workspace(tmp_path)).tools["bash"]
    assert bash.standing() == ""
    script = [
        scripted(tokenizer, *block(call("bash", command="sleep 30", refresh_sec=1))),
        *answers(tokenizer, "It sleeps.", "Summary.", "never drawn", "Yes."),
    ]
    with stage(tokenizer, *script, tools=[bash]) as on:
        on.says("Sleep.")
        on.agent.request(on.agent.compact)
        on.says("Still there?")
        prompt = on.prompt(tokenizer)
        assert prompt.index("[End of the summary.]") < prompt.index("job 1, pid ")
        assert "'sleep 30'<｜User｜>Still there?" in prompt


def test_a_short_context_that_cannot_be_made_shorter_is_said_to_be_so(tokenizer: Tokenizer) -> None:
    script = answers(tokenizer, "One.", "A summary that is longer than all that was said.", "never drawn")
    with stage(tokenizer, *script, context_length=CONTEXT) as on:
        on.says("Hi.")
        on.agent.request(on.agent.compact)
        assert on.agent.wait_idle(20)
        assert "could not be made shorter" in notices(on)[-1]
