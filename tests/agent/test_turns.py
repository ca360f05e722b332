"""What is said piece by piece has the ids of the same conversation encoded as a whole."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.scripted_agent import DIALECTS
from whitedwarf.agent.turns import Turns
from whitedwarf.conversation.conversation import Conversation
from whitedwarf.conversation.message import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
from whitedwarf.conversation.thinking import Thinking
from whitedwarf.conversation.tools import ToolCall, ToolDefinition
from whitedwarf.prompt import dsml
from whitedwarf.prompt.encode import ModelVersion, encode
from whitedwarf.prompt.segments import Control, Segment, Text
from whitedwarf.prompt.special import GROUNDING_TOKENS, SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer

VERSIONS = list(ModelVersion)
TOOL = ToolDefinition("read", "Reads.", {"type": "object", "properties": {"path": {"type": "string"}}})
OTHER_TOKENS = [token.value for token in SpecialToken if token not in GROUNDING_TOKENS]
WORDS = st.lists(st.sampled_from(["a", " b", "\n", "\n\n", "1", "é", "<", "tool_result>", *OTHER_TOKENS])).map("".join)
SOME_WORDS = WORDS.filter(bool)


@dataclass(frozen=True)
class Spoken:
    """An answer, the results of its calls, and what the user says then."""

    reasoning: str
    content: str
    results: tuple[str, ...]
    user: str | None


SPOKEN = st.builds(Spoken, WORDS, WORDS, st.lists(WORDS, max_size=3).map(tuple), SOME_WORDS | st.none())


def messages_of(system: str, first: str, spoken: Sequence[Spoken]) -> list[Message]:
    messages: list[Message] = [SystemMessage(system), UserMessage(first)]
    for answer in spoken:
        calls = tuple(ToolCall(str(i), "read", f'{{"path": "{i}"}}') for i in range(len(answer.results)))
        messages.append(AssistantMessage(answer.content, answer.reasoning, calls or None))
        messages += [ToolMessage(text, str(i)) for i, text in enumerate(answer.results)]
        if answer.user is not None:
            messages.append(UserMessage(answer.user))
        elif not answer.results:
            messages.append(UserMessage("go on"))
    return messages


def told_in_pieces(
    version: ModelVersion, thinking: Thinking, system: str, first: str, spoken: Sequence[Spoken]
) -> list[list[Segment]]:
    """Each piece as it is tokenised: what is said up to an answer, the answer's start, the answer, its end."""
    turns = Turns(version)
    pieces = [[*turns.opening(system, [TOOL], thinking), *turns.user(first)]]
    for answer in spoken:
        calls = [ToolCall(str(i), "read", f'{{"path": "{i}"}}') for i in range(len(answer.results))]
        pieces.append(turns.answer_start(is_thinking=thinking.is_on))
        thought: list[Segment] = [Text(answer.reasoning), Control(SpecialToken.THINK_CLOSE)] if thinking.is_on else []
        block = dsml.calls_block(calls, DIALECTS[version]) if calls else ()
        pieces.append([*thought, Text(answer.content), *block])
        pieces.append(turns.answer_end(is_in_thought=False))
        said = turns.results(answer.results)
        if answer.user is not None:
            said += turns.user(answer.user)
        elif not answer.results:
            said += turns.user("go on")
        pieces.append(said)
    pieces.append(turns.answer_start(is_thinking=thinking.is_on))
    return pieces


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=60)
@given(st.sampled_from([Thinking.HIGH, Thinking.MAX]), SOME_WORDS, SOME_WORDS, st.lists(SPOKEN, max_size=4))
def test_pieces_are_the_whole(
    tokenizer: Tokenizer,
    version: ModelVersion,
    thinking: Thinking,
    system: str,
    first: str,
    spoken: list[Spoken],
) -> None:
    pieces = [tokenizer.encode_segments(piece) for piece in told_in_pieces(version, thinking, system, first, spoken)]
    conversation = Conversation(
        tuple(messages_of(system, first, spoken)), tools=(TOOL,), reasoning_effort=thinking.effort
    )
    whole = tokenizer.encode_segments(encode(conversation, version).segments)
    assert [token for piece in pieces for token in piece] == whole


