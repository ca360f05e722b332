"""The check of JSON Schemas: the official library's first message, nothing fetched, bounded."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.official_errors import schema_problem
from whitedwarf.protocol.json_schema import first_problem

DRAFT_4 = "http://json-schema.org/draft-04/schema#"
DRAFT_7 = "http://json-schema.org/draft-07/schema#"


@pytest.mark.parametrize(
    "schema",
    [
        {},
        True,
        {"type": ["string", "null"], "pattern": "(?=a)b", "format": "nope", "x": 1e300},
        {"$schema": DRAFT_7, "definitions": {"a": {}}, "$ref": "#/definitions/a"},
        {"$ref": "https://json-schema.org/draft/2020-12/schema"},
        {"enum": []},
    ],
)
def test_a_good_schema_has_no_problem(schema: Any) -> None:
    assert first_problem(schema) is None is schema_problem(schema)


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        (5, '5 is not of types "boolean", "object"'),
        ("{}", '"{}" is not of types "boolean", "object"'),
        (None, 'null is not of types "boolean", "object"'),
        ({"type": "nope"}, "\"nope\" is not valid under any of the schemas listed in the 'anyOf' keyword"),
        ({"minLength": -1}, "-1 is less than the minimum of 0"),
        ({"maxItems": 1.5}, '1.5 is not of type "integer"'),
        ({"required": ["a", "a"]}, '["a","a"] has non-unique elements'),
        ({"multipleOf": 0}, "0 is less than or equal to the minimum of 0"),
        ({"pattern": "("}, '"(" is not a "regex"'),
        ({"patternProperties": {"(": {"b": 1, "a": 1e20}}}, '{"b":1,"a":1e+20} is not a "regex"'),
        ({"properties": {"7": {"pattern": 5}}}, '5 is not of type "string"'),
        ({"properties": {"007": {"pattern": 5}}}, '5 is not of type "string"'),
        ({"properties": {"": {"allOf": [{"pattern": "("}]}}}, '"(" is not a "regex"'),
        ({"dependentRequired": {"01": {"type": None, "properties": None}}}, None),
        ({"dependentRequired": {"": {"b": None, "a": None}}}, None),
        ({"$ref": "#/x"}, "Pointer '/x' does not exist"),
        ({"$ref": 5, "type": 5}, '5 is not of type "string"'),
        ({"allOf": None, "definitions": False}, 'false is not of type "object"'),
        ({"$schema": DRAFT_4, "exclusiveMinimum": 5}, '5 is not of type "boolean"'),
        ({"$schema": DRAFT_7, "items": {"b": 1, "a": {"$id": 5}, "$id": 5}}, None),
        (
            {"$schema": "http://x/y"},
            "Unknown meta-schema: 'http://x/y'. Custom meta-schemas must be registered in the registry before use",
        ),
    ],
)
def test_a_bad_schema_has_the_official_problem(schema: Any, problem: str | None) -> None:
    assert first_problem(schema) == (problem or schema_problem(schema)) == schema_problem(schema)


@pytest.mark.parametrize("address", ["http://127.0.0.1:1/x", "https://example.com/x.json", "file:///etc/passwd"])
def test_nothing_is_fetched(address: str) -> None:
    assert first_problem({"$ref": address}) == (
        f"Resource '{address}' is not present in a registry and retrieving it failed: "
        f"Retrieval is disabled, cannot fetch {address}"
    )


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": "(a+)+" * 1000},
        {"pattern": "(" * 10_000},
        {"pattern": "((a{1000}){1000}){1000}"},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
        {"enum": list(range(10_000))},
        {"description": "\ud800"},
    ],
    ids=range(6),
)
def test_a_hostile_schema_is_judged(schema: Any) -> None:
    first_problem(schema)


def test_a_schema_that_is_nested_too_deeply_has_a_problem() -> None:
    schema: dict[str, Any] = {}
    for _ in range(5000):
        schema = {"not": schema}
    assert first_problem(schema) == "Recursion limit reached"


KEYWORDS = """
    type properties patternProperties items prefixItems additionalProperties required enum const minimum maxLength
    pattern format $ref $id $schema $defs definitions allOf anyOf oneOf not if contains uniqueItems multipleOf
    dependentRequired dependentSchemas propertyNames $anchor $dynamicRef title minItems exclusiveMinimum $comment
    $vocabulary minContains dependencies
"""
VALUES = """[
    null, true, 5, -1, 1.5, 0.0, 1e20, 9223372036854775808, "x", "string", "object", "(", "#", "#/x", "http://x/y", "é",
    "http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-07/schema#", [], ["a"], ["a", "a"], [5],
    ["string", "null"], [{}, 5], {}, {"b": 5, "a": {}}, {"a": ["b"]}, {"(": {}}
]"""
keywords, values = st.sampled_from(KEYWORDS.split()), st.sampled_from(json.loads(VALUES))
schemas = st.recursive(
    st.dictionaries(keywords, values, max_size=3),
    lambda inner: st.dictionaries(
        keywords,
        values
        | inner
        | st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["a", "^", "0", "01", ""]), inner),
        max_size=3,
    ),
    max_leaves=8,
)


@pytest.mark.slow
@settings(max_examples=2000)
@given(schemas)
def test_any_schema_has_the_official_problem(schema: dict[str, Any]) -> None:
    assert first_problem(schema) == schema_problem(schema)
