"""Bodies that nobody should send: each is converted or refused in words, under both policies, and never slowly."""

import json
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fakes.conversation_dumps import json_values
from fakes.damage import damaged, maybe_damaged
from fakes.responses_requests import responses_requests
from whitedwarf.errors import RequestError
from whitedwarf.prompt.encode import ModelVersion, encode
from whitedwarf.protocol.openai_responses.convert import convert
from whitedwarf.protocol.policy import OFFICIAL, Policy, local

POLICIES = [OFFICIAL, local(ModelVersion.V4), local(ModelVersion.V41)]
OFTEN = settings(max_examples=1000, deadline=None, suppress_health_check=list(HealthCheck))
MANY = 20_000
LONG_S = 30.0  # of the processor, for what takes one second; what is quadratic takes minutes


def answered(body: Any, policy: Policy) -> str | None:
    """None if the body was converted and can be told to the model, or what it was refused with."""
    try:
        result = convert(body, policy)
    except RequestError as error:
        return str(error)
    encode(result.conversation, result.version)
    return None


@pytest.mark.slow
@OFTEN
@given(st.one_of(json_values, damaged(responses_requests)), st.sampled_from(POLICIES))
def test_any_body_is_converted_or_refused_in_words(body: Any, policy: Policy) -> None:
    assert answered(body, policy) != ""


@pytest.mark.slow
@OFTEN
@given(maybe_damaged(responses_requests))
def test_what_the_official_library_takes_we_take_too(body: Any) -> None:
    try:
        version = convert(body, OFFICIAL).version
    except RequestError:
        return
    if version is ModelVersion.V4 and '"tool_search_output"' in json.dumps(body):
        return  # which the official library drops unread for V4
    refusal = answered(body, local(version))
    assert refusal is None or "this server stores no" in refusal


def function(number: int, **more: Any) -> dict[str, Any]:
    return {"type": "function", "name": f"f{number}", **more}


def call(number: int) -> dict[str, Any]:
    return {"type": "function_call", "call_id": f"c{number}", "name": "f", "arguments": "{}"}


def output(number: int | None) -> dict[str, Any]:
    named = {} if number is None else {"call_id": f"c{number}"}
    return {"type": "function_call_output", "output": "x", **named}


TEXT = {"type": "input_text", "text": "x"}
LONG_BODIES: dict[str, dict[str, Any]] = {
    "calls": {"input": [*map(call, range(MANY)), *map(output, range(MANY))]},
    "results without ids": {"input": [*map(call, range(MANY)), *[output(None)] * MANY]},
    "blocks": {"input": [{"role": "user", "content": [TEXT] * MANY}]},
    "answers": {"input": [{"role": "assistant", "content": "x"}] * MANY},
    "thoughts": {"input": [{"type": "reasoning", "content": [{"text": "x"}]}] * MANY},
    "tools": {"input": "x", "tools": list(map(function, range(2_000)))},
    "namespaces of one name": {
        "input": "x",
        "tools": [
            {"type": "namespace", "name": "n", "tools": [function(0, description=str(number))]}
            for number in range(2_000)
        ],
    },
    "unknown items": {"input": [{"type": f"t{number}"} for number in range(MANY)]},
    "searches": {
        "input": [
            item
            for number in range(1_000)
            for item in (
                {"type": "tool_search_call", "call_id": f"s{number}", "arguments": {}},
                {"type": "tool_search_output", "call_id": f"s{number}", "tools": [function(number)]},
            )
        ]
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES, ids=["official", "V4", "V4.1"])
@pytest.mark.parametrize("name", LONG_BODIES)
def test_a_long_body_takes_no_longer_than_its_length(name: str, policy: Policy) -> None:
    body = LONG_BODIES[name] | {"model": "DeepSeek-V4.1-Flash"}
    begin = time.process_time()
    answered(body, policy)
    assert time.process_time() - begin < LONG_S
