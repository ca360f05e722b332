"""Whatever a body holds, converting it gives a result or a RequestError, and in bounded time."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fakes.chat_requests import chat_requests
from fakes.conversation_dumps import json_values
from fakes.damage import ODD_VALUES, damaged, places
from fakes.growth import TIMES, check_growth
from protocol.openai_chat.chat_bodies import ASK, RUN, call, calls, result
from whitedwarf.errors import RequestError
from whitedwarf.prompt.encode import ModelVersion, encode
from whitedwarf.protocol import completions
from whitedwarf.protocol.converted import Converted
from whitedwarf.protocol.failures import InvalidJson
from whitedwarf.protocol.json_body import read_json
from whitedwarf.protocol.openai_chat import convert as chat
from whitedwarf.protocol.policy import OFFICIAL, Policy, local

Convert = Callable[[Any, Policy], Converted[Any]]
CONVERTS: list[Convert] = [chat.convert, completions.convert]
POLICIES = [OFFICIAL, local(ModelVersion.V4), local(ModelVersion.V41)]
LONG = 3_000_000  # bytes; and TIMES as many
MANY = 1_000  # things; and TIMES as many

FIELDS = [
    *("model", "messages", "stream", "stream_options", "temperature", "top_p", "max_tokens", "max_completion_tokens"),
    *("n", "stop", "seed", "logprobs", "top_logprobs", "presence_penalty", "frequency_penalty", "tools", "functions"),
    *("tool_choice", "function_call", "parallel_tool_calls", "response_format", "thinking", "think", "reasoning"),
    *("enable_thinking", "chat_template_kwargs", "reasoning_effort", "output_config", "top_k", "min_p", "user"),
    *("prompt", "suffix", "echo", "best_of"),
]
WHOLE: dict[str, Any] = {
    "model": "DeepSeek-V4.1-Flash",
    "messages": [
        {"role": "system", "content": "a", "name": "n"},
        {
            "role": "user",
            "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "http"}}],
        },
        {"role": "user", "content": [{"type": "file", "file_data": "data:image/png;base64,AAAA", "filename": "f"}]},
        calls(call("c1"), call("c2"), reasoning_content="r"),
        result("c1"),
        result("c2", [{"type": "text", "text": "b"}]),
        {"role": "latest_reminder", "content": "c"},
        {"role": "assistant", "content": "d", "function_call": {"name": "f", "arguments": "{}"}},
    ],
    "tools": [RUN, {"type": "custom", "custom": {"name": "p", "format": {"type": "grammar", "definition": "g"}}}],
    "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"name": "run"}]}},
    "response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "object"}, "strict": True}},
    "stream_options": {"include_usage": True},
    "thinking": {"type": "enabled", "budget_tokens": 5},
    "chat_template_kwargs": {"thinking": True},
    "reasoning": {"effort": "low"},
    "stop": ["x"],
    "prompt": ["p"],
}


def failure_of(convert: Convert, body: Any, policy: Policy) -> RequestError | None:
    """Convert and encode; the error, where it is one of those that a client is told."""
    try:
        converted = convert(body, policy)
    except RequestError as error:
        return error
    encode(converted.conversation, converted.version)
    return None


def check_all(body: Any) -> None:
    """Convert under every policy: nothing but RequestError may be raised."""
    for policy in POLICIES:
        for convert in CONVERTS:
            failure = failure_of(convert, body, policy)
            assert failure is None or str(failure)


@settings(max_examples=100, suppress_health_check=list(HealthCheck))
@given(st.one_of(json_values, st.dictionaries(st.sampled_from(FIELDS), json_values, max_size=4)))
def test_any_json_is_converted_or_refused(body: Any) -> None:
    check_all(body)


@pytest.mark.slow
@settings(max_examples=500, suppress_health_check=list(HealthCheck))
@given(damaged(chat_requests))
def test_damaged_requests_are_converted_or_refused(body: Any) -> None:
    check_all(body)


def with_odd_value(place: int, odd: Any) -> Any:
    body = json.loads(json.dumps(WHOLE))
    parent, key = list(places(body))[place]
    parent[key] = odd
    return body


@pytest.mark.parametrize("odd", ODD_VALUES, ids=repr)
def test_a_wrong_value_at_any_place_is_converted_or_refused(odd: Any) -> None:
    for place in range(len(list(places(WHOLE)))):
        check_all(with_odd_value(place, odd))


@pytest.mark.parametrize("name", FIELDS)
def test_a_member_of_any_wrong_type_is_converted_or_refused(name: str) -> None:
    for odd in ODD_VALUES:
        check_all(WHOLE | {name: odd})


@pytest.mark.parametrize("opening", ["[", '{"a":', '{"messages":[', '{"tools":[{"function":{"parameters":{"a":'])
def test_nesting_without_end_is_no_json(opening: str) -> None:
    with pytest.raises(InvalidJson):
        read_json(opening * 10_000)


def nested(depth: int) -> list[Any]:
    """Lists and objects, as many within one another."""
    return [json.loads("[" * depth + "1" + "]" * depth), json.loads('{"a":' * depth + "1" + "}" * depth)]


def test_the_deepest_json_that_is_read_is_converted_or_refused() -> None:
    for deep in nested(120):
        for body in (
            {"messages": deep},
            {"messages": [{"role": "user", "content": deep}]},
            {"messages": [ASK], "tools": [{"function": deep}]},
            {"messages": [ASK], "tools": [{"name": "f", "parameters": deep}]},
            {"messages": [ASK], "response_format": {"type": "json_schema", "json_schema": {"schema": deep}}},
        ):
            check_all(read_json(json.dumps(body)))
            check_all(read_json(json.dumps({"model": "DeepSeek-V4-Pro", **body})))


@pytest.mark.slow
@pytest.mark.parametrize(
    "body_of",
    [
        lambda long: {"messages": [{"role": "user", "content": long}]},
        lambda long: {
            "messages": [{"role": "assistant", "content": long}],
            "response_format": {"type": "json_object"},
        },
        lambda long: {"messages": [{"role": long, "content": "a"}]},
        lambda long: {"messages": [{"role": "user", "content": [{"type": long}]}]},
        lambda long: {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": long}}]}]},
        lambda long: {"messages": [calls(call(long, long, long)), result(long, long)]},
        lambda long: {"messages": [ASK], "model": long},
        lambda long: {"messages": [ASK], "tools": [{"function": {"name": long}}]},
        lambda long: {"messages": [ASK], "tools": [{"function": {"name": "f", "description": long}}]},
        lambda long: {"messages": [ASK], "tool_choice": long, "thinking": long},
        lambda long: {"messages": [ASK], "reasoning_effort": long},
        lambda long: {"messages": [ASK], "temperature": long},
        lambda long: {"messages": [ASK], long: 1},
        lambda long: {"prompt": long},
    ],
)
def test_time_grows_with_the_megabytes_in_one_place_and_no_faster(body_of: Callable[[str], dict[str, Any]]) -> None:
    def convert_all(body: dict[str, Any]) -> None:
        for policy in POLICIES:
            for convert in CONVERTS:
                failure = failure_of(convert, {"model": "DeepSeek-V4-Pro", **body}, policy)
                assert failure is None or policy.is_official or len(str(failure)) < 1000

    check_growth(convert_all, body_of("a" * LONG), body_of("a" * TIMES * LONG))


def numbered_tools(count: int) -> list[dict[str, Any]]:
    return [{"type": "function", "function": {"name": str(number)}} for number in range(count)]


def numbered_calls(count: int) -> list[dict[str, Any]]:
    return [call(f"c{number}") for number in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "members_of",
    [
        lambda many: {"messages": [ASK] * many},
        lambda many: {"messages": [ASK, calls(*numbered_calls(many)), *(result(f"c{n}") for n in range(many))]},
        lambda many: {"messages": [ASK, calls(*numbered_calls(many)), *(result(None) for _ in range(many))]},
        lambda many: {
            "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http"}}] * many}]
        },
        lambda many: {"messages": [{"role": "user", "content": [{"type": str(number)} for number in range(many)]}]},
        lambda many: {"messages": [ASK], "tools": numbered_tools(many)},
        lambda many: {"messages": [ASK], "stop": [str(number) for number in range(many)]},
        lambda many: {"messages": [ASK], **{str(number): number for number in range(many)}},
    ],
    ids=["messages", "results", "results_without_ids", "images", "blocks", "tools", "stops", "members"],
)
def test_time_grows_with_the_number_of_things_and_no_faster(members_of: Callable[[int], dict[str, Any]]) -> None:
    def convert_all(members: dict[str, Any]) -> None:
        for policy in POLICIES:
            for model in ("DeepSeek-V4-Pro", "DeepSeek-V4.1-Flash"):
                failure_of(chat.convert, {"model": model, **members}, policy)

    check_growth(convert_all, members_of(MANY), members_of(TIMES * MANY))
