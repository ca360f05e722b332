"""Esc at every phase: the session stays whole, says what happened, and goes on with the user's next words."""

import threading

import pytest

from agent.scenarios.play import SHORT, THINKING, Play, saw
from agent.scenarios.replies import THOUGHT_ENDS, begun, block, call, calls, says, slowly, tag
from agent.scripted_agent import Echo
from whitedwarf.agent.approval import Consent, Policy, Question, Rule
from whitedwarf.agent.events import (
    AnswerEnd,
    Drawn,
    ParameterText,
    QueueChanged,
    Reading,
    ToolBegan,
    ToolCallStarted,
    ToolEnded,
    TurnBegan,
)
from whitedwarf.agent.tool import Arguments, Effect, Outcome, Running
from whitedwarf.conversation.events import ReasoningDelta, TextDelta, ToolCallFinished

LONG = "one two three four five six seven eight nine ten " * 20
AGAIN = says("I am here.")


def test_while_the_prompt_is_read_the_answer_is_never_begun(play: Play) -> None:
    with play(says("Never said.", prefill_s=30), AGAIN) as scene:
        scene.interrupts_when(saw(Reading))
        scene.user("Read this.", "Are you there?")
        assert scene.turns == [AnswerEnd.INTERRUPTED, AnswerEnd.DONE]
        assert scene.notices[0].startswith("Interrupted while reading; the model may know only the beginning")
        assert scene.conversation.count("<｜Assistant｜>") == 1
        assert "Read this.\n\nAre you there?<｜Assistant｜>" in scene.conversation


def test_within_a_thought_the_thought_and_the_answer_are_closed(play: Play) -> None:
    with play(says(slowly(LONG), delay_ms=3), says("So.", THOUGHT_ENDS, "Yes."), settings=THINKING) as scene:
        scene.interrupts_when(saw(ReasoningDelta, text="three"))
        scene.user("Think.", "And?")
        assert scene.turns == [AnswerEnd.INTERRUPTED, AnswerEnd.DONE]
        assert "</think><｜end▁of▁sentence｜><｜User｜>And?" in scene.told()
        assert scene.notices[0] == "Interrupted; the model knows what it has said so far."


def test_within_the_text_what_was_said_stays(play: Play) -> None:
    with play(says(slowly(LONG), delay_ms=3), AGAIN) as scene:
        scene.interrupts_when(saw(TextDelta, text="three"))
        scene.user("Count.", "Stop?")
        assert scene.turns == [AnswerEnd.INTERRUPTED, AnswerEnd.DONE]
        assert "one two three" in scene.told()
        assert "<｜end▁of▁sentence｜><｜User｜>Stop?" in scene.told()


def test_within_the_head_of_a_call_nothing_is_run(play: Play) -> None:
    opened = says("\n\n", tag("calls"), "\n", tag("invoke", ' name="echo"'), *(["\n"] * 200), delay_ms=3)
    echo = Echo()
    with play(opened, AGAIN, tools=[echo]) as scene:
        scene.interrupts_when(saw(ToolCallStarted))
        scene.user("Echo.", "Are you there?")
        assert scene.turns == [AnswerEnd.INTERRUPTED, AnswerEnd.DONE]
        assert echo.ran == []


def test_within_a_value_nothing_is_written(play: Play) -> None:
    with play(says(begun("write", "content", "x", path="a.txt"), slowly(LONG), delay_ms=3), AGAIN) as scene:
        scene.interrupts_when(saw(ParameterText, parameter="content", text="four"))
        scene.user("Write.", "Are you there?")
        assert scene.turns == [AnswerEnd.INTERRUPTED, AnswerEnd.DONE]
        assert not scene.path("a.txt").exists()
        assert scene.results == []


def test_behind_a_whole_call_that_is_not_closed_the_call_is_not_run(play: Play) -> None:
    opened = says(
        "\n\n", tag("calls"), "\n", call("write", path="a.txt", content="x").pieces, *(["\n"] * 200), delay_ms=3
    )
    with play(opened, AGAIN) as scene:
        scene.interrupts_when(saw(ToolCallFinished))
        scene.user("Write.", "Are you there?")
        assert not scene.path("a.txt").exists()
        assert scene.turns == [AnswerEnd.INTERRUPTED, AnswerEnd.DONE]
        assert "<tool_result>Tool error: this call was not run, because the user interrupted" in scene.told()


def test_while_a_tool_runs_it_ends_and_the_other_calls_are_not_run_and_all_is_told(play: Play) -> None:
    def waits(arguments: Arguments, running: Running) -> Outcome:
        running.tell("waiting")
        assert running.interrupted.wait(60)
        return Outcome("stopped early")

    slow, echo = Echo("slow", waits), Echo()
    with play(calls(call("slow"), call("echo", text="two")), AGAIN, tools=[slow, echo]) as scene:
        scene.when(saw(ToolBegan, name="slow"), lambda: threading.Timer(0.05, scene.agent.interrupt).start())
        scene.user("Do both.")
        assert scene.turns == [AnswerEnd.INTERRUPTED]
        assert echo.ran == []
        scene.user("And now?")
        told = scene.told()
        assert "<tool_result>stopped early</tool_result>" in told
        assert "<tool_result>Tool error: this call was not run, because the user interrupted</tool_result>" in told
        assert told.endswith("And now?<｜Assistant｜></think>")


