"""Chunks of several choices, numbered, with one usage."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.answer_runs import IDENTITY
from whitedwarf.conversation.events import Finished, FinishReason, ReasoningDelta, TextDelta
from whitedwarf.protocol.choice_chunks import ChoiceChunks, added_usage
from whitedwarf.protocol.converted import ChatReply, PromptUsage
from whitedwarf.protocol.openai_chat.stream import ChatStream


def alone(number: int, reply: ChatReply, cached: int = 0) -> list[Any]:
    """What a stream tells of a choice that says its number."""
    stream = ChatStream(IDENTITY, reply)
    said = [ReasoningDelta("r", (0, 1))] if reply.is_thinking else []
    begun = stream.begin(PromptUsage(10, cached))
    end = Finished(FinishReason.STOP, None, 3 + number, len(said))
    return begun + stream.take([*said, TextDelta(f"I am {number}", (1, 2)), end])


@given(st.integers(1, 8), st.booleans(), st.booleans(), st.booleans(), st.randoms())
def test_in_any_order_each_choice_is_whole_and_usage_comes_once_and_last(
    num: int, thinks: bool, has_chunk: bool, omits: bool, random: Any
) -> None:
    reply = ChatReply(is_thinking=thinks, usage_chunk=has_chunk, omits_null_usage=omits)
    waiting = {number: alone(number, reply) for number in range(num)}
    plain = {number: list(chunks) for number, chunks in waiting.items()}
    chunks, sent = ChoiceChunks(num), []
    while any(waiting.values()):
        number = random.choice([number for number, left in waiting.items() if left])
        sent += chunks.told(number, [waiting[number].pop(0)])
    usages = [place for place, chunk in enumerate(sent) if chunk.get("usage") is not None]
    assert usages == [len(sent) - 1]
    assert sent[-1]["usage"]["prompt_tokens"] == 10
    assert sent[-1]["usage"]["completion_tokens"] == sum(3 + number for number in range(num))
    assert (sent[-1]["choices"] == []) == has_chunk
    for number in range(num):
        mine = [choice for chunk in sent for choice in chunk["choices"] if choice["index"] == number]
        theirs = [{**choice, "index": number} for chunk in plain[number] for choice in chunk["choices"]]
        assert mine == theirs
    assert all(("usage" in chunk) == (not omits) for chunk in sent[:-1])
    assert all(one["id"] == other["id"] for one, other in pairwise(sent))


def test_the_usage_of_several_is_one_prompt_and_all_answers() -> None:
    usages = [alone(number, ChatReply(is_thinking=True), cached=6 * number)[-1]["usage"] for number in range(3)]
    assert added_usage(usages) == {
        "prompt_tokens": 10,
        "completion_tokens": 12,
        "total_tokens": 22,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 3},
        "prompt_cache_hit_tokens": 0,
        "prompt_cache_miss_tokens": 10,
    }


@pytest.mark.parametrize("number", [0, 1])
def test_an_error_passes_as_it_is(number: int) -> None:
    error = ChatStream(IDENTITY, ChatReply()).fail("no more")
    assert ChoiceChunks(2).told(number, error) == error
