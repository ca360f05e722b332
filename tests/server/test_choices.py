"""Several choices through the whole server, asked for with the openai library: by a script, and by nano."""

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from fakes.scripted_server import Served, eventually, says
from fakes.scripted_server import serving as scripted
from server.conftest import tokenizer
from server.sdk_questions import CALL, CHAT_TOOL, DONE, ENDLESS, HELLO, SLOW, USER, async_openai_client, openai_client
from server.serving import Running, serving
from whitedwarf.cli.loading import open_model
from whitedwarf.config import ModelSettings
from whitedwarf.engine.engine import Engine
from whitedwarf.engine.request import FinishReason
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.weights.store import bundled_model

__all__ = ["tokenizer"]  # a fixture
THREE = (says("a</think>One"), says("b b</think>Two two"), says("c</think>Three", finish="length"))
SAID = {0: "One", 1: "Two two", 2: "Three"}
PLAIN: Any = {"thinking": {"type": "disabled"}}


def text_by_choice(chunks: list[Any]) -> dict[int, str]:
    texts: dict[int, str] = {}
    for chunk in chunks:
        for choice in chunk.choices:
            piece = choice.text if hasattr(choice, "text") else choice.delta.content
            texts[choice.index] = texts.get(choice.index, "") + (piece or "")
    return texts


def all_cancelled(served: Served, count: int) -> bool:
    received = served.engine.received
    return len(received) == count and all(one.finish is FinishReason.CANCELLED for one in received)


