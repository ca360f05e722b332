"""Calls that have to come: whatever is drawn is read as calls of offered tools, with arguments of their schemas."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from prompt.drawing import drawn_ids, may_be
from prompt.streams import parse_ids
from whitedwarf.conversation.json_value import Json
from whitedwarf.conversation.tools import ToolCall, ToolDefinition
from whitedwarf.prompt.dsml import V4, V41, Dialect, calls_block
from whitedwarf.prompt.grammar import Grammars
from whitedwarf.prompt.parse_options import ParseOptions
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer

in_each_dialect = pytest.mark.parametrize("dialect", [V4, V41], ids=["V4", "V4.1"])
CLOSERS = ("</", '"', "}", "]", "0")


@pytest.fixture(scope="session")
def grammars(nano: Tokenizer) -> Grammars:
    return Grammars(nano)


def tool(name: str, *required: str, **properties: Json) -> ToolDefinition:
    schema: Json = {"type": "object", "properties": properties, "required": list(required)}
    return ToolDefinition(name, None, schema)


parts: st.SearchStrategy[Json] = st.sampled_from(
    [
        {"type": "string"},
        {"type": "integer", "minimum": 0},
        {"type": ["string", "null"]},
        {"enum": ["a b", 'q"', "</", 3]},
        {"type": "string", "enum": ["x", "y"]},
        {"type": "array", "items": {"enum": [1, "two"]}, "maxItems": 2},
        {
            "type": "object",
            "properties": {"in": {"type": "boolean"}},
            "required": ["in"],
            "additionalProperties": False,
        },
        {"anyOf": [{"type": "string"}, {"type": "boolean"}]},
        {"const": None},
    ]
)
names = st.sampled_from(["cmd", "string", "a b", "ключ", "x-y.z"])


@st.composite
def tools(draw: st.DrawFn) -> list[ToolDefinition]:
    listed = []
    for name in draw(st.lists(st.sampled_from(["run", "note_add", "a.b"]), min_size=1, max_size=3, unique=True)):
        properties = draw(st.dictionaries(names, parts, max_size=4))
        listed.append(tool(name, *[one for one in properties if draw(st.booleans())], **properties))
    return listed


@in_each_dialect
@settings(max_examples=40, deadline=None)
@given(offered=tools(), seed=st.integers(0, 1000), is_opened=st.booleans())
def test_any_draw_is_calls_with_arguments_of_the_schema(
    grammars: Grammars, nano: Tokenizer, dialect: Dialect, offered: list[ToolDefinition], seed: int, is_opened: bool
) -> None:
    grammar = grammars.of_calls(offered, dialect, is_opened=is_opened)
    ids = drawn_ids(grammar, nano, seed, CLOSERS, [nano.special_id(SpecialToken.DSML)])
    if ids is None:
        return
    said = parse_ids([[one] for one in ids], ParseOptions(starts_in_tool_calls=is_opened), nano)
    assert said.finished
    assert (said.text, said.repairs) == ("", ())
    for name, arguments in said.finished:
        (called,) = [one for one in offered if one.name == name]
        assert isinstance(called.parameters, dict)
        Draft202012Validator({**called.parameters, "additionalProperties": False}).validate(json.loads(arguments))


def written(nano: Tokenizer, dialect: Dialect, *calls: tuple[str, Any]) -> list[int]:
    return nano.encode_segments(calls_block([ToolCall("", name, json.dumps(said)) for name, said in calls], dialect))


EDIT = tool("edit", "path", path={"type": "string"}, times={"type": "integer"}, how={"enum": ["fast", "slow"]})
PATH = {"path": 'a "b"\n</div> & <x>'}


@in_each_dialect
@pytest.mark.parametrize(
    ("calls", "is_allowed"),
    [
        ([("edit", PATH)], True),
        ([("edit", {**PATH, "times": 3, "how": "slow"}), ("stop", {})], True),
        ([("edit", {**PATH, "how": "slow"}), ("edit", PATH)], True),
        ([("free", {"any": 1, "thing": "at all"})], True),
        ([("free", {})], True),
        ([("edit", {})], False),  # no path
        ([("edit", {"path": 3})], False),
        ([("edit", {**PATH, "times": "3"})], False),
        ([("edit", {**PATH, "how": "sloppy"})], False),
        ([("edit", {**PATH, "more": 1})], False),
        ([("stop", {"now": True})], False),
        ([("delete", PATH)], False),
        ([], False),
    ],
)
def test_what_may_be_called(
    grammars: Grammars, nano: Tokenizer, dialect: Dialect, calls: list[tuple[str, Any]], is_allowed: bool
) -> None:
    offered = [EDIT, tool("stop"), ToolDefinition("free", None, {"type": "object"})]
    grammar = grammars.of_calls(offered, dialect, is_opened=False)
    assert may_be(grammar, nano, written(nano, dialect, *calls)) is is_allowed


@pytest.mark.parametrize("schema", [{"not": {}}, {"type": "array", "uniqueItems": True}, {"$ref": "http://x/y"}, True])
def test_a_part_of_a_schema_that_cannot_be_enforced_is_any_json(
    grammars: Grammars, nano: Tokenizer, schema: Json
) -> None:
    grammar = grammars.of_calls([tool("f", "x", x=schema)], V4, is_opened=False)
    assert may_be(grammar, nano, written(nano, V4, ("f", {"x": [1, {"a": None}]})))
    assert not may_be(grammar, nano, written(nano, V4, ("f", {})))


def test_definitions_of_a_tool_are_known_to_its_parameters(grammars: Grammars, nano: Tokenizer) -> None:
    schema: Json = {"properties": {"x": {"$ref": "#/$defs/digit"}}, "$defs": {"digit": {"enum": [1, 2]}}}
    grammar = grammars.of_calls([ToolDefinition("f", None, schema)], V4, is_opened=False)
    assert may_be(grammar, nano, written(nano, V4, ("f", {"x": 2})))
    assert not may_be(grammar, nano, written(nano, V4, ("f", {"x": 3})))


@pytest.mark.parametrize("parameters", [None, True, {}, {"properties": 3, "required": 4}, {"required": ["gone"]}])
def test_whatever_a_client_calls_parameters_there_is_a_call(
    grammars: Grammars, nano: Tokenizer, parameters: Json
) -> None:
    grammar = grammars.of_calls([ToolDefinition('odd "name"\\', None, parameters)], V4, is_opened=False)
    assert may_be(grammar, nano, written(nano, V4, ('odd "name"\\', {})))


def test_the_same_tools_are_compiled_once(grammars: Grammars) -> None:
    first, again = (grammars.of_calls([tool("f", x={"type": "string"})], V4, is_opened=True) for _ in range(2))
    assert first is again
    assert grammars.of_calls([tool("f", y={"type": "string"})], V4, is_opened=True) is not first
