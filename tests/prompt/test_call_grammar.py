"""Calls that have to come: whatever is drawn is read as calls of offered tools, with arguments of their schemas."""

import json
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from prompt.drawing import drawn_ids, may_be
from prompt.streams import parse_ids
from whitedwarf.conversation.json_value import Json
from whitedwarf.conversation.tools import ToolCall, ToolDefinition
from whitedwarf.errors import RequestError
from whitedwarf.prompt.call_grammar import InputForm, WantedCalls
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
    grammar = grammars.of_calls(offered, dialect, WantedCalls("tag" if is_opened else ""))
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
    grammar = grammars.of_calls(offered, dialect, WantedCalls())
    assert may_be(grammar, nano, written(nano, dialect, *calls)) is is_allowed


@pytest.mark.parametrize("schema", [{"not": {}}, {"type": "array", "uniqueItems": True}, {"$ref": "http://x/y"}, True])
def test_a_part_of_a_schema_that_cannot_be_enforced_is_any_json(
    grammars: Grammars, nano: Tokenizer, schema: Json
) -> None:
    grammar = grammars.of_calls([tool("f", "x", x=schema)], V4, WantedCalls())
    assert may_be(grammar, nano, written(nano, V4, ("f", {"x": [1, {"a": None}]})))
    assert not may_be(grammar, nano, written(nano, V4, ("f", {})))


def test_definitions_of_a_tool_are_known_to_its_parameters(grammars: Grammars, nano: Tokenizer) -> None:
    schema: Json = {"properties": {"x": {"$ref": "#/$defs/digit"}}, "$defs": {"digit": {"enum": [1, 2]}}}
    grammar = grammars.of_calls([ToolDefinition("f", None, schema)], V4, WantedCalls())
    assert may_be(grammar, nano, written(nano, V4, ("f", {"x": 2})))
    assert not may_be(grammar, nano, written(nano, V4, ("f", {"x": 3})))


@pytest.mark.parametrize("parameters", [None, True, {}, {"properties": 3, "required": 4}, {"required": ["gone"]}])
def test_whatever_a_client_calls_parameters_there_is_a_call(
    grammars: Grammars, nano: Tokenizer, parameters: Json
) -> None:
    grammar = grammars.of_calls([ToolDefinition('odd "name"\\', None, parameters)], V4, WantedCalls())
    assert may_be(grammar, nano, written(nano, V4, ('odd "name"\\', {})))


def test_the_same_tools_are_compiled_once(grammars: Grammars) -> None:
    first, again = (grammars.of_calls([tool("f", x={"type": "string"})], V4, WantedCalls("tag")) for _ in range(2))
    assert first is again
    assert grammars.of_calls([tool("f", y={"type": "string"})], V4, WantedCalls("tag")) is not first


TWO = [("stop", {}), ("edit", PATH)]


@in_each_dialect
@pytest.mark.parametrize("come", ["", "mark", "tag"])
@pytest.mark.parametrize("is_single", [True, False])
def test_one_call_or_several_from_wherever_the_block_has_come_to(
    grammars: Grammars, nano: Tokenizer, dialect: Dialect, come: Literal["", "mark", "tag"], is_single: bool
) -> None:
    grammar = grammars.of_calls([EDIT, tool("stop")], dialect, WantedCalls(come, is_single))
    mark = nano.special_id(SpecialToken.DSML)
    for calls, is_allowed in ((TWO[:1], True), (TWO, not is_single)):
        ids = written(nano, dialect, *calls)
        if come:
            ids = ids[ids.index(mark) + 1 :]
        if come == "tag":
            opening = nano.encode(f"{dialect.calls}>\n")
            assert ids[: len(opening)] == opening
            ids = ids[len(opening) :]
        assert may_be(grammar, nano, ids) is is_allowed


@in_each_dialect
def test_words_of_a_form_or_calls(grammars: Grammars, nano: Tokenizer, dialect: Dialect) -> None:
    schema: Json = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    for grammar, good, bad in (
        (grammars.of_schema_or_calls(schema, [EDIT], dialect, WantedCalls()), '{"a": 3}', '{"b": 3}'),
        (grammars.of_regex_or_calls("a/b\\/[0-9]+\n?", [EDIT], dialect, WantedCalls()), "a/b/12\n", "a/b/x"),
    ):
        assert may_be(grammar, nano, nano.encode(good))
        assert not may_be(grammar, nano, nano.encode(bad))
        assert may_be(grammar, nano, written(nano, dialect, ("edit", PATH)))
        assert not may_be(grammar, nano, written(nano, dialect, ("delete", PATH)))


def test_what_cannot_be_enforced_of_a_form_is_refused_beside_calls_too(grammars: Grammars) -> None:
    with pytest.raises(RequestError, match="not"):
        grammars.of_schema_or_calls({"not": {}}, [EDIT], V4, WantedCalls())
    with pytest.raises(RequestError, match="regex"):
        grammars.of_regex_or_calls("(?=a)b", [EDIT], V4, WantedCalls())


PATCH_FORM = InputForm(
    "lark",
    """start: "*** Begin Patch\\n" hunk+ "*** End Patch" /\\n/?
hunk: "*** Delete File: " /[^\\n]+/ "\\n"
""",
)
PATCHER = tool("patch", "input", input={"type": "string"})
GOOD = "*** Begin Patch\n*** Delete File: a/b <c>.py\n*** End Patch"


@in_each_dialect
@pytest.mark.parametrize(
    ("form", "good", "bad"),
    [(PATCH_FORM, GOOD, GOOD.replace("Delete", "Forget")), (InputForm("regex", "[a-c/]+\\.py"), "a/b.py", "a/d.py")],
)
def test_a_custom_tool_s_input_follows_its_grammar(
    grammars: Grammars, nano: Tokenizer, dialect: Dialect, form: InputForm, good: str, bad: str
) -> None:
    grammar = grammars.of_calls([PATCHER, EDIT], dialect, WantedCalls(forms=(("patch", form),)))
    assert may_be(grammar, nano, written(nano, dialect, ("patch", {"input": good})))
    assert not may_be(grammar, nano, written(nano, dialect, ("patch", {"input": bad})))
    assert may_be(grammar, nano, written(nano, dialect, ("edit", PATH)))


@pytest.mark.parametrize("form", [InputForm("lark", "start: nowhere"), InputForm("regex", "(a")])
def test_a_grammar_that_is_none_is_refused_with_the_tool_s_name(grammars: Grammars, form: InputForm) -> None:
    with pytest.raises(RequestError, match=f"{form.syntax} grammar of the tool patch"):
        grammars.of_calls([PATCHER], V4, WantedCalls(forms=(("patch", form),)))
