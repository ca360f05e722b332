"""Typed reading of JSON values, in serde's words."""

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.official_errors import body_error, request_error
from protocol.vectors import load
from whitedwarf.protocol.failures import MalformedRequest, RequestError
from whitedwarf.protocol.fields import (
    Reader,
    list_of,
    map_of,
    number,
    optional,
    quoted,
    record,
    required,
    round_to_single,
    signed,
    single,
    string,
    tagged,
    unsigned,
    variant,
    word_for,
)
from whitedwarf.protocol.openai_chat.convert import convert
from whitedwarf.protocol.policy import OFFICIAL


def error_of(read: Reader, value: Any) -> str:
    with pytest.raises(MalformedRequest) as caught:
        read(value)
    return str(caught.value)


@pytest.mark.parametrize(
    "value",
    [
        True,
        5,
        -1,
        2**64 - 1,
        1.0,
        -0.0,
        1e15,
        1e16,
        1e20,
        1e-5,
        1e-7,
        0.1,
        2.5e-10,
        1.5e-5,
        123456789012345680.0,
        [],
        {},
    ],
)
def test_a_value_is_called_what_serde_calls_it(value: Any) -> None:
    assert body_error({"messages": [], "model": value}) == (
        f"invalid request body: invalid type: {word_for(value)}, expected a string"
    )


@pytest.mark.parametrize(
    "text",
    ["", 'a"b\\\n\r\t\0', "\x7f\u200b\u00e9\U0001f600'", "e\u0301", "\u2028 ", "\u0995\u09be\u0903 \uff8a\uff9f"],
)
def test_a_text_is_quoted_as_rust_does(text: str) -> None:
    expected = f"invalid request body: invalid type: string {quoted(text)}, expected u8"
    assert body_error({"messages": [], "model": "m", "n": text}) == expected


def test_integers_keep_within_their_bits() -> None:
    assert (unsigned(8)(255), signed(8)(-128)) == (255, -128)
    assert error_of(unsigned(8), 256) == "invalid value: integer `256`, expected u8"
    assert error_of(signed(8), 128) == "invalid value: integer `128`, expected i8"
    assert error_of(unsigned(8), 5.0) == "invalid type: floating point `5.0`, expected u8"
    assert error_of(unsigned(8), True) == "invalid type: boolean `true`, expected u8"


def test_a_single_is_rounded_to_32_bits() -> None:
    assert single(0.3) == 0.30000001192092896
    assert single(1e300) == float("inf") == -round_to_single(-1e300)
    assert error_of(single, True) == "invalid type: boolean `true`, expected f32"


def test_a_number_stays_as_it_is() -> None:
    assert repr([number(5), number(0.3)]) == "[5, 0.3]"
    assert error_of(number, "5") == 'invalid type: string "5", expected a JSON number'


def test_a_variant_may_stand_as_the_key_of_an_object() -> None:
    read = variant("low", "high")
    assert (read("low"), read({"high": None})) == ("low", "high")
    assert error_of(read, "x") == "unknown variant `x`, expected `low` or `high`"
    assert error_of(read, {"high": 5}) == "invalid type: integer `5`, expected unit"
    assert error_of(read, {}) == "invalid value: map, expected map with a single key"
    assert error_of(read, 5) == "invalid type: integer `5`, expected string or map"


def test_lists_and_maps_tell_of_their_first_bad_item() -> None:
    assert list_of(string)(["a"]) == ["a"]
    assert map_of(string)({"k": "a"}) == {"k": "a"}
    assert error_of(list_of(string), ["a", 5, None]) == "invalid type: integer `5`, expected a string"
    assert error_of(map_of(string), []) == "invalid type: sequence, expected a map"


PAIR = record("Pair", {"left": required(string), "right": optional(string)}, dict)


def test_a_record_has_its_members_in_the_declared_order_and_no_others() -> None:
    assert list(PAIR({"right": "r", "x": 1, "left": "l"}).items()) == [("left", "l"), ("right", "r")]


def test_null_is_absent_for_an_optional_member_only() -> None:
    assert PAIR({"left": "l", "right": None}) == {"left": "l", "right": None} == PAIR({"left": "l"})
    assert error_of(PAIR, {"left": None}) == "invalid type: null, expected a string"
    assert error_of(PAIR, {}) == "missing field `left`"


def test_the_first_error_in_document_order_is_told() -> None:
    assert error_of(PAIR, {"right": 1, "left": 2}) == "invalid type: integer `1`, expected a string"


def test_a_list_of_all_members_is_a_record() -> None:
    assert PAIR(["l", None]) == {"left": "l", "right": None}
    assert error_of(PAIR, ["l"]) == "invalid length 1, expected struct Pair with 2 elements"
    assert error_of(PAIR, ["l", "r", 1]) == "invalid length 3, expected fewer elements in array"
    assert error_of(PAIR, [1]) == "invalid type: integer `1`, expected a string"
    assert error_of(PAIR, 5) == "invalid type: integer `5`, expected struct Pair"


