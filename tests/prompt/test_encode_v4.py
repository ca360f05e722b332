"""The parts of a V4 prompt that the command line puts together itself, and its three thinking modes."""

import pytest

from whitedwarf.conversation.conversation import Conversation
from whitedwarf.conversation.message import AssistantMessage, Message, SystemMessage, UserMessage
from whitedwarf.conversation.thinking import Thinking
from whitedwarf.prompt.encode_v4 import answer_start, encode, opening, user_turn
from whitedwarf.prompt.segments import Text
from whitedwarf.prompt.tokenizer import Tokenizer


def conversation(thinking: Thinking, *messages: Message) -> Conversation:
    return Conversation(messages, is_thinking=thinking.is_on, reasoning_effort=thinking.effort)


@pytest.mark.parametrize("thinking", Thinking)
def test_the_parts_may_be_tokenised_one_by_one(nano: Tokenizer, thinking: Thinking) -> None:
    system, user = SystemMessage("Be brief."), UserMessage("Hi there")
    parts = [opening(conversation(thinking, system)), user_turn("Hi there"), answer_start(is_thinking=thinking.is_on)]
    whole = encode(conversation(thinking, system, user))
    assert [token for part in parts for token in nano.encode_segments(part)] == nano.encode_segments(whole.segments)


def test_neighbouring_texts_are_tokenised_as_one(nano: Tokenizer) -> None:
    assert nano.encode_segments([Text("ano"), Text(""), Text("ther")]) == nano.encode("another")
    assert nano.encode_segments([Text(""), Text("")]) == []


def test_earlier_thoughts_are_shown_only_beside_tools_or_in_a_prefix() -> None:
    asked, answered = UserMessage("a"), AssistantMessage("b", reasoning="hidden")
    assert "hidden" not in encode(Conversation((asked, answered, asked))).rendered().text
    begun = AssistantMessage("b", reasoning="hidden", is_prefix=True)
    assert encode(Conversation((asked, begun))).rendered().text.endswith("<think>hidden</think>b")


@pytest.mark.parametrize(
    ("context", "expected"), [(393_215, Thinking.HIGH), (393_216, Thinking.MAX), (1 << 20, Thinking.MAX)]
)
def test_max_thinking_needs_a_large_context(context: int, expected: Thinking) -> None:
    assert Thinking.MAX.within(context) is expected
    assert Thinking.HIGH.within(context) is Thinking.HIGH
    assert Thinking.NONE.within(context) is Thinking.NONE
