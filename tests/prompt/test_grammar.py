"""Whatever is drawn under a grammar is of its form."""

import json
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from prompt.drawing import drawn_ids, may_be
from whitedwarf.errors import RequestError
from whitedwarf.prompt.grammar import Grammar, Grammars
from whitedwarf.prompt.tokenizer import Tokenizer


@pytest.fixture(scope="session")
def grammars(nano: Tokenizer) -> Grammars:
    return Grammars(nano)


def drawn(grammar: Grammar, tokenizer: Tokenizer, seed: int) -> str | None:
    ids = drawn_ids(grammar, tokenizer, seed)
    assert not set(ids or ()) & set(tokenizer.vocabulary.special_ids.values())
    return None if ids is None else tokenizer.decode(ids)


names = st.sampled_from(["a", "b", "type", "ключ", "n n", 'q"\\'])
scalars = st.one_of(st.none(), st.booleans(), st.integers(-99, 99), st.text('ab é😀\n"\\', max_size=4))


def whole(low: int, size: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": low, "maximum": low + size}


def words(least: int, more: int) -> dict[str, Any]:
    return {"type": "string", "minLength": least, "maxLength": least + more}


leaves: st.SearchStrategy[Any] = st.one_of(
    st.builds(whole, st.integers(-50, 50), st.integers(0, 999)),
    st.builds(words, st.integers(0, 4), st.integers(0, 5)),
    st.builds(lambda low: {"type": "integer", "exclusiveMinimum": low}, st.integers(-5, 5)),
    st.builds(lambda low: {"type": "number", "minimum": low, "maximum": low + 2.5}, st.integers(-5, 5)),
    st.builds(lambda values: {"enum": values}, st.lists(scalars, min_size=1, max_size=4)),
    st.builds(lambda value: {"const": value}, scalars),
    st.sampled_from([{"type": kind} for kind in ("integer", "number", "boolean", "null", ["string", "null"])]),
    st.sampled_from([{"type": "string", "pattern": one} for one in ("^[a-c]{2,4}$", "^a|b$", r"^\d+-\w$", "x.z")]),
)


def objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    def built(properties: dict[str, Any], others: Any, kept: int) -> dict[str, Any]:
        required = list(properties)[:kept]
        return {"type": "object", "properties": properties, "required": required, "additionalProperties": others}

    return st.builds(
        built, st.dictionaries(names, inner, max_size=4), st.one_of(st.just(False), inner), st.integers(0, 4)
    )


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    arrays = st.builds(
        lambda items, least, more: {"type": "array", "items": items, "minItems": least, "maxItems": least + more},
        inner,
        st.integers(0, 2),
        st.integers(0, 2),
    )
    choices = st.builds(lambda several: {"anyOf": several}, st.lists(inner, min_size=1, max_size=3))
    return st.one_of(objects(inner), arrays, choices)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(st.recursive(leaves, nested, max_leaves=6), st.integers(0, 1000))
def test_any_draw_is_valid_json_of_the_schema(grammars: Grammars, nano: Tokenizer, schema: Any, seed: int) -> None:
    said = drawn(grammars.of_schema(schema), nano, seed)
    if said is None:
        return
    Draft202012Validator(schema).validate(json.loads(said))
    assert not re.search(r"[{\[]\s|\s[}\]:,]|[,:]\s\s", re.sub(r'"(\\.|[^"\\])*"', '""', said))  # blanks are few


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000))
def test_any_object_is_an_object(grammars: Grammars, nano: Tokenizer, seed: int) -> None:
    said = drawn(grammars.of_schema({"type": "object"}), nano, seed)
    assert said is None or isinstance(json.loads(said), dict)


@pytest.mark.parametrize("pattern", ["a+b", r"\d{3}-\d{2}", "(yes|no)", "[а-я]{1,5}", "x|y.z"])
def test_a_regular_expression_is_matched_as_a_whole(grammars: Grammars, nano: Tokenizer, pattern: str) -> None:
    found = [said for seed in range(20) if (said := drawn(grammars.of_regex(pattern), nano, seed)) is not None]
    assert found
    assert all(re.fullmatch(pattern, said) for said in found), found


OBJECT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.mark.parametrize(
    ("text", "is_allowed"),
    [
        ('{"n":1}', True),
        ('{"n": 1, "b": [1, 2]}', True),
        ('{ "n": 1}', False),
        ('{"n":  1}', False),
        ('{"n": 1 }', False),
        ('{"n":\n1}', False),
        ("{}", False),
        ('{"n":1', False),
        ('{"n":1.5}', False),
        ('{"n":1,"n":"x"}', False),
        (r'{"n":1,"\u006e":"x"}', False),  # the same name once more
        ('{"n":1}x', False),
    ],
)
def test_what_is_of_a_schema(grammars: Grammars, nano: Tokenizer, text: str, is_allowed: bool) -> None:
    assert may_be(grammars.of_schema(OBJECT), nano, nano.encode(text)) is is_allowed