def test_a_member_with_a_default_may_be_missing_from_a_list() -> None:
    read = record("Image", {"url": required(string), "detail": optional(string, default="high")}, dict)
    assert read(["u"]) == {"url": "u", "detail": "high"}
    assert error_of(read, []) == "invalid length 0, expected struct Image with 2 elements"


SHAPE = tagged("Shape", {"dot": record("variant Shape::Dot", {"at": required(PAIR)}, dict)})


def test_a_tag_tells_the_kind() -> None:
    dot = {"at": {"left": "l", "right": None}}
    assert SHAPE({"at": ["l", None], "type": "dot"}) == dot == SHAPE(["dot", ["l", None]])
    assert error_of(SHAPE, {}) == "missing field `type`" == error_of(SHAPE, [])
    assert error_of(SHAPE, {"type": 5}) == "invalid type: integer `5`, expected variant identifier"
    assert error_of(SHAPE, {"type": "x"}) == "unknown variant `x`, expected `dot`"
    assert error_of(SHAPE, "dot") == 'invalid type: string "dot", expected internally tagged enum Shape'


def test_lists_within_a_tagged_object_are_told_of_in_other_words() -> None:
    assert error_of(SHAPE, ["dot"]) == "invalid length 0, expected struct variant Shape::Dot with 1 element"
    assert error_of(SHAPE, ["dot", ["l", None], 1]) == "invalid length 2, expected 1 element in sequence"
    assert error_of(SHAPE, {"type": "dot", "at": ["l", None, 1]}) == "invalid length 3, expected 2 elements in sequence"


RICH: dict[str, Any] = {
    "messages": [
        {"role": "system", "content": "json", "name": "n"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "x"},
                {"type": "image_url", "image_url": {"url": "http://x", "detail": "low"}},
                {"type": "file", "file_data": "data:image/png;base64,AA", "filename": "f"},
            ],
        },
        {
            "role": "assistant",
            "content": "c",
            "reasoning_content": "r",
            "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "1", "content": "x"},
        {"role": "latest_reminder", "content": "x"},
    ],
    "model": "DeepSeek-V4.1-Flash",
    "stream": True,
    "stream_options": {"include_usage": True},
    "temperature": 1.0,
    "top_p": 0.5,
    "max_tokens": 5,
    "n": 1,
    "stop": ["a"],
    "seed": 5,
    "logprobs": True,
    "top_logprobs": 1,
    "presence_penalty": 0,
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}, "strict": False}}],
    "tool_choice": {"type": "function", "function": {"name": "f"}},
    "response_format": {"type": "json_schema", "json_schema": {"schema": {}, "name": "x", "strict": False}},
    "thinking": {"type": "disabled", "budget_tokens": 5},
    "reasoning_effort": "high",
}
REQUESTS = [RICH] * 50 + [vector["request"] for vector in load("chat") if isinstance(vector.get("request"), dict)]
WRONG = """[
    null, true, 0, -1, 256, 4294967296, 18446744073709551615, -9223372036854775808, 1.5, 1e20, -1e-7,
    "", "x", "text", "function", "é\\n\\"\\\\", [], [1], [null], ["x"], ["text"], ["function", {"name": "f"}], [{}],
    ["user", "x", null], ["text", "x", "y"], ["enabled", 5], {}, {"type": "text"}, {"high": null}, {"role": "user"},
    {"enabled": null, "b": 1}, {"function": 5}
]"""
Place = tuple[str | int, ...]


def _places(value: Any, place: Place = ()) -> Iterator[Place]:
    """Where in a value other values stand."""
    if place:
        yield place
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from _places(value[key], (*place, key))


def _replaced(value: Any) -> Any:
    return st.sampled_from(json.loads(WRONG))


def _listed(value: Any) -> Any:
    return st.just(list(value.values()) if isinstance(value, dict) else [value])


def _reversed(value: Any) -> Any:
    return st.just(dict(reversed(value.items())) if isinstance(value, dict) else value)


@st.composite
def spoilt_requests(draw: Callable[[Any], Any]) -> dict[str, Any]:
    """A good request in which something at a random place has been put in the place of something else."""
    request: dict[str, Any] = copy.deepcopy(draw(st.sampled_from(REQUESTS)))
    *way, last = draw(st.sampled_from(list(_places(request))))
    around: Any = request
    for key in way:
        around = around[key]
    change = draw(st.sampled_from([_replaced, _replaced, _replaced, _listed, _reversed]))
    around[last] = draw(change(around[last]))
    return request


@pytest.mark.slow
@settings(max_examples=2000)
@given(spoilt_requests())
def test_a_spoilt_request_has_the_official_error(request: dict[str, Any]) -> None:
    try:
        convert(request, OFFICIAL)
        ours = None
    except MalformedRequest as error:
        ours = f"invalid request body: {error}"
    except RequestError as error:
        ours = str(error)
    assert ours == request_error(request)