def test_a_search_ends_at_once(play: Play) -> None:
    files = {f"{number}.txt": "x\n" * 50 for number in range(30)}
    with play(calls(call("search", query="(x+)+y", mode="regex")), AGAIN, files=files) as scene:
        scene.path("slow.txt").write_text("x" * 5000 + "\n")
        scene.when(saw(ToolBegan, name="search"), lambda: threading.Timer(0.2, scene.agent.interrupt).start())
        scene.user("Search.")
        assert "[not everything was searched: the user interrupted it]" in scene.results[0]
        assert scene.turns == [AnswerEnd.INTERRUPTED]


class Waiting:
    """Somebody who is asked and does not answer until the turn is interrupted."""

    def __init__(self, answer: Consent = Consent.NO) -> None:
        self.asked: list[Question] = []
        self.interrupted = threading.Event()
        self._answer = answer

    def ask(self, question: Question) -> Consent:
        self.asked.append(question)
        assert self.interrupted.wait(60)
        return self._answer


@pytest.mark.parametrize("consent", [Consent.NO, Consent.ONCE])
def test_while_a_question_is_open_the_call_is_not_run(play: Play, consent: Consent) -> None:
    somebody = Waiting(consent)
    policy = Policy(somebody, dict.fromkeys(Effect, Rule.ASK))
    with play(calls(call("write", path="a.txt", content="x")), AGAIN, policy=policy) as scene:

        def interrupt() -> None:
            scene.agent.interrupt()
            somebody.interrupted.set()

        scene.when(saw(ToolBegan, name="write"), lambda: threading.Timer(0.05, interrupt).start())
        scene.user("Write.")
        assert len(somebody.asked) == 1
        assert not scene.path("a.txt").exists()
        assert scene.turns == [AnswerEnd.INTERRUPTED]


def test_words_that_queue_are_said_after_the_interruption(play: Play) -> None:
    with play(says(slowly(LONG), delay_ms=3), AGAIN) as scene:
        scene.says_when(saw(TextDelta, text="two"), "What I meant.")
        scene.interrupts_when(saw(TextDelta, text="four"))
        scene.user("Count.")
        assert scene.users_words == ["Count.", "What I meant."]
        assert scene.turns == [AnswerEnd.INTERRUPTED, AnswerEnd.DONE]
        assert scene.queues[-1] == ()


def test_twice_at_once_is_as_once(play: Play) -> None:
    with play(says(slowly(LONG), delay_ms=3), AGAIN) as scene:
        scene.when(saw(TextDelta, text="two"), lambda: [scene.agent.interrupt() for _ in range(3)])
        scene.user("Count.", "Stop?")
        assert scene.turns == [AnswerEnd.INTERRUPTED, AnswerEnd.DONE]


def test_when_nothing_is_done_it_does_nothing(play: Play) -> None:
    with play(AGAIN) as scene:
        scene.agent.interrupt()
        scene.user("Are you there?")
        scene.agent.interrupt()
        assert scene.turns == [AnswerEnd.DONE]


def test_right_when_the_users_words_are_said_nothing_is_read(play: Play) -> None:
    with play(AGAIN) as scene:
        scene.interrupts_when(saw(TurnBegan))
        scene.user("Do it.", "Are you there?")
        assert scene.turns == [AnswerEnd.INTERRUPTED, AnswerEnd.DONE]
        assert len(scene.engine.received) == 1
        assert "Do it.\n\nAre you there?" in scene.told()


def test_between_two_answers_of_a_turn_the_results_wait_for_the_next_words(play: Play) -> None:
    echo = Echo()
    with play(calls(call("echo", text="one")), AGAIN, tools=[echo]) as scene:
        scene.interrupts_when(saw(ToolEnded))
        scene.user("Echo.")
        assert scene.turns == [AnswerEnd.INTERRUPTED]
        scene.user("And now?")
        assert "<tool_result>heard one</tool_result>\n\nAnd now?<｜Assistant｜>" in scene.told()


@pytest.mark.parametrize("after", range(0, 40, 4))
def test_after_any_number_of_tokens_all_promises_hold(play: Play, after: int) -> None:
    """A thought, words and two calls, interrupted wherever it is."""
    parts = [
        slowly("I think of it"),
        THOUGHT_ENDS,
        slowly("Let me look at it"),
        block(call("echo", text="1 2"), call("list")),
    ]
    with play(says(*parts, delay_ms=8), says("ok", THOUGHT_ENDS, "Here."), tools=[Echo()], settings=THINKING) as scene:
        scene.interrupts_when(saw(Drawn, tokens=after + 1))
        scene.user("Go.", "And?")
        assert scene.turns[-1] is AnswerEnd.DONE
        assert scene.said.endswith("Here.")


def test_closing_ends_everything_at_once(play: Play) -> None:
    with play(says(slowly(LONG), delay_ms=3)) as scene:
        scene.agent.submit("Count.")
        scene.wait_for(saw(TextDelta, text="two"))
        scene.agent.submit("Never said.")
        scene.agent.close()
        scene.agent.close()
        assert scene.users_words == ["Count."]
        assert scene.turns == [AnswerEnd.INTERRUPTED]


def test_what_is_queued_is_told_while_it_waits(play: Play) -> None:
    with play(says(slowly(LONG), delay_ms=3), AGAIN, settings=SHORT) as scene:
        scene.says_when(saw(TextDelta, text="two"), "first")
        scene.says_when(saw(TextDelta, text="three"), "second")
        scene.user("Count.")
        assert [event.waiting for event in scene.of(QueueChanged)] == [("first",), ("first", "second"), ()]