def test_choices_come_in_one_body_with_one_usage() -> None:
    with scripted(*THREE) as served, openai_client(served) as client:
        answer = client.chat.completions.create(model="any", messages=USER, n=3)
        assert {choice.index: choice.message.content for choice in answer.choices} == SAID
        assert [choice.finish_reason for choice in answer.choices] == ["stop", "stop", "length"]
        assert answer.usage is not None
        drawn = sum(len(one.generated_ids) for one in served.engine.received)
        assert answer.usage.prompt_tokens == len(served.last.ids)
        assert answer.usage.completion_tokens == drawn
        assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_streamed_choices_are_numbered_and_end_each_in_its_way() -> None:
    with scripted(*THREE) as served, openai_client(served) as client:
        asked: Any = {"model": "any", "messages": USER, "n": 3, "stream": True}
        chunks = list(client.chat.completions.create(**asked, stream_options={"include_usage": True}))
        assert text_by_choice(chunks) == SAID
        ends = [(choice.index, choice.finish_reason) for chunk in chunks for choice in chunk.choices]
        assert sorted(end for end in ends if end[1]) == [(0, "stop"), (1, "stop"), (2, "length")]
        assert [chunk.usage is not None for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
        assert chunks[-1].choices == []
        assert len({chunk.id for chunk in chunks}) == 1


def test_the_librarys_own_helper_adds_the_choices_up() -> None:
    with scripted(*THREE[:2], says("c</think>Three")) as served, openai_client(served) as client:
        with client.chat.completions.stream(model="any", messages=USER, n=3) as stream:
            final = stream.get_final_completion()
        assert {choice.index: choice.message.content for choice in final.choices} == SAID


@pytest.mark.parametrize("is_streamed", [False, True])
def test_completions_have_choices_too(is_streamed: bool) -> None:
    # The library's type has no null finish_reason, which is what OpenAI's own chunks have before the last.
    with scripted(*THREE) as served, openai_client(served, _strict_response_validation=False) as client:
        asked: Any = {"model": "any", "prompt": "Count.", "n": 3, "best_of": 3, "echo": True, "stream": is_streamed}
        answer: Any = client.completions.create(**asked)
        texts = text_by_choice(list(answer) if is_streamed else [answer])
        assert {number: text.rpartition("</think>")[2] for number, text in texts.items()} == SAID
        assert all(text.startswith("Count.") for text in texts.values())


def test_calls_have_their_own_ids_and_any_choice_can_be_gone_on_with() -> None:
    with scripted(CALL, CALL, CALL, DONE) as served, openai_client(served) as client:
        asked: Any = {"model": "any", "tools": [CHAT_TOOL]}
        answer = client.chat.completions.create(**asked, messages=USER, n=3)
        ids = [choice.message.tool_calls[0].id for choice in answer.choices if choice.message.tool_calls]
        assert len(set(ids)) == 3
        for call_id in ids:  # results alone: the server knows the turn that each choice was
            result: Any = {"role": "tool", "tool_call_id": call_id, "content": "a b"}
            client.chat.completions.create(**asked, messages=[result])
            assert len(served.last.ids) > answer.usage.prompt_tokens  # type: ignore[union-attr]


@pytest.mark.parametrize("count", [0, -1, 9, 1.5, True, "2"])
def test_counts_that_make_no_sense_are_refused(count: Any) -> None:
    with scripted(HELLO) as served, openai_client(served) as client:
        with pytest.raises(openai.BadRequestError, match="whole number of answers from 1 to 8"):
            client.chat.completions.create(model="any", messages=USER, n=count)
        with pytest.raises(openai.BadRequestError, match="whole number of answers from 1 to 8"):
            client.completions.create(model="any", prompt="a", n=count)
        with pytest.raises(openai.BadRequestError, match="does not rank answers"):
            client.completions.create(model="any", prompt="a", n=2, best_of=5)
        assert served.engine.last_received is None


def test_more_choices_than_run_at_once_wait_for_their_turn() -> None:
    with scripted(HELLO, max_parallel=1) as served, openai_client(served) as client:
        answer = client.chat.completions.create(model="any", messages=USER, n=8)
        assert [choice.message.content for choice in answer.choices] == ["Hello, world!"] * 8


def test_choices_that_find_no_room_in_the_queue_are_refused_together() -> None:
    with scripted(SLOW, max_parallel=1, max_waiting=3) as served, openai_client(served) as client:
        with pytest.raises(openai.RateLimitError):
            client.chat.completions.create(model="any", messages=USER, n=8)
        assert eventually(lambda: all(one.finish is FinishReason.CANCELLED for one in served.engine.received))


@pytest.mark.parametrize("is_streamed", [False, True])
def test_a_client_that_leaves_cancels_all(is_streamed: bool) -> None:
    async def leave(served: Served) -> None:
        async with async_openai_client(served) as client:
            asking = client.chat.completions.create(model="any", messages=USER, n=3, stream=is_streamed)
            if is_streamed:
                stream: Any = await asking
                async for _ in stream:
                    break
                await stream.close()
            else:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(asking, 0.5)

    with scripted(ENDLESS) as served:
        asyncio.run(leave(served))
        assert eventually(lambda: all_cancelled(served, 3))


def test_a_sign_of_life_is_of_no_choice() -> None:
    with scripted(says("a</think>b", prefill_s=1), keepalive_s=0.1) as served, openai_client(served) as client:
        chunks = list(client.chat.completions.create(model="any", messages=USER, n=2, stream=True))
        assert text_by_choice(chunks) == {0: "b", 1: "b"}
        assert 1 <= sum(chunk.choices == [] for chunk in chunks) <= 15  # one for all, not one for each


def read_all(stream: Any) -> None:
    for _ in stream:
        pass


def test_an_engine_that_stops_ends_all_with_one_error() -> None:
    with scripted(ENDLESS) as served, openai_client(served) as client:
        asked: Any = {"model": "any", "messages": USER, "n": 3}
        stream = client.chat.completions.create(**asked, stream=True)
        timer = threading.Timer(0.5, served.engine.close)
        timer.start()
        with pytest.raises(openai.InternalServerError, match="shutting down"):
            client.chat.completions.create(**asked)
        with pytest.raises(openai.APIError, match="shutting down"):
            read_all(stream)
        timer.join()


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    loaded = open_model(ModelSettings(model=str(bundled_model()), context=2048))
    with Engine(loaded.transformer, max_parallel=4, prefix_budget_bytes=64 << 20) as engine:
        yield engine


@pytest.fixture(scope="module")
def nano(engine: Engine, tokenizer: Tokenizer) -> Iterator[Running]:
    with serving(engine, tokenizer) as server:
        yield server


@pytest.fixture
def client(nano: Running) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(api_key="k", base_url=f"{nano.url}/v1", max_retries=0) as client:
        yield client


def drawn(client: openai.OpenAI, **asked: Any) -> list[Any]:
    """The choices without their numbers."""
    question = "Tell me about " + "rivers and " * 60 + "hills."
    messages = [{"role": "user", "content": question}]
    settings: Any = {"model": "m", "max_tokens": 16, "logprobs": True, "top_logprobs": 2, "extra_body": PLAIN}
    answer = client.chat.completions.create(**{**settings, "messages": messages, **asked})
    return [{**choice.model_dump(), "index": 0} for choice in answer.choices]


def test_with_a_seed_choice_i_is_the_only_choice_with_the_seed_and_i(client: openai.OpenAI) -> None:
    together = drawn(client, n=5, seed=7, temperature=1.5)
    alone = [drawn(client, seed=7 + number, temperature=1.5)[0] for number in range(5)]
    assert together == alone
    assert len({json.dumps(choice) for choice in together}) > 1


def test_greedy_choices_are_equal(client: openai.OpenAI) -> None:
    (one,) = drawn(client, temperature=0)
    assert drawn(client, n=4, temperature=0) == [one] * 4


def test_the_prompt_is_read_once(client: openai.OpenAI, engine: Engine, nano: Running) -> None:
    before = nano.metric('whitedwarf_tokens_total{kind="prompt"}')
    messages = [{"role": "user", "content": "Something new: " + "lakes and " * 100}]
    saved_before = engine.prefix_stats.reused_tokens
    asked: Any = {"model": "m", "messages": messages, "max_tokens": 4, "extra_body": PLAIN}
    usage = client.chat.completions.create(**asked, n=4).usage
    assert usage is not None
    assert nano.metric('whitedwarf_tokens_total{kind="prompt"}') - before == usage.prompt_tokens
    assert engine.prefix_stats.reused_tokens - saved_before >= 3 * (usage.prompt_tokens - 16)


def test_any_choice_is_the_beginning_of_the_next_turn(client: openai.OpenAI) -> None:
    first: Any = {"role": "user", "content": "Let us begin: " + "words and " * 100}
    asked: Any = {"model": "m", "max_tokens": 12, "extra_body": PLAIN, "temperature": 1.2, "seed": 3}
    answer = client.chat.completions.create(**asked, messages=[first], n=3)
    assert answer.usage is not None
    for choice in answer.choices:
        said: Any = {"role": "assistant", "content": choice.message.content}
        more: Any = {"role": "user", "content": "Go on."}
        usage = client.chat.completions.create(**asked, messages=[first, said, more]).usage
        assert usage is not None
        assert usage.prompt_tokens_details is not None
        assert (usage.prompt_tokens_details.cached_tokens or 0) >= answer.usage.prompt_tokens


def test_a_form_is_kept_by_each_choice(client: openai.OpenAI) -> None:
    schema = {"type": "object", "properties": {"a": {"enum": [1, 2]}}, "required": ["a"], "additionalProperties": False}
    form: Any = {"type": "json_schema", "json_schema": {"name": "s", "schema": schema, "strict": True}}
    messages: Any = [{"role": "user", "content": "Answer in JSON."}]
    choices = drawn(client, n=4, messages=messages, response_format=form, temperature=1.5, max_tokens=64)
    ended = [choice for choice in choices if choice["finish_reason"] == "stop"]
    assert ended
    assert all(json.loads(choice["message"]["content"])["a"] in (1, 2) for choice in ended)


def test_a_call_that_has_to_come_comes_in_each_choice_with_an_id_of_its_own(client: openai.OpenAI) -> None:
    messages: Any = [{"role": "user", "content": "List the files."}]
    asked: Any = {"tools": [CHAT_TOOL], "tool_choice": "required", "messages": messages, "temperature": 1.5}
    choices = drawn(client, n=4, max_tokens=200, logprobs=False, top_logprobs=None, **asked)
    calls = [call for choice in choices for call in choice["message"]["tool_calls"] or []]
    assert {call["function"]["name"] for call in calls} == {"run"}
    assert len({call["id"] for call in calls}) == len(calls)
    for choice in choices:
        assert choice["finish_reason"] == "length" or choice["message"]["tool_calls"]
