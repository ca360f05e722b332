"""Legacy Completions requests (spec/product.md B.6)."""

from typing import Any

import pytest

from whitedwarf.conversation.message import SystemMessage, UserMessage
from whitedwarf.prompt.encode import ModelVersion, encode
from whitedwarf.protocol.completions import convert
from whitedwarf.protocol.converted import CompletionReply, Converted
from whitedwarf.protocol.failures import MalformedRequest, RefusedRequest
from whitedwarf.protocol.policy import local

POLICY = local(ModelVersion.V4)


def converted(**body: Any) -> Converted[CompletionReply]:
    return convert({"model": "m", "prompt": "Once", **body}, POLICY)


def test_a_prompt_is_put_to_the_model_as_a_question() -> None:
    assert converted().conversation.messages == (SystemMessage("You are a helpful assistant"), UserMessage("Once"))


def test_the_prompt_ends_where_the_model_begins_to_think() -> None:
    text = encode(converted().conversation, ModelVersion.V4).rendered().text
    assert text.endswith("You are a helpful assistant<｜User｜>Once<｜Assistant｜><think>")


def test_thinking_can_be_switched_off() -> None:
    text = encode(converted(thinking=False).conversation, ModelVersion.V4).rendered().text
    assert text.endswith("Once<｜Assistant｜></think>")


def test_of_several_prompts_the_first_is_answered_and_that_is_told() -> None:
    first = converted(prompt=["Once", "Twice"])
    assert first.conversation == converted().conversation
    assert first.warnings == ("Only the first of the prompts was answered: send one request for each.",)
    assert converted(prompt=["Once"]).warnings == ()


@pytest.mark.parametrize("prompt", [None, [], {}, 5, [5], [[1, 2]], True])
def test_what_is_no_text_is_refused(prompt: Any) -> None:
    with pytest.raises(MalformedRequest, match=r"^prompt: "):
        converted(prompt=prompt)


def test_a_suffix_is_refused_with_a_way_out() -> None:
    with pytest.raises(RefusedRequest, match=r"^suffix: .* Ask for the missing part in the prompt instead\.$"):
        converted(suffix="the end")
    assert converted(suffix="").conversation == converted(suffix=None).conversation


def test_sampling_is_that_of_chat() -> None:
    sampled = converted(thinking=False, temperature=0.5, top_k=5, min_p=0.25, max_tokens=7, stop=["x", ""], seed=3)
    assert sampled.inference.temperature == 0.5
    assert (sampled.inference.top_k, sampled.inference.min_p) == (5, 0.25)
    assert (sampled.inference.max_tokens, sampled.inference.seed) == (7, 3)
    assert sampled.parsing.stop_strings == ("x",)


def test_logprobs_is_a_number_of_alternatives() -> None:
    assert (converted(logprobs=3).inference.logprobs, converted(logprobs=3).inference.top_logprobs) == (True, 3)
    assert converted(logprobs=0).inference.logprobs is True
    assert converted(logprobs=2.0).inference.top_logprobs == 2  # some clients have only one kind of number
    assert converted(logprobs=None).inference.logprobs is False
    for count in (21, -1):
        with pytest.raises(RefusedRequest, match="logprobs: expected a number of alternatives from 0 to 20"):
            converted(logprobs=count)


def test_penalties_and_biases_have_openais_ranges() -> None:
    for name in ("presence_penalty", "frequency_penalty"):
        for value in (-2, 0, 2):
            assert getattr(converted(**{name: value}).inference, name) == value
        for value in (-2.01, 2.01, 1e9):
            with pytest.raises(RefusedRequest, match=name):
                converted(**{name: value})
    assert converted(logit_bias={"5": -100, "6": 100}).inference.logit_bias == ((5, -100.0), (6, 100.0))
    for value in (-100.5, 101, True, "1", None):
        with pytest.raises(MalformedRequest, match=r"logit_bias\.5: expected a number from -100 to 100"):
            converted(logit_bias={"5": value})


def test_top_logprobs_is_chats_alone() -> None:
    asked = converted(top_logprobs=3)
    assert (asked.inference.logprobs, asked.unknown_fields) == (False, ("top_logprobs",))


def test_the_prompt_is_echoed_where_that_is_asked_for() -> None:
    assert converted(echo=True).reply == CompletionReply(echoed_prompt="Once")
    assert converted(stream=True, stream_options={"include_usage": True}).reply == CompletionReply(usage_chunk=True)


def test_several_answers_are_asked_for_with_n() -> None:
    for count in (1, 2, 8):
        assert converted(n=count).num_choices == count
        assert converted(n=count, best_of=count).num_choices == count
    assert converted(n=None, best_of=None).num_choices == converted(best_of=1).num_choices == 1


@pytest.mark.parametrize("count", [0, -1, 9, 256, True, False, 1.5, 2.0, "2", [2]])
def test_no_other_count_is_taken(count: Any) -> None:
    with pytest.raises(MalformedRequest, match="n: expected a whole number of answers from 1 to 8, got"):
        converted(n=count)


@pytest.mark.parametrize("more", [{"best_of": 2}, {"n": 2, "best_of": 4}, {"n": 2, "best_of": 1}, {"best_of": True}])
def test_the_best_of_several_is_refused(more: Any) -> None:
    with pytest.raises(RefusedRequest, match=r"best_of: expected the same number as n .* does not rank answers"):
        converted(**more)


def test_what_belongs_to_chat_is_passed_over() -> None:
    assert converted(tools=[5], messages="x", user="me").unknown_fields == ("user", "tools", "messages")
