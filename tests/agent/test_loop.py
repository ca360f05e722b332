"""The agent's turns: answers and tools by turns, the queue, interruptions, and what does not fit."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from agent.scripted_agent import PATIENCE_S, QUICK, Ear, Echo, allowing, block, call, engine_of, scripted, stage
from whitedwarf.agent.approval import Consent, Policy, Question
from whitedwarf.agent.events import (
    AnswerEnd,
    AnswerEnded,
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
from whitedwarf.agent.local_dialogue import LocalDialogue
from whitedwarf.agent.loop import Agent, merged
from whitedwarf.agent.settings import AgentSettings
from whitedwarf.agent.tool import Arguments, Effect, Outcome, Running, Toolbox, ToolError
from whitedwarf.conversation.events import TextDelta
from whitedwarf.conversation.thinking import Thinking
from whitedwarf.engine.script import ScriptedAnswer
from whitedwarf.errors import UsageError
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer


def calling(tokenizer: Tokenizer, *texts: str, name: str = "echo", **timing: float) -> ScriptedAnswer:
    return scripted(tokenizer, *block(*[call(name, text=text) for text in texts]), **timing)


def texts(ear: Ear, kind: type[Any]) -> list[str]:
    return [event.text for event in ear.of(kind)]


@pytest.mark.parametrize("version", ModelVersion)
def test_a_turn_goes_on_until_an_answer_calls_no_tool(tokenizer: Tokenizer, version: ModelVersion) -> None:
    answers = [
        scripted(tokenizer, "Let me see.", *block(call("echo", text="one"), call("echo", text="two"), version=version)),
        scripted(tokenizer, *block(call("echo", text="three"), version=version)),
        scripted(tokenizer, "Done."),
    ]
    echo = Echo()
    with stage(tokenizer, *answers, tools=[echo], version=version) as on:
        on.says("Go.")
        assert [arguments["text"] for arguments in echo.ran] == ["one", "two", "three"]
        assert [event.end for event in on.ear.of(AnswerEnded)] == [AnswerEnd.CALLS, AnswerEnd.CALLS, AnswerEnd.DONE]
        assert "".join(texts(on.ear, TextDelta)) == "Let me see.Done."
        assert texts(on.ear, ToolEnded) == ["heard one", "heard two", "heard three"]
        assert [event.index for event in on.ear.of(ToolBegan)] == [0, 1, 0]
        assert texts(on.ear, TurnBegan) == ["Go."]
        assert on.ear.events[-1] == TurnEnded(AnswerEnd.DONE, on.dialogue.used_tokens)
        assert "<tool_result>heard one</tool_result>\n\n<tool_result>heard two</tool_result>" in on.prompt(tokenizer)
        assert on.ear.threads == {"whitedwarf-agent"}


def test_every_event_of_a_turn_comes_in_its_place(tokenizer: Tokenizer) -> None:
    with stage(tokenizer, calling(tokenizer, "one"), scripted(tokenizer, "Done."), tools=[Echo()]) as on:
        on.says("Go.")
        kinds = [type(event) for event in on.ear.events if not isinstance(event, Drawn)]
        first = kinds.index(AnswerEnded)
        assert kinds[0] is TurnBegan
        assert kinds[1] is Reading
        assert kinds[first : first + 4] == [AnswerEnded, ToolBegan, ToolEnded, Reading]
        assert kinds[-2:] == [AnswerEnded, TurnEnded]


def test_there_is_no_cap_on_the_rounds(tokenizer: Tokenizer) -> None:
    answers = [*[calling(tokenizer, str(i)) for i in range(120)], scripted(tokenizer, "Done.")]
    echo = Echo()
    with stage(tokenizer, *answers, tools=[echo], context_length=100_000) as on:
        on.says("Go.")
        assert len(echo.ran) == 120
        assert on.ear.of(TurnEnded)[-1].end is AnswerEnd.DONE


def test_the_date_is_told_once_before_the_first_words(tokenizer: Tokenizer) -> None:
    settings = replace(QUICK, workspace="/work/here")
    with stage(tokenizer, scripted(tokenizer, "x"), settings=settings) as on:
        on.says("One.", "Two.")
        prompt = on.prompt(tokenizer)
        assert prompt.count("The workspace is /work/here.") == 1
        assert "You help.<｜latest_reminder｜>It is " in prompt
        on.agent.request(on.agent.new_session)
        on.says("Three.")
        assert "One." not in on.prompt(tokenizer)
        assert on.prompt(tokenizer).count("The workspace is") == 1


def test_the_systems_part_is_told_again_when_it_was_long_ago(tokenizer: Tokenizer) -> None:
    settings = replace(QUICK, reminder_after_tokens=200)
    with stage(tokenizer, scripted(tokenizer, "x"), settings=settings, tools=[Echo()]) as on:
        on.says("Short.")
        assert "A reminder" not in on.prompt(tokenizer)
        on.says("long " * 200)
        assert on.prompt(tokenizer).count("A reminder") == 1
        assert on.prompt(tokenizer).count("Says it again.") == 2
        on.says("Short.")
        assert on.prompt(tokenizer).count("A reminder") == 1


# what tools do


def test_whatever_a_tool_raises_is_a_result(tokenizer: Tokenizer) -> None:
    def raising(error: Exception) -> Callable[[Arguments, Running], Outcome]:
        def act(arguments: Arguments, running: Running) -> Outcome:
            raise error

        return act

    tools = [
        Echo("a", raising(ToolError("expected a path"))),
        Echo("b", raising(UsageError("not like this"))),
        Echo("c", raising(ZeroDivisionError("oops"))),
        Echo("d", lambda arguments, running: Outcome("half done", is_error=True)),
    ]
    names = ["a", "b", "c", "d", "nobody"]
    answers = [scripted(tokenizer, *block(*[call(name) for name in names])), scripted(tokenizer, "Done.")]
    with stage(tokenizer, *answers, tools=tools) as on:
        on.says("Go.")
        assert texts(on.ear, ToolEnded) == [
            "Tool error: expected a path",
            "Tool error: b failed: not like this",
            "Tool error: c failed: ZeroDivisionError: oops",
            "Tool error: half done",
            "Tool error: there is no tool named 'nobody'; the tools are a, b, c, d",
        ]
        assert all(event.is_error for event in on.ear.of(ToolEnded))
        assert on.ear.of(TurnEnded)[-1].end is AnswerEnd.DONE


def test_what_a_tool_shows_is_told_meanwhile(tokenizer: Tokenizer) -> None:
    def act(arguments: Arguments, running: Running) -> Outcome:
        running.tell("so far")
        return Outcome("all", diff="+x")

    with stage(tokenizer, calling(tokenizer, "x"), scripted(tokenizer, "Done."), tools=[Echo(act=act)]) as on:
        on.says("Go.")
        assert on.ear.of(ToolOutput) == [ToolOutput(0, "so far")]
        assert on.ear.of(ToolEnded)[0].diff == "+x"


def test_what_the_user_does_not_allow_is_not_run(tokenizer: Tokenizer) -> None:
    class Asked:
        def __init__(self) -> None:
            self.questions: list[Question] = []

        def ask(self, question: Question) -> Consent:
            self.questions.append(question)
            return Consent.NO if len(self.questions) == 1 else Consent.SESSION

    asked, echo = Asked(), Echo(effect=Effect.RUN)
    answers = [calling(tokenizer, "one"), calling(tokenizer, "two", "three"), scripted(tokenizer, "Done.")]
    with stage(tokenizer, *answers, tools=[echo], policy=Policy(asked)) as on:
        on.says("Go.")
        assert [arguments["text"] for arguments in echo.ran] == ["two", "three"]
        assert len(asked.questions) == 2
        assert "does not allow echo" in texts(on.ear, ToolEnded)[0]


def test_a_summary_that_breaks_hides_nothing(tokenizer: Tokenizer) -> None:
    class Nameless(Echo):
        def summary(self, arguments: Arguments) -> str:
            raise RuntimeError("no words")

    with stage(tokenizer, calling(tokenizer, "x"), scripted(tokenizer, "Done."), tools=[Nameless()]) as on:
        on.says("Go.")
        assert on.ear.of(ToolBegan)[0].summary == "echo"
        assert on.ear.of(TurnEnded)[-1].end is AnswerEnd.DONE


# answers that are refused or cannot be read


def test_a_refused_call_is_reported_behind_the_results_of_those_before_it(tokenizer: Tokenizer) -> None:
    answers = [calling(tokenizer, "fine", "bad", "never"), scripted(tokenizer, "Sorry.")]
    echo = Echo(refuses="bad")
    with stage(tokenizer, *answers, tools=[echo]) as on:
        on.says("Go.")
        assert [arguments["text"] for arguments in echo.ran] == ["fine"]
        refused = on.ear.of(AnswerEnded)[0]
        assert (refused.end, refused.fault) == (AnswerEnd.REFUSED, "text holds bad")
        told = "<tool_result>heard fine</tool_result>\n\n<tool_result>Tool error: text holds bad</tool_result>"
        assert told in on.prompt(tokenizer)
        assert on.ear.of(TurnEnded)[-1].end is AnswerEnd.DONE


def test_behind_a_call_that_changes_something_nothing_is_checked(tokenizer: Tokenizer) -> None:
    first, second = Echo("change", effect=Effect.WRITE), Echo(refuses="bad")
    pieces = block(call("change", text="x"), call("echo", text="bad"))
    with stage(tokenizer, scripted(tokenizer, *pieces), scripted(tokenizer, "Done."), tools=[first, second]) as on:
        on.says("Go.")
        assert on.ear.of(AnswerEnded)[0].end is AnswerEnd.CALLS
        assert len(second.ran) == 1


def test_a_tool_that_nobody_offers_is_refused_as_soon_as_it_is_seen(tokenizer: Tokenizer) -> None:
    answers = [calling(tokenizer, "x", name="nobody"), scripted(tokenizer, "Sorry.")]
    with stage(tokenizer, *answers, tools=[Echo()]) as on:
        on.says("Go.")
        assert on.ear.of(AnswerEnded)[0].end is AnswerEnd.REFUSED
        assert "the tools are echo" in on.prompt(tokenizer)


def test_a_preflight_that_breaks_refuses_nothing(tokenizer: Tokenizer) -> None:
    class Broken(Echo):
        def preflight(self, closed: str, arguments: Mapping[str, str]) -> None:
            raise RuntimeError("broken")

    echo = Broken()
    with stage(tokenizer, calling(tokenizer, "x"), scripted(tokenizer, "Done."), tools=[echo]) as on:
        on.says("Go.")
        assert len(echo.ran) == 1


def test_of_an_answer_that_cannot_be_read_nothing_is_run(tokenizer: Tokenizer) -> None:
    whole = block(call("echo", text="one"), call("echo", text="two"))
    answers = [scripted(tokenizer, *whole[:-9]), scripted(tokenizer, "Sorry.")]
    echo = Echo()
    with stage(tokenizer, *answers, tools=[echo]) as on:
        on.says("Go.")
        assert on.ear.of(AnswerEnded)[0].end is AnswerEnd.FAULTY
        assert echo.ran == []
        assert "cut off before it was complete. No call of this answer was run. A block of calls" in on.prompt(
            tokenizer
        )
        assert on.ear.of(TurnEnded)[-1].end is AnswerEnd.DONE


def test_a_call_inside_a_thought_goes_on_with_an_error(tokenizer: Tokenizer) -> None:
    answers = [
        scripted(tokenizer, "I think.", *block(call("echo", text="one"))),
        scripted(tokenizer, "So.", SpecialToken.THINK_CLOSE, *block(call("echo", text="two"))),
        scripted(tokenizer, "Done.", SpecialToken.THINK_CLOSE, "Done."),
    ]
    echo = Echo()
    with stage(tokenizer, *answers, tools=[echo], settings=replace(QUICK, thinking=Thinking.HIGH)) as on:
        on.says("Go.")
        assert [arguments["text"] for arguments in echo.ran] == ["two"]
        assert [event.end for event in on.ear.of(AnswerEnded)] == [AnswerEnd.FAULTY, AnswerEnd.CALLS, AnswerEnd.DONE]


# the queue


def blocking(tokenizer: Tokenizer, *later: ScriptedAnswer) -> tuple[Any, threading.Event, threading.Event]:
    """A stage on which a tool runs until it is let go, or interrupted."""
    began, go = threading.Event(), threading.Event()

    def act(arguments: Arguments, running: Running) -> Outcome:
        began.set()
        end_s = time.monotonic() + PATIENCE_S
        while not go.is_set() and not running.interrupted.is_set() and time.monotonic() < end_s:
            running.interrupted.wait(0.01)
        return Outcome("interrupted" if running.interrupted.is_set() else "waited")

    answers = [calling(tokenizer, "first", "second"), *later]
    return stage(tokenizer, *answers, tools=[Echo(act=act)]), began, go


def test_queued_words_are_said_behind_the_results(tokenizer: Tokenizer) -> None:
    on, began, go = blocking(tokenizer, scripted(tokenizer, "Done."))
    with on:
        on.agent.submit("Go.")
        assert began.wait(PATIENCE_S)
        on.agent.submit("And this.")
        on.agent.submit("And that.")
        assert on.agent.queued == ("And this.", "And that.")
        go.set()
        assert on.agent.wait_idle(PATIENCE_S)
        both = "## Message 1\n\nAnd this.\n\n## Message 2\n\nAnd that."
        assert on.prompt(tokenizer).endswith(f"<tool_result>waited</tool_result>\n\n{both}<｜Assistant｜></think>")
        assert [event.waiting for event in on.ear.of(QueueChanged)] == [("And this.", "And that."), ()]
        assert texts(on.ear, TurnBegan) == ["Go.", both]
        assert len(on.ear.of(TurnEnded)) == 1
        assert len(on.engine.received) == 2


def test_words_that_wait_for_an_answer_are_the_next_turn(tokenizer: Tokenizer) -> None:
    slow = scripted(tokenizer, "one two three four", delay_s=0.02)
    with stage(tokenizer, slow, scripted(tokenizer, "Done.")) as on:
        on.agent.submit("Go.")
        on.ear.wait_for(Drawn)
        on.agent.submit("And this.")
        assert on.agent.wait_idle(PATIENCE_S)
        assert texts(on.ear, TurnBegan) == ["Go.", "And this."]
        assert len(on.ear.of(TurnEnded)) == 2


def test_queued_words_can_be_taken_back(tokenizer: Tokenizer) -> None:
    on, began, go = blocking(tokenizer, scripted(tokenizer, "Done."))
    with on:
        assert on.agent.take_queued() is None
        on.agent.submit("Go.")
        assert began.wait(PATIENCE_S)
        on.agent.submit("first")
        on.agent.submit("second")
        assert on.agent.take_queued() == "first"
        go.set()
        assert on.agent.wait_idle(PATIENCE_S)
        assert texts(on.ear, TurnBegan) == ["Go.", "second"]
        assert on.agent.take_queued() is None


def test_several_prompts_are_numbered_and_one_is_left_alone() -> None:
    assert merged(["a"]) == "a"
    assert merged(["a", "b"]) == "## Message 1\n\na\n\n## Message 2\n\nb"


# interruption


def interrupted_at(on: Any, when: Callable[[Event], bool]) -> None:
    on.ear.on = lambda event: on.agent.interrupt() if when(event) else None


def test_interrupted_while_it_draws(tokenizer: Tokenizer) -> None:
    slow = scripted(tokenizer, "one two three four five six", delay_s=0.02)
    with stage(tokenizer, slow, scripted(tokenizer, "Yes.")) as on:
        interrupted_at(on, lambda event: isinstance(event, Drawn) and event.tokens == 2)
        on.says("Go.")
        assert on.ear.of(TurnEnded)[-1].end is AnswerEnd.INTERRUPTED
        assert "what it has said" in texts(on.ear, Notice)[-1]
        on.ear.on = lambda event: None
        on.says("Still there?")
        assert on.ear.of(TurnEnded)[-1].end is AnswerEnd.DONE
        assert "<｜end▁of▁sentence｜><｜User｜>Still there?" in on.prompt(tokenizer)


def test_interrupted_while_the_prompt_is_read(tokenizer: Tokenizer) -> None:
    with stage(tokenizer, scripted(tokenizer, "x", prefill_s=30.0), scripted(tokenizer, "Yes.")) as on:
        interrupted_at(on, lambda event: isinstance(event, Reading))
        on.says("Go.")
        assert on.ear.of(TurnEnded)[-1].end is AnswerEnd.INTERRUPTED
        assert "may know only the beginning" in texts(on.ear, Notice)[-1]
        on.ear.on = lambda event: None
        on.says("Still there?")
        assert on.prompt(tokenizer).endswith("<｜User｜>Go.\n\nStill there?<｜Assistant｜></think>")
        assert on.ear.of(TurnEnded)[-1].end is AnswerEnd.DONE


def test_interrupted_while_a_tool_runs(tokenizer: Tokenizer) -> None:
    on, began, _ = blocking(tokenizer, scripted(tokenizer, "Yes."))
    with on:
        on.agent.submit("Go.")
        assert began.wait(PATIENCE_S)
        on.agent.interrupt()
        assert on.agent.wait_idle(PATIENCE_S)
        assert on.ear.of(TurnEnded)[-1].end is AnswerEnd.INTERRUPTED
        assert texts(on.ear, ToolEnded) == [
            "interrupted",
            "Tool error: this call was not run, because the user interrupted",
        ]
        assert "results with your next words" in texts(on.ear, Notice)[-1]
        on.says("Still there?")
        assert "interrupted</tool_result>\n\n<tool_result>Tool error: this call was not run" in on.prompt(tokenizer)
        assert on.prompt(tokenizer).endswith("</tool_result>\n\nStill there?<｜Assistant｜></think>")


def test_an_interruption_sends_what_is_queued(tokenizer: Tokenizer) -> None:
    on, began, _ = blocking(tokenizer, scripted(tokenizer, "Yes."))
    with on:
        on.agent.submit("Go.")
        assert began.wait(PATIENCE_S)
        on.agent.submit("Rather this.")
        on.agent.interrupt()
        assert on.agent.wait_idle(PATIENCE_S)
        assert texts(on.ear, TurnBegan) == ["Go.", "Rather this."]
        assert [event.end for event in on.ear.of(TurnEnded)] == [AnswerEnd.INTERRUPTED, AnswerEnd.DONE]


def test_words_that_wait_behind_an_interrupted_request_are_answered(tokenizer: Tokenizer) -> None:
    with stage(tokenizer, scripted(tokenizer, "Yes.")) as on:
        begun, goes_on = threading.Event(), threading.Event()

        def work() -> None:
            begun.set()
            assert goes_on.wait(PATIENCE_S)

        on.agent.request(work)
        assert begun.wait(PATIENCE_S)
        on.agent.submit("Hello?")
        on.agent.interrupt()
        goes_on.set()
        assert on.agent.wait_idle(PATIENCE_S)
        assert [event.end for event in on.ear.of(TurnEnded)] == [AnswerEnd.DONE]


def test_an_interruption_when_idle_is_none(tokenizer: Tokenizer) -> None:
    with stage(tokenizer, scripted(tokenizer, "Yes.")) as on:
        assert on.agent.wait_idle(PATIENCE_S)
        on.agent.interrupt()
        on.says("Go.")
        assert on.ear.of(TurnEnded)[-1].end is AnswerEnd.DONE


def test_an_interruption_the_moment_words_are_sent_is_one(tokenizer: Tokenizer) -> None:
    with stage(tokenizer, scripted(tokenizer, "one two three four", delay_s=0.05)) as on:
        assert on.agent.wait_idle(PATIENCE_S)
        on.agent.submit("Go.")
        on.agent.interrupt()
        assert on.agent.wait_idle(PATIENCE_S)
        assert on.ear.of(TurnEnded)[-1].end is AnswerEnd.INTERRUPTED


# what is asked for in between


def test_requests_run_at_a_safe_point_on_the_agents_thread(tokenizer: Tokenizer) -> None:
    on, began, go = blocking(tokenizer, scripted(tokenizer, "Done."))
    ran: list[tuple[str, int]] = []
    with on:
        on.agent.submit("Go.")
        assert began.wait(PATIENCE_S)
        on.agent.request(lambda: ran.append((threading.current_thread().name, len(on.ear.of(ToolEnded)))))
        assert ran == []
        go.set()
        assert on.agent.wait_idle(PATIENCE_S)
        assert ran == [("whitedwarf-agent", 2)]
        assert len(on.ear.of(AnswerEnded)) == 2


def test_a_request_that_fails_is_a_notice(tokenizer: Tokenizer) -> None:
    def fail(error: Exception) -> Callable[[], None]:
        def work() -> None:
            raise error

        return work

    with stage(tokenizer, scripted(tokenizer, "Yes.")) as on:
        on.agent.request(fail(UsageError("not like this")))
        on.agent.request(fail(KeyError("oops")))
        assert on.agent.wait_idle(PATIENCE_S)
        assert texts(on.ear, Notice) == ["not like this", "That failed: KeyError: 'oops'"]
        on.says("Go.")
        assert on.ear.of(TurnEnded)[-1].end is AnswerEnd.DONE


# trouble


def test_an_engine_that_is_gone_ends_the_turn_with_a_notice(tokenizer: Tokenizer) -> None:
    with stage(tokenizer, scripted(tokenizer, "x")) as on:
        assert on.agent.wait_idle(PATIENCE_S)
        on.engine.close()
        on.says("Go.")
        assert on.ear.of(Notice)[-1].is_error
        assert on.ear.of(TurnEnded)[-1].end is AnswerEnd.FAULTY


def test_a_listener_that_breaks_hurts_nobody(tokenizer: Tokenizer) -> None:
    def broken(event: Event) -> None:
        raise RuntimeError("no screen")

    with stage(tokenizer, calling(tokenizer, "x"), scripted(tokenizer, "Done."), tools=[Echo()]) as on:
        on.ear.on = broken
        on.says("Go.")
        assert on.ear.of(TurnEnded)[-1].end is AnswerEnd.DONE


def test_closing_ends_what_runs_and_closes_the_tools(tokenizer: Tokenizer) -> None:
    echo = Echo()
    with stage(tokenizer, scripted(tokenizer, "x", prefill_s=30.0), tools=[echo]) as on:
        on.agent.submit("Go.")
        on.ear.wait_for(Reading)
        on.agent.submit("Never said.")
        on.agent.close()
        assert echo.closed
        assert texts(on.ear, TurnBegan) == ["Go."]
        assert on.ear.of(TurnEnded)[-1].end is AnswerEnd.INTERRUPTED
        on.agent.submit("Never said either.")
        on.agent.request(lambda: None)
        assert on.agent.wait_idle(PATIENCE_S)
        assert not on.agent.is_busy
        on.agent.close()


def test_an_agent_goes_on_with_a_dialogue_that_was_begun(tokenizer: Tokenizer) -> None:
    with engine_of(tokenizer, scripted(tokenizer, "Yes.")) as engine:
        dialogue = LocalDialogue(engine, tokenizer, ModelVersion.V4, QUICK)
        dialogue.begin("Another system.", [], "")
        dialogue.say("Earlier.")
        ear = Ear()
        agent = Agent(dialogue, Toolbox.of(), allowing(), ear, QUICK)
        try:
            agent.submit("Later.")
            assert agent.wait_idle(PATIENCE_S)
        finally:
            agent.close()
        prompt = tokenizer.decode(engine.received[-1].ids)
        assert prompt == "<｜begin▁of▁sentence｜>Another system.<｜User｜>Earlier.\n\nLater.<｜Assistant｜></think>"


def test_the_built_in_words_speak_of_the_tools_on_offer(tokenizer: Tokenizer) -> None:
    settings = AgentSettings(thinking=Thinking.NONE, extra_system="Speak Latin.")
    with stage(tokenizer, scripted(tokenizer, "x"), tools=[Echo("read")], settings=settings) as on:
        on.says("Go.")
        prompt = on.prompt(tokenizer)
        assert "coding agent" in prompt
        assert "## Reading" in prompt
        assert "[upto]" not in prompt
        assert "Speak Latin." in prompt