@pytest.mark.parametrize("version", VERSIONS)
def test_without_thinking_they_are_too(version: ModelVersion, tokenizer: Tokenizer) -> None:
    spoken = [Spoken("", "Let me see.", ("1", "2"), None), Spoken("", "So.", (), "And?")]
    messages: list[Message] = [
        replace(message, reasoning=None) if isinstance(message, AssistantMessage) else message
        for message in messages_of("S", "U", spoken)
    ]
    whole = encode(Conversation(tuple(messages), is_thinking=False, tools=(TOOL,)), version)
    pieces = told_in_pieces(version, Thinking.NONE, "S", "U", spoken)
    ids = [token for piece in pieces for token in tokenizer.encode_segments(piece)]
    assert ids == tokenizer.encode_segments(whole.segments)


PIECES: dict[str, Callable[[Turns, str], list[Segment]]] = {
    "user": lambda turns, text: turns.user(text),
    "results": lambda turns, text: turns.results([text, text]),
    "instruction": lambda turns, text: turns.instruction(text),
    "opening": lambda turns, text: turns.opening(text, [], Thinking.HIGH),
    "reminder": lambda turns, text: turns.reminder(text, text, []),
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("piece", PIECES)
def test_what_is_said_never_becomes_a_control_token(version: ModelVersion, piece: str, tokenizer: Tokenizer) -> None:
    spelt = "".join(tokenizer.vocabulary.special_ids)
    special = set(tokenizer.vocabulary.special_ids.values())

    def controls(text: str) -> list[int]:
        ids = tokenizer.encode_segments(PIECES[piece](Turns(version), text))
        return [token for token in ids if token in special]

    assert controls(spelt) == controls("harmless")


@pytest.mark.parametrize("version", VERSIONS)
def test_the_results_of_a_block_stand_together_each_in_its_tags(version: ModelVersion, tokenizer: Tokenizer) -> None:
    text = tokenizer.decode(tokenizer.encode_segments(Turns(version).results(["one", "two"])))
    assert text == "<｜User｜><tool_result>one</tool_result>\n\n<tool_result>two</tool_result>"


@pytest.mark.parametrize("version", VERSIONS)
def test_words_behind_an_instruction_begin_a_turn_of_their_own(version: ModelVersion, tokenizer: Tokenizer) -> None:
    turns = Turns(version)
    said = [*turns.user("a"), *turns.instruction("b"), *turns.user("c"), *turns.user("d")]
    mark = {ModelVersion.V4: "<｜latest_reminder｜>", ModelVersion.V41: "<｜System｜>"}[version]
    assert tokenizer.decode(tokenizer.encode_segments(said)) == f"<｜User｜>a{mark}b<｜User｜>c\n\nd"


def test_an_answer_that_was_cut_in_a_thought_has_it_closed() -> None:
    turns = Turns(ModelVersion.V4)
    assert turns.answer_end(is_in_thought=True) == [Control(SpecialToken.THINK_CLOSE), Control(SpecialToken.EOS)]
    assert turns.answer_end(is_in_thought=False) == [Control(SpecialToken.EOS)]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_reminder_tells_the_tools_again_with_their_markup(version: ModelVersion, tokenizer: Tokenizer) -> None:
    opening = tokenizer.encode_segments(Turns(version).opening("S", [TOOL], Thinking.NONE))
    reminder = tokenizer.encode_segments(Turns(version).reminder("R", "S", [TOOL]))
    dsml_id = tokenizer.special_id(SpecialToken.DSML)
    assert reminder.count(dsml_id) == opening.count(dsml_id) > 0
    assert tokenizer.decode(reminder).endswith(tokenizer.decode(opening).split("S", 1)[1][-200:])
