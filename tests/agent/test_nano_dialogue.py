"""A conversation with the bundled model: nothing is read twice, and the session's state is the transcript."""

from collections.abc import Callable

import pytest

from agent.scripted_agent import Ear, NoChecks
from whitedwarf.agent.dialogue import Call, Result
from whitedwarf.agent.events import AnswerEnd, Compacting, Drawn, Reading
from whitedwarf.agent.local_dialogue import LocalDialogue
from whitedwarf.agent.settings import AgentSettings
from whitedwarf.conversation.conversation import Conversation
from whitedwarf.conversation.message import AssistantMessage, SystemMessage, UserMessage
from whitedwarf.conversation.thinking import Thinking
from whitedwarf.conversation.tools import ToolDefinition
from whitedwarf.engine.engine import Engine
from whitedwarf.engine.request import GenerateOptions, SamplingOptions
from whitedwarf.errors import Cancelled
from whitedwarf.prompt.encode import ModelVersion, encode
from whitedwarf.prompt.parse_options import ParseOptions, ParseStart
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.protocol.call_guide import CallGuide

TOOL = ToolDefinition(
    "create_file",
    "Create or overwrite a file.",
    {
        "type": "object",
        "properties": {"filePath": {"type": "string"}, "content": {"type": "string"}},
        "required": ["filePath", "content"],
    },
)
SYSTEM = "You are an AI assistant running on the user's computer."
GREEDY = SamplingOptions(temperature=0.0)


def begun(engine: Engine, tokenizer: Tokenizer, thinking: Thinking = Thinking.NONE) -> LocalDialogue:
    settings = AgentSettings(thinking=thinking, sampling=GREEDY)
    dialogue = LocalDialogue(engine, tokenizer, ModelVersion.V4, settings)
    dialogue.begin(SYSTEM, [TOOL], "")
    return dialogue


@pytest.mark.parametrize("thinking", [Thinking.NONE, Thinking.HIGH])
def test_later_turns_read_no_old_token(nano_engine: Engine, tokenizer: Tokenizer, thinking: Thinking) -> None:
    dialogue = begun(nano_engine, tokenizer, thinking)
    known = 0
    for words in ('Make a file a.txt containing "one two"', "Thank you.", "What is 2 + 3?"):
        dialogue.say(words)
        ear = Ear()
        answer = dialogue.answer(ear, NoChecks(), 200)
        assert answer.end in (AnswerEnd.DONE, AnswerEnd.CALLS)
        first, last = ear.of(Reading)[0], ear.of(Reading)[-1]
        assert first.reused >= known
        assert last.done == last.total
        known = dialogue.session.position  # all that was run: at most the last token drawn was not
        ids = dialogue.transcript.ids.tolist()
        assert dialogue.session.ids == ids[:known]
        assert known >= len(ids) - 2
        if answer.calls:
            dialogue.report([Result(answer.calls[0], "wrote 7 bytes")])
            known = dialogue.session.position


def test_an_answer_is_what_the_same_prompt_as_a_whole_gives(nano_engine: Engine, tokenizer: Tokenizer) -> None:
    dialogue = begun(nano_engine, tokenizer)
    dialogue.say("What is 2 + 3?")
    first = dialogue.answer(Ear(), NoChecks(), 100)
    dialogue.say("And 4 + 1?")
    second = dialogue.answer(Ear(), NoChecks(), 100)
    whole = Conversation(
        (SystemMessage(SYSTEM), UserMessage("What is 2 + 3?"), AssistantMessage(first.text), UserMessage("And 4 + 1?")),
        is_thinking=False,
        tools=(TOOL,),
    )
    ids = tokenizer.encode_segments(encode(whole, ModelVersion.V4).segments)
    assert dialogue.transcript.ids[: len(ids)].tolist() == ids
    fresh = begun(nano_engine, tokenizer)
    fresh.resume(ids[:-2], nano_engine.new_session())
    assert fresh.answer(Ear(), NoChecks(), 100).text == second.text


