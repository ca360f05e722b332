from typing import Any

import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from prompt.parse_facts import Vector, load_vectors
from protocol.answer_runs import IDENTITY, Told, chat_body, chat_stream, vector_run
from protocol.event_sequences import event_sequences
from protocol.sdk_clients import openai_client
from whitedwarf.conversation.events import ArgumentsDelta, Event, Finished, FinishReason, TextDelta, ToolCallStarted
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.protocol.converted import ChatReply
from whitedwarf.protocol.openai_chat.stream import ChatStream

VECTORS = [vector for vector in load_vectors() if vector["protocol"] == "chat"]
ASKED: Any = {"model": "m", "messages": [{"role": "user", "content": "q"}]}
END = Finished(FinishReason.STOP, None, 2, 0)


def accumulated(chunks: list[Told]) -> ChatCompletion:
    """What the SDK's own accumulator makes of the stream."""
    with openai_client(chunks) as client, client.chat.completions.stream(**ASKED) as stream:
        for _ in stream:
            pass
        # get_final_completion() would raise for an answer that was cut or filtered.
        return stream.current_completion_snapshot


def known(value: Any) -> Any:
    """Without nulls, and without what the SDK's accumulator adds or leaves out."""
    if isinstance(value, dict):
        ours = {"index", "parsed", "parsed_arguments", "service_tier", "object"}
        return {key: known(one) for key, one in value.items() if one is not None and key not in ours}
    return [known(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["id"] for vector in VECTORS])
def test_the_sdk_takes_every_chunk_and_adds_up_the_same_answer(
    vector: Vector, official_tokenizers: dict[ModelVersion, Tokenizer]
) -> None:
    told = vector_run(vector, official_tokenizers[ModelVersion(vector["expect"]["model_version"])]).told
    for chunk in told:
        ChatCompletionChunk.model_validate(chunk)
    body = chat_body(told)
    assert known(ChatCompletion.model_validate(body).model_dump()) == known(body)
    assert known(accumulated(told).model_dump()) == known(body)


@pytest.mark.slow
@settings(max_examples=150)
@given(event_sequences(), st.booleans(), st.booleans())
def test_the_sdk_adds_up_any_answer_as_we_do(events: list[Event], is_thinking: bool, usage_chunk: bool) -> None:
    stream = chat_stream(ChatReply(is_thinking, usage_chunk))
    told = stream.begin() + stream.take(events)
    for chunk in told:
        ChatCompletionChunk.model_validate(chunk)
    assert known(accumulated(told).model_dump()) == known(chat_body(told))
    ChatCompletion.model_validate(chat_body(told, stream.unfinished_calls))


def test_the_sdk_takes_usage_in_a_chunk_of_its_own_and_chunks_that_keep_the_connection_alive() -> None:
    stream = chat_stream(ChatReply(usage_chunk=True))
    told = stream.keepalive() + stream.begin() + stream.keepalive() + stream.take([TextDelta("hi"), END])
    for chunk in told:
        ChatCompletionChunk.model_validate(chunk)
    answer = accumulated(told)
    assert answer.choices[0].message.content == "hi"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 2


def test_the_sdk_takes_a_whole_answer_with_a_custom_call() -> None:
    stream = chat_stream(ChatReply(custom_tools=frozenset({"patch"})))
    events = [ToolCallStarted(0, "patch"), ArgumentsDelta(0, '{"input": "a\\nb"}'), END]
    call = ChatCompletion.model_validate(chat_body(stream.begin() + stream.take(events))).choices[0].message.tool_calls
    assert call is not None
    assert call[0].type == "custom"
    assert (call[0].custom.name, call[0].custom.input) == ("patch", "a\nb")


def test_the_sdk_raises_what_ended_a_failed_answer() -> None:
    stream = ChatStream(IDENTITY, ChatReply())
    told = stream.begin() + stream.take([TextDelta("hi")]) + stream.fail("the engine stopped", "server_error")
    with pytest.raises(openai.APIError, match="the engine stopped") as caught:
        accumulated(told)
    assert caught.value.code == "server_error"
