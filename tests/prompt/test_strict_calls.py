"""Calls of strict tools: all that the schema says is enforced, also of words without quotes; the rest is refused."""

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, FormatChecker

from prompt.drawing import drawn_ids, may_be
from prompt.streams import parse_ids
from whitedwarf.conversation.json_value import Json
from whitedwarf.conversation.tools import ToolCall, ToolDefinition
from whitedwarf.prompt.call_grammar import WantedCalls
from whitedwarf.prompt.dsml import V4, V41, Dialect, calls_block
from whitedwarf.prompt.grammar import Grammars
from whitedwarf.prompt.parse_options import ParseOptions
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.strict_tool import ToolSchemaError
from whitedwarf.prompt.text_formats import TEXT_FORMATS
from whitedwarf.prompt.text_pattern import text_pattern
from whitedwarf.prompt.tokenizer import Tokenizer

FORMATS = {"date", "ipv4", "ipv6", "uuid", "email"}


@pytest.fixture(scope="session")
def grammars(nano: Tokenizer) -> Grammars:
    return Grammars(nano)


def strict(value: Json, **members: Json) -> ToolDefinition:
    schema: Json = {"type": "object", "properties": {"x": value}, "required": ["x"], "additionalProperties": False}
    return ToolDefinition("f", None, {**schema, **members}, is_strict=True)


def allows(grammars: Grammars, nano: Tokenizer, offered: ToolDefinition, value: Json) -> bool:
    grammar = grammars.of_calls([offered], V4, WantedCalls())
    ids = nano.encode_segments(calls_block([ToolCall("", "f", json.dumps({"x": value}))], V4))
    return may_be(grammar, nano, ids)


@pytest.mark.parametrize(
    ("value", "good", "bad"),
    [
        ({"type": "string", "pattern": "^[a-c]+$"}, ["a", "cab"], ["", "d", "ad"]),
        ({"type": "string", "pattern": "b"}, ["b", "abc", "\nb\n"], ["", "ac"]),
        ({"type": "string", "pattern": "^a|b$"}, ["ax", "xb"], ["xax"]),
        ({"type": "string", "minLength": 2, "maxLength": 3}, ["ab", "ä\n<"], ["", "a", "abcd"]),
        ({"type": "string", "pattern": "^a*$", "maxLength": 2}, ["", "aa"], ["aaa", "b"]),
        ({"type": "string", "enum": ["a", "bc"], "minLength": 2}, ["bc"], ["a"]),
        ({"type": "string", "format": "date"}, ["2024-02-29"], ["2023-02-29", "2024-13-01", "x"]),
        ({"enum": [1, 2]}, [1], ["1", 3]),
        ({"const": "no </ end"}, ["no </ end"], ["no"]),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, [4, None], ["words"]),
        ({"anyOf": [{"type": "string", "maxLength": 1}, {"type": "integer"}]}, [4, "a"], ["ab", True]),
        ({"oneOf": [{"const": "a"}, {"enum": ["b", 3]}]}, ["a", "b", 3], ["c", 4]),
        ({"allOf": [{"type": "string"}, {"minLength": 1}]}, ["a"], [""]),
        ({"$ref": "#/$defs/digit"}, [7], ["seven", "7"]),
        ({"$ref": "#/$defs/word"}, ["abc"], ["ABC", 3]),
        ({"minimum": 3}, ["any", 3, [1]], [2]),
    ],
)
def test_what_a_value_may_be(
    grammars: Grammars, nano: Tokenizer, value: Json, good: list[Json], bad: list[Json]
) -> None:
    definitions: Json = {"digit": {"type": "integer"}, "word": {"type": "string", "pattern": "^[a-z]+$"}}
    offered = strict(value, **{"$defs": definitions})
    assert [one for one in good if not allows(grammars, nano, offered, one)] == []
    assert [one for one in bad if allows(grammars, nano, offered, one)] == []


@pytest.mark.parametrize(
    ("value", "pointer", "what"),
    [
        ({"type": "array", "uniqueItems": True}, "#/properties/x", "uniqueItems"),
        ({"type": "object", "properties": {"a/b": {"not": {}}}}, "#/properties/x/properties/a~1b", "not"),
        ({"type": "string", "pattern": "(?=a)b"}, "#/properties/x/pattern", "look-around"),
        ({"type": "string", "pattern": r"\bword\b"}, "#/properties/x/pattern", "pattern"),
        ({"type": "string", "format": "tasty"}, "#/properties/x/format", "tasty"),
        ({"type": "string", "minLength": 3, "maxLength": 2}, "#/properties/x/maxLength", "minLength"),
        ({"type": "string", "pattern": "^a$", "minLength": 3}, "#/properties/x", "no text"),
        ({"type": "string", "minlength": 3}, "#/properties/x/minlength", "no keyword"),
        ({"type": "string", "not": {"const": "a"}}, "#/properties/x/not", "not"),
        ({"oneOf": [{"pattern": "a"}, {"pattern": "b"}]}, "#/properties/x/oneOf", "alternatives"),
        ({"$ref": "http://x/y"}, "#/properties/x/$ref", "http://x/y"),
        (False, "#/properties/x", ""),
    ],
)
def test_what_cannot_be_enforced_is_refused_with_its_place(
    grammars: Grammars, value: Json, pointer: str, what: str
) -> None:
    with pytest.raises(ToolSchemaError, match="Leave `strict` off") as refused:
        grammars.of_calls([strict(value)], V4, WantedCalls())
    assert refused.value.pointer == pointer
    assert what in str(refused.value)
    loose = ToolDefinition("f", None, strict(value).parameters)
    grammars.of_calls([loose], V4, WantedCalls())