@pytest.mark.parametrize("thinking", [Thinking.NONE, Thinking.HIGH])
@pytest.mark.parametrize("words", ['Make a file a.log containing "one two"', "What is 7 + 5?", "Thank you!"])
def test_it_draws_what_the_server_would(
    nano_engine: Engine, tokenizer: Tokenizer, thinking: Thinking, words: str
) -> None:
    """The agent itself loses nothing: the same prompt, the same steering, the same tokens."""
    conversation = Conversation(
        (SystemMessage(SYSTEM), UserMessage(words)),
        is_thinking=thinking.is_on,
        tools=(TOOL,),
        reasoning_effort=thinking.effort,
    )
    prompt = tokenizer.encode_segments(encode(conversation, ModelVersion.V4).segments)
    start = ParseStart.REASONING if thinking.is_on else ParseStart.CONTENT
    eos = tokenizer.special_id(SpecialToken.EOS)
    options = GenerateOptions(max_tokens=150, stop_ids=frozenset({eos}), sampling=GREEDY)
    guide = CallGuide(tokenizer, ParseOptions(start=start))
    drawn = nano_engine.submit(prompt, options, guide=guide).result().ids
    dialogue = begun(nano_engine, tokenizer, thinking)
    dialogue.say(words)
    dialogue.answer(Ear(), NoChecks(), 150)
    ids = dialogue.transcript.ids.tolist()
    assert ids[: len(prompt) + len(drawn)] == [*prompt, *drawn]


def test_nano_calls_a_tool(nano_engine: Engine, tokenizer: Tokenizer) -> None:
    dialogue = begun(nano_engine, tokenizer)
    dialogue.say('Make a file pattern.log containing "teacher boat driver"')
    checks = NoChecks()
    answer = dialogue.answer(Ear(), checks, 200)
    expected = {"filePath": "pattern.log", "content": "teacher boat driver"}
    assert answer.calls == (Call("create_file", expected),)
    assert [parameter for _, parameter, _ in checks.asked] == ["filePath", "content"]


def test_an_interrupted_answer_is_gone_on_with(nano_engine: Engine, tokenizer: Tokenizer) -> None:
    dialogue = begun(nano_engine, tokenizer)
    dialogue.say('Make a file pattern.log containing "teacher boat driver"')
    ear = Ear(on=lambda event: dialogue.interrupt() if isinstance(event, Drawn) and event.tokens == 5 else None)
    answer = dialogue.answer(ear, NoChecks(), 200)
    assert answer.end is AnswerEnd.INTERRUPTED
    known = dialogue.session.position
    dialogue.say("Hello?")
    after = Ear()
    dialogue.answer(after, NoChecks(), 50)
    assert after.of(Reading)[0].reused == known


def test_an_interrupted_reading_keeps_what_was_read(nano_engine: Engine, tokenizer: Tokenizer) -> None:
    dialogue = begun(nano_engine, tokenizer)
    dialogue.say("word " * 3000)
    ear = Ear(on=lambda event: dialogue.interrupt() if isinstance(event, Reading) and event.done else None)
    answer = dialogue.answer(ear, NoChecks(), 50)
    assert (answer.end, answer.tokens) == (AnswerEnd.INTERRUPTED, 0)
    known = dialogue.session.position
    assert 0 < known < dialogue.used_tokens
    dialogue.say("And that was all.")
    after = Ear()
    dialogue.answer(after, NoChecks(), 20)
    assert after.of(Reading)[0].reused == known


def test_a_summary_and_a_shorter_session(nano_engine: Engine, tokenizer: Tokenizer) -> None:
    dialogue = begun(nano_engine, tokenizer)
    for _ in range(3):
        dialogue.say("What is 2 + 3?")
        dialogue.answer(Ear(), NoChecks(), 50)
    before = dialogue.transcript.ids.tolist()
    dialogue.summarise("Sum up what was said.", 30, Ear())
    assert dialogue.transcript.ids.tolist() == before
    ear = Ear()
    dialogue.shorten("[The user asked for sums.]", 40, ear)
    assert dialogue.used_tokens < len(before)
    assert ear.of(Compacting)[-1].done == ear.of(Compacting)[-1].total == dialogue.session.position
    known, after = dialogue.session.position, Ear()
    dialogue.say("What is 2 + 3?")
    dialogue.answer(after, NoChecks(), 50)
    assert after.of(Reading)[0].reused == known


