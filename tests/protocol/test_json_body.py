"""Bodies of requests: what is read, and in which words the rest is refused."""

import json
import math
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.official_errors import body_error
from whitedwarf.protocol.failures import InvalidJson, MalformedRequest
from whitedwarf.protocol.json_body import checked, read_json

PREFIX = "invalid JSON request: "


def error_of(body: bytes | str) -> str | None:
    try:
        read_json(body)
    except InvalidJson as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("null", None),
        (' {"b": [1, true], "a": "é"}\n', {"b": [1, True], "a": "é"}),
        ('"\\ud83d\\ude00 \\u00e9\\/"', "😀 é/"),
        ("18446744073709551615", 2**64 - 1),
        ("-9223372036854775808", -(2**63)),
        ("18446744073709551616", 2.0**64),
        ("-9223372036854775809", -(2.0**63)),
        ("1e-400", 0.0),
        ("0e999999999999", 0.0),
    ],
)
def test_a_value_is_read(text: str, value: object) -> None:
    assert repr(read_json(text)) == repr(read_json(text.encode())) == repr(value)


def test_minus_zero_is_a_float() -> None:
    assert math.copysign(1, read_json("-0")) == -1  # type: ignore[arg-type]
    assert isinstance(read_json("-0"), float)
    assert isinstance(read_json("0"), int)


def test_of_a_key_given_twice_the_last_value_stands_in_the_first_place() -> None:
    assert json.dumps(read_json('{"a": 1, "b": 2, "a": 3}')) == '{"a": 3, "b": 2}'


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "EOF while parsing a value at line 1 column 0"),
        ("\n", "EOF while parsing a value at line 2 column 0"),
        ('{"a": 1', "EOF while parsing an object at line 1 column 7"),
        ("[1,\n2", "EOF while parsing a list at line 2 column 1"),
        ('"abc', "EOF while parsing a string at line 1 column 4"),
        ("nul", "EOF while parsing a value at line 1 column 3"),
        ("nulx", "expected ident at line 1 column 4"),
        ("{} x", "trailing characters at line 1 column 4"),
        ("[1,]", "trailing comma at line 1 column 4"),
        ("[1 2]", "expected `,` or `]` at line 1 column 4"),
        ('{"a":1 "b"}', "expected `,` or `}` at line 1 column 8"),
        ('{"a" 1}', "expected `:` at line 1 column 6"),
        ("{1:2}", "key must be a string at line 1 column 2"),
        ("NaN", "expected value at line 1 column 1"),
        ("-Infinity", "invalid number at line 1 column 2"),
        ("01", "invalid number at line 1 column 2"),
        ("1e400", "number out of range at line 1 column 5"),
        ("1e99999999999", "number out of range at line 1 column 12"),
        ('"\\x"', "invalid escape at line 1 column 3"),
        ('"\\ud800x"', "unexpected end of hex escape at line 1 column 8"),
        ('"\\udc00"', "lone leading surrogate in hex escape at line 1 column 7"),
        ('"a\tb"', "control character (\\u0000-\\u001F) found while parsing a string at line 1 column 3"),
        ("\ufeff{}", "expected value at line 1 column 1"),
        (b'"\xff"', "invalid unicode code point at line 1 column 3"),
        (b"\xff", "expected value at line 1 column 1"),
        ("[" * 128 + "]" * 128, "recursion limit exceeded at line 1 column 128"),
    ],
)
def test_what_is_no_json_is_refused_in_the_official_words(text: bytes | str, error: str) -> None:
    assert error_of(text) == PREFIX + error == body_error(text)


def test_127_arrays_within_one_another_are_read() -> None:
    assert error_of("[" * 127 + "]" * 127) is None


def test_half_a_character_is_refused_in_text_that_python_holds() -> None:
    assert "surrogates not allowed" in str(error_of('"\ud800"'))


@pytest.mark.parametrize(
    "body",
    [
        b'"' + b"\\n" * 10_000_000,
        b"[" * 10_000_000,
        b'{"a":' * 10_000,
        b"1" * 1_000_000,
        b"-0." + b"0" * 1_000_000 + b"1e1000000",
        b"1e" + b"9" * 1_000_000,
        b"[" + b"1," * 1_000_000 + b"]",
        b"{" + b'"key": "value", ' * 100_000 + b"}",
        b" " * 10_000_000,
    ],
    ids=["string", "arrays", "objects", "digits", "zeros", "exponent", "items", "members", "blanks"],
)
def test_a_hostile_body_is_read_or_refused_in_little_time(body: bytes) -> None:
    started = time.process_time()
    error_of(body)
    assert time.process_time() - started < 20


def test_python_values_are_held_to_the_limits_of_text() -> None:
    value = {"a": [1, "é", None]}
    assert checked(value) is value
    deep: list[object] = []
    for _ in range(200):
        deep = [deep]
    for bad in (deep, 2**64, math.nan, "\ud800", {1: 2}, {1}):
        with pytest.raises(MalformedRequest):
            checked(bad)  # type: ignore[arg-type]


PIECES = [
    *("{", "}", "[", "]", ",", ":", '"', '"a"', '"b":', "1", "-", "0", ".", "e", "E", "+", "true", "false", "null"),
    *(" ", "\n", "\\", "\\u", "d800", "\\ud83d", "\\ude00", "dc00", "é", "\x01", "\x7f", "x", "1e400", "2147483648"),
    *("99999999999999999999", "NaN", "Infinity", "[[[[", '{"a":[', "\ufeff", "\r\t"),
]
BYTES = [*(piece.encode() for piece in PIECES), b"\xff", b"\xc3", b"\xa9", b"\xed\xa0\x80"]
FRAMES = [
    (b"", b""),
    (b'{"a":', b"}"),
    (b"[", b"]"),
    (b'["', b'",1]'),
    (b"[1", b"]"),
    (b"[1e", b"]"),
    (b'{"a\n":1,', b""),
]


@pytest.mark.slow
@settings(max_examples=4000)
@given(st.sampled_from(FRAMES), st.lists(st.sampled_from(BYTES), max_size=9))
def test_scraps_of_json_are_refused_exactly_where_the_official_library_does(
    frame: tuple[bytes, bytes], scraps: list[bytes]
) -> None:
    body = frame[0] + b"".join(scraps) + frame[1]
    theirs = body_error(body)
    assert error_of(body) == (theirs if str(theirs).startswith(PREFIX) else None)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(JSON, st.booleans(), st.sampled_from([None, 2]))
def test_whatever_python_writes_comes_back(value: object, is_ascii: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=is_ascii, indent=indent)
    assert repr(read_json(text.encode())) == repr(value)


@pytest.mark.parametrize("value", [b"[],", b"1,", b'{"a":1},', b"[[[[", b"["])
def test_a_body_of_more_values_than_any_prompt_has_is_refused_at_once(value: bytes) -> None:
    body = b'{"messages": [' + value * (60_000_000 // len(value))
    started_s = time.process_time()
    with pytest.raises(InvalidJson, match="at most 2,000,000 values"):
        read_json(body)
    assert time.process_time() - started_s < 2.5  # others wait meanwhile; eight seconds if it is read


def test_a_large_body_of_few_values_is_read() -> None:
    text = "A picture, or words, with commas here and there; [so] {what}? " * 100_000
    assert read_json(json.dumps([text, "A" * 20_000_000]).encode()) == [text, "A" * 20_000_000]
