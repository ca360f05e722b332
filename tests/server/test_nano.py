"""The whole way with the bundled model, through the real libraries over loopback."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, Literal

import pydantic
import pytest
from anthropic import Anthropic
from openai import BadRequestError, InternalServerError, OpenAI

from server.serving import Running, serving
from whitedwarf.cli.loading import open_model
from whitedwarf.config import ModelSettings
from whitedwarf.engine.engine import Engine
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.weights.store import bundled_model

QUESTION: Any = [{"role": "user", "content": "hi"}]
PLAIN: Any = {"thinking": {"type": "disabled"}}


@pytest.fixture(scope="module")
def nano(tokenizer: Tokenizer) -> Iterator[Running]:
    loaded = open_model(ModelSettings(model=str(bundled_model()), context=2048))
    with (
        Engine(loaded.transformer, max_parallel=4, prefix_budget_bytes=64 << 20) as engine,
        serving(engine, tokenizer) as server,
    ):
        yield server


@pytest.fixture
def openai(nano: Running) -> Iterator[OpenAI]:
    with OpenAI(api_key="k", base_url=f"{nano.url}/v1", max_retries=0) as client:
        yield client


@pytest.fixture
def anthropic(nano: Running) -> Iterator[Anthropic]:
    with Anthropic(api_key="k", base_url=nano.url, max_retries=0) as client:
        yield client


def chat(client: OpenAI, *, is_streamed: bool) -> tuple[str, Any, int]:
    asked: Any = {"model": "m", "messages": QUESTION, "temperature": 0, "max_tokens": 24, "extra_body": PLAIN}
    if not is_streamed:
        answer = client.chat.completions.create(**asked)
        return answer.choices[0].message.content or "", answer.choices[0].finish_reason, answer.usage.completion_tokens
    chunks = list(client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
    text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    (reason,) = [choice.finish_reason for chunk in chunks for choice in chunk.choices if choice.finish_reason]
    return text, reason, chunks[-1].usage.completion_tokens


def test_tokens_are_favoured_and_forbidden(openai: OpenAI, tokenizer: Tokenizer) -> None:
    asked: Any = {"model": "m", "messages": QUESTION, "temperature": 0, "max_tokens": 6, "extra_body": PLAIN}
    said = openai.chat.completions.create(**asked).choices[0].message.content or ""
    ids = tokenizer.encode(said)
    forbidden = openai.chat.completions.create(**asked, logit_bias={str(token): -100 for token in ids})
    assert not set(tokenizer.encode(forbidden.choices[0].message.content or "")) & set(ids)
    forced = openai.chat.completions.create(**asked, logit_bias={str(ids[0]): 100}, frequency_penalty=-2)
    assert forced.choices[0].message.content == tokenizer.decode([ids[0]] * 6)
    changed = openai.chat.completions.create(**{**asked, "max_tokens": 200}, presence_penalty=2, frequency_penalty=2)
    plain = openai.chat.completions.create(**{**asked, "max_tokens": 200})
    assert changed.choices[0].message.content != plain.choices[0].message.content or plain.usage.completion_tokens < 20
    with pytest.raises(BadRequestError, match="from 0 to"):
        openai.chat.completions.create(**asked, logit_bias={str(tokenizer.vocab_size): 1})
    with pytest.raises(InternalServerError, match="made for embeddings"):
        openai.embeddings.create(model="m", input="a text")


def test_chat_streamed_and_whole_say_the_same(openai: OpenAI) -> None:
    whole, streamed = chat(openai, is_streamed=False), chat(openai, is_streamed=True)
    assert whole == streamed
    assert whole[0]
    assert whole[2] > 1


def test_responses_streamed_and_whole_say_the_same(openai: OpenAI) -> None:
    asked: Any = {"model": "m", "input": "hi", "temperature": 0, "reasoning": {"effort": "none"}}
    whole = openai.responses.create(**asked, max_output_tokens=24)
    with openai.responses.stream(**asked, max_output_tokens=24) as stream:
        deltas = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
        streamed = stream.get_final_response()
    assert whole.output_text == streamed.output_text == deltas != ""
    assert whole.usage == streamed.usage or whole.usage.total_tokens == streamed.usage.total_tokens


def test_messages_streamed_and_whole_say_the_same(anthropic: Anthropic) -> None:
    asked: Any = {"model": "m", "messages": QUESTION, "max_tokens": 24, "thinking": {"type": "disabled"}}
    asked["extra_body"] = {"temperature": 0}
    whole = anthropic.messages.create(**asked)
    with anthropic.messages.stream(**asked) as stream:
        deltas = "".join(stream.text_stream)
        streamed = stream.get_final_message()
    assert whole.content[0].text == streamed.content[0].text == deltas != ""
    assert whole.stop_reason == streamed.stop_reason


def test_counting_tokens_gives_what_the_answer_is_charged(anthropic: Anthropic) -> None:
    count = anthropic.messages.count_tokens(model="m", messages=QUESTION, system="Be brief.")
    usage = anthropic.messages.create(model="m", messages=QUESTION, system="Be brief.", max_tokens=1).usage
    assert count.input_tokens == usage.input_tokens + (usage.cache_read_input_tokens or 0)


def test_both_libraries_list_the_model(openai: OpenAI, anthropic: Anthropic) -> None:
    assert [model.id for model in openai.models.list()] == [model.id for model in anthropic.models.list()] == ["tiny"]
    assert openai.models.retrieve("tiny").id == anthropic.models.retrieve("tiny").id == "tiny"


def test_streams_beside_one_another_are_not_crossed(openai: OpenAI) -> None:
    alone = chat(openai, is_streamed=False)
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda number: chat(openai, is_streamed=bool(number % 2)), range(6)))
    assert answers == [alone] * 6


def test_the_next_turn_computes_only_what_is_new_and_says_so(openai: OpenAI) -> None:
    system = {"role": "system", "content": "You are brief. " * 40}
    turns: list[Any] = [system, {"role": "user", "content": "What is the capital of France?"}]
    asked: Any = {"model": "m", "temperature": 0, "max_tokens": 24, "extra_body": PLAIN}
    first = openai.chat.completions.create(messages=turns, **asked)
    answer = {"role": "assistant", "content": first.choices[0].message.content}
    second = openai.chat.completions.create(messages=[*turns, answer, QUESTION[0]], **asked)
    assert first.usage is not None
    assert second.usage is not None
    assert second.usage.prompt_tokens_details is not None
    assert second.usage.prompt_tokens_details.cached_tokens >= first.usage.prompt_tokens - 1
    again = openai.chat.completions.create(messages=turns, **asked)
    assert again.choices[0].message.content == first.choices[0].message.content


class Order(pydantic.BaseModel):
    kind: Literal["tea", "coffee"]
    cups: int = pydantic.Field(ge=1, le=12)
    notes: list[Annotated[str, pydantic.Field(max_length=8)]] = pydantic.Field(max_length=2)
    wish: bool | None


@pytest.mark.parametrize("seed", range(5))
def test_an_answer_has_the_type_that_the_library_parses(openai: OpenAI, seed: int) -> None:
    asked: Any = {"temperature": 1, "max_tokens": 400, "extra_body": {**PLAIN, "seed": seed}}
    chat = openai.chat.completions.parse(model="m", messages=QUESTION, response_format=Order, **asked)
    assert isinstance(chat.choices[0].message.parsed, Order)
    assert chat.choices[0].finish_reason == "stop"
    response = openai.responses.parse(
        model="m", input=f"hi {seed}", text_format=Order, temperature=1, reasoning={"effort": "none"}
    )
    assert isinstance(response.output_parsed, Order)
