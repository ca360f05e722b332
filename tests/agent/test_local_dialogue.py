"""A conversation in this process: what is said, drawn and closed stands in the transcript, and is read once."""

import itertools
import threading
from collections.abc import Callable
from typing import Any

import pytest

from agent.scripted_agent import PATIENCE_S, QUICK, Ear, NoChecks, block, call, engine_of, scripted, segments_of
from fakes.models import FakeModel
from whitedwarf.agent.dialogue import Answer, Call, Result
from whitedwarf.agent.events import AnswerEnd, Compacting, Drawn, ParameterText, Reading
from whitedwarf.agent.local_dialogue import LocalDialogue
from whitedwarf.agent.settings import AgentSettings
from whitedwarf.conversation.events import ReasoningDelta, TextDelta, ToolCallFinished
from whitedwarf.conversation.thinking import Thinking
from whitedwarf.conversation.tools import ToolDefinition
from whitedwarf.engine.engine import Engine
from whitedwarf.engine.request import FinishReason, GenerateOptions
from whitedwarf.engine.script import ScriptedAnswer
from whitedwarf.engine.scripted import ScriptedEngine
from whitedwarf.errors import BackendError, Cancelled, ContextOverflowError, EngineClosedError
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.segments import Control, Text
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer

TOOL = ToolDefinition("read", "Reads a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
THOUGHTFUL = AgentSettings(thinking=Thinking.HIGH)
DSML, CLOSE = SpecialToken.DSML, SpecialToken.THINK_CLOSE


def begun(
    tokenizer: Tokenizer,
    *answers: ScriptedAnswer,
    settings: AgentSettings = QUICK,
    version: ModelVersion = ModelVersion.V4,
    context_length: int = 16_384,
) -> tuple[LocalDialogue, ScriptedEngine]:
    engine = engine_of(tokenizer, *answers, context_length=context_length)
    dialogue = LocalDialogue(engine, tokenizer, version, settings)
    dialogue.begin("You help.", [TOOL], "")
    return dialogue, engine


def asked(dialogue: LocalDialogue, ear: Ear | None = None, checks: NoChecks | None = None, tokens: int = 500) -> Answer:
    dialogue.say("Go on.")
    return dialogue.answer(ear or Ear(), checks or NoChecks(), tokens)


def said(dialogue: LocalDialogue, tokenizer: Tokenizer) -> str:
    """All of the transcript behind the opening."""
    return tokenizer.decode(dialogue.transcript.ids[dialogue.opening_length :].tolist())


@pytest.mark.parametrize("version", ModelVersion)
def test_an_answer_is_told_and_stands_in_the_transcript_as_it_was_drawn(
    tokenizer: Tokenizer, version: ModelVersion
) -> None:
    pieces = ["I look.", CLOSE, "Well.", *block(call("read", path="a.py"), version=version)]
    dialogue, engine = begun(tokenizer, scripted(tokenizer, *pieces), settings=THOUGHTFUL, version=version)
    ear = Ear()
    with engine:
        answer = asked(dialogue, ear)
    assert answer.end is AnswerEnd.CALLS
    assert (answer.reasoning, answer.text) == ("I look.", "Well.")
    assert answer.calls == (Call("read", {"path": "a.py"}),)
    drawn = tokenizer.encode_segments(segments_of(pieces))
    assert answer.tokens == len(drawn) == ear.of(Drawn)[-1].tokens
    assert dialogue.transcript.ids[-len(drawn) - 1 :].tolist() == [*drawn, tokenizer.special_id(SpecialToken.EOS)]
    assert dialogue.used_tokens == len(dialogue.transcript)
    assert "".join(event.text for event in ear.of(ReasoningDelta)) == "I look."
    assert "".join(event.text for event in ear.of(ParameterText)) == "a.py"
    assert [event.name for event in ear.of(ToolCallFinished)] == ["read"]


def test_markup_is_drawn_greedily_and_told_so(tokenizer: Tokenizer) -> None:
    dialogue, engine = begun(tokenizer, scripted(tokenizer, "Well.", *block(call("read", path="a.py"))))
    ear = Ear()
    with engine:
        asked(dialogue, ear)
    greedy = [event.is_greedy for event in ear.of(Drawn)]
    assert greedy[0] is False
    assert True in greedy


def test_what_is_read_is_told_with_what_was_known(tokenizer: Tokenizer) -> None:
    dialogue, engine = begun(tokenizer, scripted(tokenizer, "One."), scripted(tokenizer, "Two."))
    first, second = Ear(), Ear()
    with engine:
        asked(dialogue, first)
        before = len(dialogue.transcript)
        asked(dialogue, second)
    assert first.of(Reading)[0].reused == 0
    last = second.of(Reading)[-1]
    assert last.reused == before - 1  # all but the end of the answer, which the engine never ran
    assert last.done == last.total == len(engine.received[-1].ids) - last.reused


def test_used_tokens_are_exact_before_anything_is_read(tokenizer: Tokenizer) -> None:
    dialogue, engine = begun(tokenizer, scripted(tokenizer, "One."))
    with engine:
        dialogue.report([Result(Call("read", {}), "text")])
        dialogue.say("And?")
        used = dialogue.used_tokens
        assert used == len(dialogue.transcript) == dialogue.used_tokens
        dialogue.answer(Ear(), NoChecks(), 100)
    assert len(engine.received[0].ids) == used + 2


# how answers end


def test_a_refused_parameter_ends_the_answer_exactly_there(tokenizer: Tokenizer) -> None:
    pieces = block(call("read", path="a.py", old="no", new="never written"))
    dialogue, engine = begun(tokenizer, scripted(tokenizer, *pieces))
    checks = NoChecks(refused={"old": "old does not occur in a.py"})
    with engine:
        answer = asked(dialogue, checks=checks)
        assert (answer.end, answer.fault, answer.calls) == (AnswerEnd.REFUSED, "old does not occur in a.py", ())
        assert checks.asked == [("read", "path", {"path": "a.py"}), ("read", "old", {"path": "a.py", "old": "no"})]
        assert "never" not in said(dialogue, tokenizer)
        assert said(dialogue, tokenizer).endswith("no</｜DSML｜<｜end▁of▁sentence｜>")
        assert engine.received[0].finish is FinishReason.STOP
        dialogue.report([], "Tool error: no")
        assert said(dialogue, tokenizer).endswith("<｜User｜><tool_result>Tool error: no</tool_result>")


def test_calls_before_a_refused_one_are_kept(tokenizer: Tokenizer) -> None:
    pieces = block(call("read", path="a.py"), call("read", old="no"))
    dialogue, engine = begun(tokenizer, scripted(tokenizer, *pieces))
    with engine:
        answer = asked(dialogue, checks=NoChecks(refused={"old": "no"}))
    assert (answer.end, answer.calls) == (AnswerEnd.REFUSED, (Call("read", {"path": "a.py"}),))


WHOLE = block(call("read", path="a.py"))
FAULTS: dict[str, tuple[list[Any], str]] = {
    "cut off in a value": ([*WHOLE[:6], Text('a" string="true">x')], "cut off"),
    "cut off in a name": (WHOLE[:4], "cut off"),
    "only opened": (WHOLE[:3], "cut off"),
    "written as text": (
        ['Look:\n<DSML｜tool_calls>\n<DSML｜invoke name="read">\n</DSML｜invoke>\n</DSML｜tool_calls>\n'],
        "as text",
    ),
    "written as text, with bars": (
        ['<｜DSML｜ calls>\n<｜DSML｜ invoke name="read">\n</｜DSML｜ invoke>\n</｜DSML｜ calls>'],
        "as text",
    ),
    "an empty block": ([*WHOLE[:3], Text("</"), Control(DSML), Text("tool_calls>")], "no call"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_block_that_is_none_is_a_fault(tokenizer: Tokenizer, name: str) -> None:
    pieces, fault = FAULTS[name]
    dialogue, engine = begun(tokenizer, scripted(tokenizer, *pieces))
    with engine:
        answer = asked(dialogue)
    assert answer.end is AnswerEnd.FAULTY
    assert fault in answer.fault
    assert said(dialogue, tokenizer).endswith("<｜end▁of▁sentence｜>")


@pytest.mark.parametrize("version", ModelVersion)
def test_a_call_inside_a_thought_ends_the_answer_and_the_model_is_told_how_calls_look(
    tokenizer: Tokenizer, version: ModelVersion
) -> None:
    pieces = ["I call.", *block(call("read", path="a.py"), version=version), CLOSE, "Never drawn."]
    dialogue, engine = begun(tokenizer, scripted(tokenizer, *pieces), settings=THOUGHTFUL, version=version)
    with engine:
        answer = asked(dialogue)
        assert (answer.end, answer.calls) == (AnswerEnd.FAULTY, ())
        assert "inside the thinking" in answer.fault
        assert said(dialogue, tokenizer).endswith('invoke name="read">\n</think><｜end▁of▁sentence｜>')
        before = dialogue.transcript.ids.tolist()
        dialogue.report([], answer.fault)
        told = dialogue.transcript.ids[len(before) :].tolist()
    assert tokenizer.special_id(DSML) not in told
    word = {ModelVersion.V4: "tool_calls>", ModelVersion.V41: " calls>"}[version]
    assert f"<｜DSML｜{word}" in tokenizer.decode(told)


def test_a_block_without_its_opener_is_understood(tokenizer: Tokenizer) -> None:
    dialogue, engine = begun(tokenizer, scripted(tokenizer, "Well.\n\n", *WHOLE[3:]))
    with engine:
        answer = asked(dialogue)
    assert (answer.end, answer.calls) == (AnswerEnd.CALLS, (Call("read", {"path": "a.py"}),))


def test_an_endless_call_is_ended(tokenizer: Tokenizer) -> None:
    pieces = [*WHOLE[:6], Text('parameter name="a" string="true">' + " the" * 33_000)]
    dialogue, engine = begun(tokenizer, scripted(tokenizer, *pieces), context_length=100_000)
    with engine:
        answer = asked(dialogue, tokens=90_000)
    assert answer.end is AnswerEnd.FAULTY
    assert "smaller parts" in answer.fault


def test_an_answer_that_may_not_go_on_is_closed(tokenizer: Tokenizer) -> None:
    dialogue, engine = begun(tokenizer, scripted(tokenizer, "I think and think."), settings=THOUGHTFUL)
    with engine:
        answer = asked(dialogue, tokens=3)
    assert (answer.end, answer.tokens) == (AnswerEnd.LENGTH, 3)
    assert said(dialogue, tokenizer).endswith("</think><｜end▁of▁sentence｜>")


def test_a_call_that_is_longer_than_an_answer_may_be_is_a_fault_the_model_is_told(tokenizer: Tokenizer) -> None:
    dialogue, engine = begun(tokenizer, scripted(tokenizer, *block(call("write", content="word " * 500))))
    with engine:
        answer = asked(dialogue, tokens=100)
    assert (answer.end, answer.tokens) == (AnswerEnd.FAULTY, 100)
    assert "cut off" in answer.fault


def test_a_call_for_which_the_context_has_no_room_ends_the_turn(tokenizer: Tokenizer) -> None:
    pieces = block(call("write", content="word " * 5000))
    dialogue, engine = begun(tokenizer, scripted(tokenizer, *pieces), context_length=1000)
    with engine:
        answer = asked(dialogue, tokens=50_000)
    assert (answer.end, answer.fault) == (AnswerEnd.LENGTH, "")


def test_a_full_context_leaves_room_to_close_the_answer(tokenizer: Tokenizer) -> None:
    dialogue, engine = begun(tokenizer, scripted(tokenizer, "word " * 5000), settings=THOUGHTFUL, context_length=1000)
    with engine:
        answer = asked(dialogue, tokens=5000)
        assert answer.end is AnswerEnd.LENGTH
        assert dialogue.used_tokens <= 1000
        used = dialogue.used_tokens
        with pytest.raises(ContextOverflowError, match="/compact"):
            asked(dialogue)
        assert dialogue.used_tokens > used  # the words are still said


def test_an_engine_that_is_gone_leaves_the_conversation_whole(tokenizer: Tokenizer) -> None:
    dialogue, engine = begun(tokenizer, scripted(tokenizer, "x"))
    engine.close()
    with pytest.raises(EngineClosedError):
        asked(dialogue)
    assert said(dialogue, tokenizer) == "<｜User｜>Go on."


def test_a_check_that_breaks_is_an_error_and_the_answer_is_closed(tokenizer: Tokenizer) -> None:
    class Broken(NoChecks):
        def closed(self, tool: str, parameter: str, arguments: Any) -> None:
            raise RuntimeError("broken")

    dialogue, engine = begun(tokenizer, scripted(tokenizer, *WHOLE))
    with engine, pytest.raises(BackendError):
        asked(dialogue, checks=Broken())
    assert said(dialogue, tokenizer).endswith("a.py</｜DSML｜<｜end▁of▁sentence｜>")


def test_a_model_that_fails_in_an_answer_leaves_the_conversation_whole(tokenizer: Tokenizer) -> None:
    passes = itertools.count()

    def fail_once(spans: object) -> None:
        if next(passes) == 4:
            raise RuntimeError("a bit fell over")

    model = FakeModel(vocab_size=tokenizer.vocab_size, context_length=4096, before_forward=fail_once)
    with Engine(model) as engine:
        dialogue = LocalDialogue(engine, tokenizer, ModelVersion.V4, QUICK)
        dialogue.begin("You help.", [], "")
        dialogue.say("Go.")
        with pytest.raises(BackendError, match="a bit fell over"):
            dialogue.answer(Ear(), NoChecks(), 9)
        ids = dialogue.transcript.ids.tolist()
        assert ids[-1] == tokenizer.special_id(SpecialToken.EOS)
        ear = Ear()
        dialogue.say("Again.")
        assert dialogue.answer(ear, NoChecks(), 3).tokens <= 3
        assert ear.of(Reading)[0].reused == 0  # what failed is not trusted
        assert dialogue.transcript.ids[: len(ids)].tolist() == ids


# interruption


def interrupting(dialogue: LocalDialogue, when: Callable[[Any], bool]) -> Ear:
    return Ear(on=lambda event: dialogue.interrupt() if when(event) else None)


def test_an_answer_that_is_interrupted_keeps_what_was_drawn_and_is_closed(tokenizer: Tokenizer) -> None:
    slow = scripted(tokenizer, "one two three four five six seven", delay_s=0.02)
    dialogue, engine = begun(tokenizer, slow)
    ear = interrupting(dialogue, lambda event: isinstance(event, Drawn) and event.tokens == 3)
    with engine:
        answer = asked(dialogue, ear)
    assert answer.end is AnswerEnd.INTERRUPTED
    assert answer.tokens >= 3
    drawn = engine.received[0].generated_ids
    assert dialogue.transcript.ids[-len(drawn) - 1 :].tolist() == [*drawn, tokenizer.special_id(SpecialToken.EOS)]
    assert answer.text == "".join(event.text for event in ear.of(TextDelta))


def test_an_answer_that_is_interrupted_while_the_prompt_is_read_never_began(tokenizer: Tokenizer) -> None:
    dialogue, engine = begun(tokenizer, scripted(tokenizer, "x", prefill_s=30.0), scripted(tokenizer, "Yes."))
    ear = interrupting(dialogue, lambda event: isinstance(event, Reading))
    with engine:
        answer = asked(dialogue, ear)
        assert (answer.end, answer.tokens) == (AnswerEnd.INTERRUPTED, 0)
        assert said(dialogue, tokenizer) == "<｜User｜>Go on."
        assert asked(dialogue).text == "Yes."
    assert said(dialogue, tokenizer).startswith("<｜User｜>Go on.\n\nGo on.<｜Assistant｜></think>Yes.")


@pytest.mark.parametrize(("settings", "closing"), [(QUICK, "</think>"), (THOUGHTFUL, "<think></think>")])
def test_an_answer_whose_beginning_was_read_is_closed_though_nothing_was_drawn(
    tokenizer: Tokenizer, settings: AgentSettings, closing: str
) -> None:
    dialogue, engine = begun(tokenizer, scripted(tokenizer, "x", delay_s=30.0), settings=settings)
    ear = interrupting(dialogue, lambda event: isinstance(event, Reading) and event.done == event.total)
    with engine:
        answer = asked(dialogue, ear)
    assert (answer.end, answer.tokens) == (AnswerEnd.INTERRUPTED, 0)
    assert said(dialogue, tokenizer) == f"<｜User｜>Go on.<｜Assistant｜>{closing}<｜end▁of▁sentence｜>"


def test_without_an_answer_in_hand_there_is_nothing_to_interrupt(tokenizer: Tokenizer) -> None:
    dialogue, engine = begun(tokenizer, scripted(tokenizer, "Yes."))
    with engine:
        dialogue.interrupt()
        assert asked(dialogue).end is AnswerEnd.DONE
        dialogue.interrupt()


def test_an_interruption_may_come_from_another_thread(tokenizer: Tokenizer) -> None:
    dialogue, engine = begun(tokenizer, scripted(tokenizer, "x", prefill_s=30.0))
    ear = Ear()
    dialogue.say("Go.")
    answers: list[Answer] = []
    thread = threading.Thread(target=lambda: answers.append(dialogue.answer(ear, NoChecks(), 9)))
    with engine:
        thread.start()
        ear.wait_for(Reading)
        dialogue.interrupt()
        thread.join(PATIENCE_S)
    assert [answer.end for answer in answers] == [AnswerEnd.INTERRUPTED]


# summaries


def long_talk(tokenizer: Tokenizer, *more: ScriptedAnswer, turns: int = 4) -> tuple[LocalDialogue, ScriptedEngine]:
    dialogue, engine = begun(tokenizer, *[scripted(tokenizer, f"Answer {i}.") for i in range(turns)], *more)
    for _ in range(turns):
        asked(dialogue)
    return dialogue, engine


@pytest.mark.parametrize("ending", ["", CLOSE, DSML], ids=["end", "thought", "call"])
def test_a_summary_leaves_no_trace(tokenizer: Tokenizer, ending: str | SpecialToken) -> None:
    dialogue, engine = long_talk(tokenizer, scripted(tokenizer, " In short.\n", ending, "Never."[: len(ending)]))
    with engine:
        before = dialogue.transcript.ids.tolist()
        ear = Ear()
        assert dialogue.summarise("Sum it up.", 100, ear) == "In short."
        assert dialogue.transcript.ids.tolist() == before
        assert ear.of(Compacting)[-1].step == "summary"
    request = engine.received[-1]
    assert request.options.sampling.is_greedy
    assert tokenizer.decode(request.ids).endswith("<｜User｜>Sum it up.<｜Assistant｜></think>")


def test_shortening_keeps_the_opening_the_summary_and_the_end_from_the_next_words_on(tokenizer: Tokenizer) -> None:
    dialogue, engine = long_talk(tokenizer, scripted(tokenizer, "S"))
    with engine:
        opening = dialogue.transcript.ids[: dialogue.opening_length].tolist()
        one_turn = dialogue.transcript.ids[dialogue.transcript.places(tokenizer.special_id(SpecialToken.USER))[-1] :]
        ear = Ear()
        dialogue.shorten("[summary]", len(one_turn) + 3, ear)
        ids = dialogue.transcript.ids.tolist()
        assert ids[: len(opening)] == opening
        assert ids[-len(one_turn) :] == one_turn.tolist()
        middle = tokenizer.decode(ids[len(opening) : -len(one_turn)])
        assert middle == "<｜latest_reminder｜>[summary]"
        assert [event.step for event in ear.of(Compacting)][-1] == "rebuild"
        reader = Ear()
        asked(dialogue, reader)
        assert reader.of(Reading)[0].reused == len(ids)  # the rebuilt part was read already


def test_shortening_to_nothing_but_the_summary_goes_on(tokenizer: Tokenizer) -> None:
    dialogue, engine = long_talk(tokenizer, scripted(tokenizer, "S"))
    with engine:
        dialogue.shorten("[summary]", 0, Ear())
        asked(dialogue)
    assert said(dialogue, tokenizer).startswith("<｜latest_reminder｜>[summary]<｜User｜>Go on.")


@pytest.mark.parametrize("step", ["summary", "rebuild"])
def test_an_interrupted_compaction_keeps_the_old_conversation(tokenizer: Tokenizer, step: str) -> None:
    slow = scripted(tokenizer, "one two three four five", delay_s=0.02, prefill_s=0.0 if step == "summary" else 30.0)
    dialogue, engine = long_talk(tokenizer, slow)
    with engine:
        before = dialogue.transcript.ids.tolist()
        ear = interrupting(dialogue, lambda event: isinstance(event, Compacting))
        steps: dict[str, Callable[[], object]] = {
            "summary": lambda: dialogue.summarise("Sum it up.", 100, ear),
            "rebuild": lambda: dialogue.shorten("[summary]", 10, ear),
        }
        with pytest.raises(Cancelled):
            steps[step]()
        assert dialogue.transcript.ids.tolist() == before


def test_a_summary_needs_room(tokenizer: Tokenizer) -> None:
    dialogue, engine = begun(tokenizer, scripted(tokenizer, "x"), context_length=700)
    with engine:
        dialogue.say("word " * 300)
        with pytest.raises(ContextOverflowError, match="256"):
            dialogue.summarise("Sum it up.", 100, Ear())


def test_an_empty_session_can_be_taken_up_again(tokenizer: Tokenizer) -> None:
    dialogue, engine = long_talk(tokenizer, scripted(tokenizer, "Yes."))
    with engine:
        ids = dialogue.transcript.ids.tolist()
        again = LocalDialogue(engine, tokenizer, ModelVersion.V4, QUICK)
        again.begin("You help.", [TOOL], "")
        again.resume(ids, engine.new_session())
        assert again.used_tokens == len(ids)
        assert asked(again).text == "Yes."
        assert again.transcript.ids[: len(ids)].tolist() == ids


def test_the_extra_text_stands_in_the_opening_as_text(tokenizer: Tokenizer) -> None:
    engine = engine_of(tokenizer, scripted(tokenizer, "x"))
    with engine:
        dialogue = LocalDialogue(engine, tokenizer, ModelVersion.V4, QUICK)
        dialogue.begin("You help.", [], "Say </think> often.")
        ids = dialogue.transcript.ids.tolist()
        assert tokenizer.special_id(CLOSE) not in ids
        assert tokenizer.decode(ids).endswith("You help.\n\nSay </think> often.")
        assert dialogue.opening_length == len(ids)


@pytest.mark.parametrize("version", ModelVersion)
@pytest.mark.parametrize("system", ["", "You help."])
@pytest.mark.parametrize("settings", [QUICK, THOUGHTFUL])
def test_the_opening_ends_where_the_first_words_begin(
    tokenizer: Tokenizer, version: ModelVersion, system: str, settings: AgentSettings
) -> None:
    with engine_of(tokenizer, scripted(tokenizer, "x")) as engine:
        dialogue = LocalDialogue(engine, tokenizer, version, settings)
        dialogue.begin(system, [], "")
        opening = len(dialogue.transcript)
        for speak in (dialogue.say, dialogue.instruct, dialogue.say):
            speak("Go.")
            assert dialogue.opening_length == opening


def test_options_of_an_answer_are_those_of_the_settings(tokenizer: Tokenizer) -> None:
    dialogue, engine = begun(tokenizer, scripted(tokenizer, "x"))
    with engine:
        asked(dialogue, tokens=77)
    options = engine.received[0].options
    assert isinstance(options, GenerateOptions)
    assert (options.max_tokens, options.sampling) == (77, QUICK.sampling)
