from typing import Any

import anthropic
import pytest
from anthropic.types import Message, RawMessageStreamEvent
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from prompt.parse_facts import Vector, load_vectors
from protocol.answer_runs import Told, messages_body, messages_stream, vector_run
from protocol.event_sequences import event_sequences
from protocol.sdk_clients import anthropic_client
from whitedwarf.conversation.events import Event, Finished, FinishReason, TextDelta
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.json_text import is_json
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.protocol.converted import MessagesReply

VECTORS = [vector for vector in load_vectors() if vector["protocol"] == "messages"]
EVENT: TypeAdapter[RawMessageStreamEvent] = TypeAdapter(RawMessageStreamEvent)
ASKED: Any = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "q"}]}


def accumulated(events: list[Told]) -> Message:
    """What the SDK's own accumulator makes of the stream."""
    with anthropic_client(events) as client, client.messages.stream(**ASKED) as stream:
        return stream.get_final_message()


def known(value: Any) -> Any:
    """Without nulls, which the SDK adds for what it knows besides."""
    if isinstance(value, dict):
        return {key: known(one) for key, one in value.items() if one is not None and key != "input"}
    return [known(one) for one in value] if isinstance(value, list) else value


def is_whole(events: list[Told]) -> bool:
    """Whether every call has JSON for arguments: of broken JSON the SDK reads a part, or refuses the stream."""
    texts: dict[int, str] = {}
    for event in events:
        if event["type"] == "content_block_delta" and "partial_json" in event["delta"]:
            texts[event["index"]] = texts.get(event["index"], "") + event["delta"]["partial_json"]
    return all(map(is_json, texts.values()))


def inputs(content: list[Any]) -> list[Any]:
    return [block["input"] for block in content if block["type"] == "tool_use"]


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["id"] for vector in VECTORS])
def test_the_sdk_takes_every_event_and_adds_up_the_same_answer(
    vector: Vector, official_tokenizers: dict[ModelVersion, Tokenizer]
) -> None:
    told = vector_run(vector, official_tokenizers[ModelVersion(vector["expect"]["model_version"])]).told
    for event in told:
        if event["type"] != "ping":  # the SDK drops pings before it looks at types
            EVENT.validate_python(event)
    body = messages_body(told)
    validated = Message.model_validate(body)
    assert known(validated.model_dump()) == known(body)
    if is_whole(told):
        theirs = accumulated(told)
        assert known(theirs.model_dump()) == known(body)
        assert inputs(theirs.model_dump()["content"]) == inputs(body["content"])


@pytest.mark.slow
@settings(max_examples=150)
@given(event_sequences(), st.booleans())
def test_the_sdk_adds_up_any_answer_as_we_do(events: list[Event], is_thinking: bool) -> None:
    stream = messages_stream(MessagesReply(is_thinking))
    told = stream.begin() + stream.take(events)
    for event in told:
        if event["type"] != "ping":
            EVENT.validate_python(event)
    theirs = accumulated(told).model_dump()
    assert known(theirs) == known(messages_body(told))
    if not stream.unfinished_calls:
        assert inputs(theirs["content"]) == inputs(messages_body(told)["content"])
    Message.model_validate(messages_body(told, stream.unfinished_calls))


def test_the_sdk_takes_pings_before_and_after_the_start() -> None:
    stream = messages_stream(MessagesReply())
    end = Finished(FinishReason.STOP, None, 1, 0)
    told = stream.keepalive() + stream.begin() + stream.keepalive() + stream.take([TextDelta("hi"), end])
    assert known(accumulated(told).model_dump()) == known(messages_body(told))


def test_the_sdk_raises_what_ended_a_failed_answer() -> None:
    stream = messages_stream(MessagesReply())
    told = stream.begin() + stream.take([TextDelta("hi")]) + stream.fail("the engine stopped")
    with pytest.raises(anthropic.APIStatusError, match="the engine stopped"):
        accumulated(told)