@pytest.mark.parametrize(
    ("schema", "name"),
    [
        ({"not": {"type": "string"}}, "not"),
        ({"type": "array", "uniqueItems": True}, "uniqueItems"),
        ({"type": "object", "minProperties": 2}, "minProperties"),
        ({"if": {}, "then": {}}, '"if", "then"'),
        ({"type": "object", "propertyNames": {}}, "propertyNames"),
        ({"type": "array", "contains": {}}, "contains"),
        ({"dependentRequired": {"a": ["b"]}}, "dependentRequired"),
        ({"unevaluatedProperties": False}, "unevaluatedProperties"),
        ({"oneOf": [{"type": "number"}, {"type": "integer"}]}, "oneOf"),
        ({"type": "string", "format": "tasty"}, "tasty"),
        ({"type": "string", "pattern": "(?=a)b"}, "look-ahead"),
        ({"$ref": "#/$defs/gone"}, "/\\$defs/gone"),
        ({"type": "integer", "minimum": 5, "maximum": 3}, "minimum"),
        ({"x-guidance": {"lenient": True}, "not": {}}, "not"),
        ({"type": "string", "pattern": "^\x01$"}, "no text is of this form"),
        (False, "false"),
        ({"const": "\ud800"}, "hex escape"),
    ],
)
def test_what_cannot_be_enforced_is_named(grammars: Grammars, schema: Any, name: str) -> None:
    with pytest.raises(RequestError, match=rf"^This json schema cannot be enforced: .*{name}"):
        grammars.of_schema(schema)


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"properties": {"a": {"type": "string"}, "b": {"items": {"uniqueItems": True}}}}, "#/properties/b/items"),
        ({"anyOf": [{"type": "null"}, {"not": {}}]}, "#/anyOf/1"),
        ({"properties": {"a/b~c": {"type": "string", "format": "tasty"}}}, "#/properties/a~1b~0c"),
        ({"$defs": {"x": {"contains": {}}}, "properties": {"a": {"$ref": "#/$defs/x"}}}, "#/properties/a"),
        ({"items": {"type": "integer", "minimum": 9 * 10**18}}, "#/items"),
        ({"additionalProperties": {"oneOf": [{"type": "number"}, {"type": "integer"}]}}, "#/additionalProperties"),
    ],
)
def test_the_part_that_cannot_be_enforced_is_pointed_at(grammars: Grammars, schema: Any, pointer: str) -> None:
    with pytest.raises(RequestError) as refused:
        grammars.of_schema(schema)
    assert str(refused.value).endswith(f" (at {pointer})")


def test_where_all_of_a_schema_is_to_blame_nothing_is_pointed_at(grammars: Grammars) -> None:
    with pytest.raises(RequestError) as refused:
        grammars.of_schema({"not": {}})
    assert "(at" not in str(refused.value)


@pytest.mark.parametrize("depth", [500, 5000])
def test_a_schema_that_is_too_deep_is_refused_in_a_line(grammars: Grammars, depth: int) -> None:
    schema: Any = {}
    for _ in range(depth):
        schema = {"items": schema}
    with pytest.raises(RequestError, match=r"^This json schema cannot be enforced: [^\n]+$"):
        grammars.of_schema(schema)


@pytest.mark.parametrize("pattern", ["(?=x)y", "[", r"(a)\1"])
def test_an_expression_that_cannot_be_enforced_is_refused(grammars: Grammars, pattern: str) -> None:
    with pytest.raises(RequestError, match=r"^This regex cannot be enforced: .*regex parse error"):
        grammars.of_regex(pattern)


def test_an_answer_that_is_begun_goes_on(grammars: Grammars, nano: Tokenizer) -> None:
    grammar = grammars.of_schema(OBJECT)
    assert may_be(grammar.continued('{"n": 1'), nano, nano.encode("23}"))
    assert may_be(grammar.continued(""), nano, nano.encode('{"n":1}'))
    with pytest.raises(RequestError, match="beginning 'Sure: '"):
        grammar.continued("Sure: ")


def test_matchers_of_one_grammar_know_nothing_of_each_other(grammars: Grammars, nano: Tokenizer) -> None:
    grammar = grammars.of_schema(OBJECT)
    first, second = grammar.matcher(), grammar.matcher()
    for token in nano.encode('{"n":1}'):
        first.accept(token)
    assert first.is_over
    assert not second.is_over
    with pytest.raises(RuntimeError, match="cannot be followed"):
        second.accept(nano.encode("x")[0])