def talked(engine: Engine, tokenizer: Tokenizer, turns: int = 3) -> LocalDialogue:
    dialogue = begun(engine, tokenizer)
    for _ in range(turns):
        dialogue.say("What is 2 + 3?")
        dialogue.answer(Ear(), NoChecks(), 50)
    return dialogue


@pytest.mark.parametrize("step", ["summary", "rebuild"])
def test_an_interrupted_compaction_costs_nothing_that_was_read(
    nano_engine: Engine, tokenizer: Tokenizer, step: str
) -> None:
    dialogue = talked(nano_engine, tokenizer)
    known, before = dialogue.session.position, dialogue.transcript.ids.tolist()
    ear = Ear(on=lambda event: dialogue.interrupt() if isinstance(event, Compacting) else None)
    steps: dict[str, Callable[[], object]] = {
        "summary": lambda: dialogue.summarise("Sum up what was said. " * 20, 300, ear),
        "rebuild": lambda: dialogue.shorten("[The user asked for sums.] " * 40, 40, ear),
    }
    with pytest.raises(Cancelled):
        steps[step]()
    assert dialogue.transcript.ids.tolist() == before
    after = Ear()
    dialogue.say("What is 2 + 3?")
    dialogue.answer(after, NoChecks(), 50)
    assert after.of(Reading)[0].reused == known


def test_a_summary_costs_the_conversation_nothing_and_no_bit(nano_engine: Engine, tokenizer: Tokenizer) -> None:
    plain, interrupted = talked(nano_engine, tokenizer), talked(nano_engine, tokenizer)
    known = interrupted.session.position
    interrupted.summarise("Sum up what was said.", 40, Ear())
    answers = []
    for dialogue in (plain, interrupted):
        ear = Ear()
        dialogue.say('Make a file a.txt containing "one two"')
        answers.append(dialogue.answer(ear, NoChecks(), 100))
        assert ear.of(Reading)[0].reused == known
    assert answers[0] == answers[1]


def test_a_shorter_session_begins_with_an_opening_that_was_read_alone(
    nano_engine: Engine, tokenizer: Tokenizer
) -> None:
    dialogue = begun(nano_engine, tokenizer)
    opening = dialogue.transcript.ids.tolist()
    nano_engine.submit(opening, GenerateOptions(max_tokens=0), session=dialogue.session).result()
    ear = Ear()
    dialogue.say("What is 2 + 3?")
    dialogue.answer(ear, NoChecks(), 50)
    assert ear.of(Reading)[0].reused == len(opening)
    again = Ear()
    dialogue.shorten("[Sums.]", 0, again)
    assert again.of(Compacting)[0].done == len(opening)
    dialogue.say("What is 2 + 3?")
    assert dialogue.answer(Ear(), NoChecks(), 50).end is AnswerEnd.DONE


def test_what_another_session_knew_of_the_opening_is_not_believed(nano_engine: Engine, tokenizer: Tokenizer) -> None:
    dialogue = begun(nano_engine, tokenizer)
    opening = dialogue.transcript.ids.tolist()
    nano_engine.submit(opening, GenerateOptions(max_tokens=0), session=dialogue.session).result()
    dialogue.say("What is 2 + 3?")
    dialogue.answer(Ear(), NoChecks(), 50)
    dialogue.session = nano_engine.new_session()  # as when the model is steered otherwise
    dialogue.say("What is 2 + 3?")
    dialogue.answer(Ear(), NoChecks(), 50)
    again = Ear()
    dialogue.shorten("[Sums.]", 0, again)
    assert again.of(Compacting)[0].done == 0