@pytest.mark.parametrize(
    ("members", "pointer"),
    [
        ({"anyOf": [{"required": ["x"]}]}, "#/anyOf"),
        ({"patternProperties": {"a": {}}}, "#/patternProperties"),
        ({"required": ["x", "gone"]}, "#/required/1"),
        ({"type": "array"}, "#/type"),
        ({"properties": 3}, "#/properties"),
    ],
)
def test_all_parameters_together_are_held_to_no_more_than_a_call_can(
    grammars: Grammars, members: dict[str, Json], pointer: str
) -> None:
    with pytest.raises(ToolSchemaError) as refused:
        grammars.of_calls([strict({}, **members)], V4, WantedCalls())
    assert refused.value.pointer == pointer


def test_words_about_a_schema_are_no_fault_of_it(grammars: Grammars, nano: Tokenizer) -> None:
    offered = strict({"type": "string", "title": "X", "default": "a", "x-order": 1}, title="F", description="It does.")
    assert allows(grammars, nano, offered, "anything")


@pytest.mark.parametrize("reference", ["#", "#/properties/x", "http://x/y"])
def test_a_reference_into_the_rest_of_a_tool_is_refused_or_anything(
    grammars: Grammars, nano: Tokenizer, reference: str
) -> None:
    value: Json = {"type": "array", "items": {"$ref": reference}}
    with pytest.raises(ToolSchemaError) as refused:
        grammars.of_calls([strict(value)], V4, WantedCalls())
    assert refused.value.pointer == "#/properties/x/items/$ref"
    loose = ToolDefinition("f", None, strict(value).parameters)
    assert allows(grammars, nano, loose, ["not an array"])


def test_definitions_that_fork_at_every_step_take_no_time(grammars: Grammars, nano: Tokenizer) -> None:
    definitions: dict[str, Json] = {
        f"a{step}": {"anyOf": [{"$ref": f"#/$defs/a{step + 1}"}, {"$ref": f"#/$defs/a{step + 1}"}]}
        for step in range(40)
    }
    definitions["a40"] = {"type": "string", "maxLength": 3}
    offered = strict({"$ref": "#/$defs/a0"}, **{"$defs": definitions})
    assert allows(grammars, nano, offered, "abc")
    assert not allows(grammars, nano, offered, "abcd")


def test_definitions_that_lead_to_themselves_are_refused(grammars: Grammars) -> None:
    definitions: Json = {"a": {"anyOf": [{"$ref": "#/$defs/b"}, {"type": "string"}]}, "b": {"$ref": "#/$defs/a"}}
    with pytest.raises(ToolSchemaError, match="itself"):
        grammars.of_calls([strict({"$ref": "#/$defs/a"}, **{"$defs": definitions})], V4, WantedCalls())


values = st.sampled_from(
    [
        *[{"type": "string", "format": name} for name in sorted(TEXT_FORMATS)],
        {"type": "string", "pattern": r"^\d{3}-[^a-z\s]\w?$"},
        {"type": "string", "pattern": "x", "maxLength": 4},
        {"type": ["string", "null"], "minLength": 1, "maxLength": 4},
        {"anyOf": [{"enum": ["a", 1]}, {"type": "boolean"}]},
        {"type": "array", "items": {"type": "string", "pattern": "^[ab]$"}, "maxItems": 3},
    ]
)


@pytest.mark.parametrize("dialect", [V4, V41], ids=["V4", "V4.1"])
@settings(max_examples=60, deadline=None)
@given(value=values, seed=st.integers(0, 10_000))
def test_any_draw_is_a_call_with_arguments_of_the_schema(
    grammars: Grammars, nano: Tokenizer, dialect: Dialect, value: Any, seed: int
) -> None:
    offered = strict(value)
    grammar = grammars.of_calls([offered], dialect, WantedCalls(is_single=True))
    ids = drawn_ids(grammar, nano, seed, ("</", '"', "]"), [nano.special_id(SpecialToken.DSML)])
    if ids is None:
        return
    said = parse_ids([[one] for one in ids], ParseOptions(), nano)
    ((name, arguments),) = said.finished
    assert name == "f"
    schema: Any = offered.parameters
    Draft202012Validator(schema, format_checker=FormatChecker(FORMATS)).validate(json.loads(arguments))


@given(
    st.text(alphabet="ab^$|()[].-\\dws*?", max_size=8).filter(lambda text: "(?" not in text),
    st.text(alphabet="ab1- \n", max_size=5),
)
def test_whatever_an_expression_for_texts_matches_the_pattern_is_found_in(pattern: str, text: str) -> None:
    try:
        expected = re.compile(pattern)
        told = re.compile(in_python(text_pattern(pattern)))
    except (ValueError, re.error, FutureWarning):
        return
    if told.fullmatch(text):
        assert expected.search(text) is not None


def in_python(expression: str) -> str:
    """An expression as Python spells it."""
    spelt = re.sub(r"\\x\{([0-9A-F]+)\}", lambda found: f"\\u{int(found[1], 16):04x}", expression)
    return spelt.replace("\\p{Zs}", "")
