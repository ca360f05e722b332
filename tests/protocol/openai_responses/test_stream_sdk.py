"""Our streams and bodies read by OpenAI's own Python library: its types, strictly, and its accumulator.

The official form lacks what the library's types require of usage (`cache_write_tokens`) and of namespaces (a
description); a local reply has both.
"""

import json
from collections.abc import Iterable
from typing import Any, get_args

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai import OpenAI
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from prompt.parse_facts import Vector, load_vectors, options_of
from prompt.streams import cut
from prompt.test_parse_streams import OPTIONS, SIZES
from protocol.openai_responses.parsed_answers import new_stream, official_reply, run
from protocol.openai_responses.random_answers import PARTS, REQUESTS, event_sequences
from whitedwarf.conversation.events import Event, Finished
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.parse_options import ParseOptions
from whitedwarf.protocol.openai_responses.answer import ResponsesAnswer
from whitedwarf.protocol.openai_responses.stream import sse_name

VECTORS = [vector for vector in load_vectors() if vector["protocol"] == "responses"]
ANY_EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
CLASSES = {
    kind.model_fields["type"].annotation.__args__[0]: kind for kind in get_args(get_args(ResponseStreamEvent)[0])
}
LOCAL_REPLIES = st.builds(
    lambda request, summarizes: official_reply(request, is_official=False, summarizes=summarizes),
    REQUESTS,
    st.booleans(),
)
StreamEvents = list[dict[str, Any]]


def check_types(events: Iterable[dict[str, Any]]) -> None:
    for event in events:
        if event["type"] != "keepalive":
            CLASSES[event["type"]].model_validate(event)  # tells what is wrong
            assert type(ANY_EVENT.validate_python(event)) is CLASSES[event["type"]]


def sent(events: Iterable[dict[str, Any]]) -> OpenAI:
    """A client whose requests are all answered with this stream."""
    text = "".join(f"event: {sse_name(event)}\ndata: {json.dumps(event)}\n\n" for event in events)
    answer = httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=text.encode())
    transport = httpx2.MockTransport(lambda request: answer)
    return OpenAI(api_key="none", base_url="http://test/v1", http_client=httpx2.Client(transport=transport))


def as_accumulated(events: StreamEvents) -> Any:
    """The last response that the library's helper for streams has."""
    with sent(events).responses.stream(model="m", input="q") as stream:
        responses = [event.response for event in stream if hasattr(event, "response")]
        if events[-1]["type"] == "response.completed":
            assert stream.get_final_response() == responses[-1]
    return without_parsed(responses[-1].to_dict(mode="json"))


def without_parsed(value: Any) -> Any:
    if isinstance(value, list):
        return [without_parsed(item) for item in value]
    if isinstance(value, dict):
        return {name: without_parsed(item) for name, item in value.items() if not name.startswith("parsed")}
    return value


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["id"] for vector in VECTORS])
def test_the_library_takes_every_vector_as_we_tell_it(vector: Vector, official_tokenizers: Any) -> None:
    reply = official_reply(vector["request"], is_official=False)
    pushes, body = run(vector["chunks"], options_of(vector), reply, official_tokenizers[ModelVersion.V4])
    events = [event for push in pushes for event in push]
    check_types(events)
    Response.model_validate(body)
    assert as_accumulated(events) == body


@settings(max_examples=40)
@given(PARTS.map("".join), SIZES, OPTIONS, LOCAL_REPLIES)
def test_the_library_takes_whatever_the_model_writes(
    text: str, sizes: list[int], options: ParseOptions, reply: Any
) -> None:
    pushes, body = run([["text", piece, 1] for piece in cut(text, sizes)], options, reply)
    events = [event for push in pushes for event in push]
    check_types(events)
    Response.model_validate(body)
    assert as_accumulated(events) == body


@settings(max_examples=60)
@given(event_sequences(), LOCAL_REPLIES, st.booleans())
def test_the_library_takes_every_order_of_events(events: list[Event], reply: Any, fails: bool) -> None:
    stream, answer = new_stream(reply), ResponsesAnswer()
    told = stream.keepalive()
    for event in events:
        if fails and isinstance(event, Finished):
            told += stream.fail("the prompt is too long", "rate_limit_exceeded")
        told += stream.take([event])
    answer.take(told)
    check_types(told)
    Response.model_validate(answer.body())
    assert as_accumulated(told) == answer.body()


def test_the_library_reads_failures_that_its_types_do_not_name() -> None:
    told = new_stream(official_reply({"model": "m"}, is_official=False)).fail("too long", "context_length_exceeded")
    assert as_accumulated(told)["error"] == {"code": "context_length_exceeded", "message": "too long"}
