"""What was remembered of earlier requests changes nothing: every official vector, and tools nearly the same."""

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.vectors import Vector, converted, expected, load
from whitedwarf.conversation.json_value import Json
from whitedwarf.prompt.encode import ModelVersion, encode
from whitedwarf.prompt.recipe_memory import RecipeMemory
from whitedwarf.protocol.anthropic import convert as messages
from whitedwarf.protocol.body_memory import BodyMemory
from whitedwarf.protocol.converted import Converted
from whitedwarf.protocol.failures import RequestError
from whitedwarf.protocol.json_body import read_json
from whitedwarf.protocol.openai_chat import convert as chat
from whitedwarf.protocol.openai_responses import convert as responses
from whitedwarf.protocol.policy import OFFICIAL, Policy, local
from whitedwarf.protocol.tool_definitions import DeclaredTool, tool_definitions

Convert = Callable[[Any, Policy, RecipeMemory | None], Converted[Any]]
CONVERTERS: dict[str, Convert] = {"chat": chat.convert, "responses": responses.convert, "messages": messages.convert}


def with_request(vector: Vector) -> Vector:
    return vector if "request" in vector else vector | {"request": read_json(vector["request_raw"])}


def readable(vectors: list[Vector]) -> Iterator[Vector]:
    for vector in vectors:
        try:
            yield with_request(vector)
        except RequestError:
            continue


@pytest.mark.parametrize("dialect", CONVERTERS)
def test_every_vector_is_converted_alike_with_one_memory_for_all(dialect: str) -> None:
    memory = RecipeMemory()
    convert = partial(CONVERTERS[dialect], memory=memory)  # type: ignore[call-arg]
    vectors = list(readable(load(dialect)))
    for vector in [*vectors, *reversed(vectors)]:
        assert converted(vector, convert) == expected(vector), vector["id"]
    assert len(memory.definitions) > 5


def told(body: Json, convert: Convert, policy: Policy, memory: RecipeMemory | None) -> str:
    """Everything that becomes of a request, told apart to the last bit."""
    try:
        result = convert(body, policy, memory)
    except RequestError as error:
        return repr(error)
    prompt = encode(result.conversation, result.version, memory=memory)
    return repr((result, prompt.segments, prompt.images))


def vector_body(vector: Vector) -> bytes:
    text = json.dumps(vector["request"], ensure_ascii=False) if "request" in vector else vector["request_raw"]
    return str(text).encode()


@pytest.mark.parametrize("dialect", CONVERTERS)
@pytest.mark.parametrize("policy", [OFFICIAL, local(ModelVersion.V4), local(ModelVersion.V41)])
def test_every_vector_is_told_alike_when_it_comes_again(dialect: str, policy: Policy) -> None:
    memory, bodies, convert = RecipeMemory(), BodyMemory(), CONVERTERS[dialect]
    for body in list(map(vector_body, load(dialect))) * 2:
        try:
            plain, remembered = read_json(body), read_json(body, bodies)
        except RequestError:
            continue
        assert told(remembered, convert, policy, memory) == told(plain, convert, policy, None)
        assert repr(read_json(body, bodies)) == repr(read_json(body))  # nobody has changed what is shared
    assert len(bodies) > 20


SCHEMAS = st.sampled_from(
    [
        *({"type": "object", "minLength": value} for value in (1, 1.0, True, -0.0, 0, False)),
        *({"type": "object", "uniqueItems": value} for value in (1, True)),
        *({"type": "object", "default": value} for value in (1, 1.0, True, 1e-7, "1", None, {"a": 1, "b": 2})),
        *({"type": "object", "default": value} for value in ({"b": 2, "a": 1}, {"b": 2.0, "a": 1}, [1], [True])),
        *({}, None, [], 1, {"type": "string"}),
    ]
)
TOOLS = st.lists(
    st.tuples(st.sampled_from(["f", "g", ""]), st.sampled_from(["", "does"]) | st.none(), SCHEMAS), max_size=3
)


def chat_body(tools: list[tuple[str, str | None, Json]], model: str, word: str) -> Json:
    functions: list[Json] = [{"name": name, "description": told, "parameters": schema} for name, told, schema in tools]
    declared: Json = [{"type": "function", "function": function} for function in functions]
    asked: Json = [{"role": "system", "content": word}, {"role": "user", "content": "hi"}]
    return {"model": model, "messages": asked, "tools": declared}


def responses_body(tools: list[tuple[str, str | None, Json]], model: str, word: str) -> Json:
    declared: Json = [
        {"type": "function", "name": name, "description": told, "parameters": schema} for name, told, schema in tools
    ]
    return {"model": model, "instructions": word, "input": "hi", "tools": declared}


def messages_body(tools: list[tuple[str, str | None, Json]], model: str, word: str) -> Json:
    declared: Json = [{"name": name, "description": told, "input_schema": schema} for name, told, schema in tools]
    asked: Json = [{"role": "user", "content": "hi"}]
    return {"model": model, "max_tokens": 9, "system": word, "messages": asked, "tools": declared}


BODIES = {"chat": chat_body, "responses": responses_body, "messages": messages_body}
MODELS = st.sampled_from(["DeepSeek-V4-Pro", "DeepSeek-V4.1-Flash"])
REQUESTS = st.tuples(st.sampled_from(list(BODIES)), TOOLS, MODELS, st.sampled_from(["", "be"]), st.booleans())


@settings(max_examples=200, deadline=None)
@given(st.lists(REQUESTS, max_size=6))
def test_tools_that_are_nearly_the_same_are_told_apart(requests: list[tuple[Any, ...]]) -> None:
    memory, ours = RecipeMemory(), local(ModelVersion.V4)
    for dialect, tools, model, word, is_official in requests:
        body, convert = read_json(json.dumps(BODIES[dialect](tools, model, word))), CONVERTERS[dialect]
        policy = OFFICIAL if is_official else ours
        assert told(body, convert, policy, memory) == told(body, convert, policy, None)


def test_the_same_tools_give_the_very_same_definitions() -> None:
    memory = RecipeMemory()
    first, second = (
        tool_definitions([DeclaredTool("f", "does", {"type": "object"})], OFFICIAL, memory=memory) for _ in range(2)
    )
    assert first is second
