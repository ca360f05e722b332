"""Strict schemas: the official normal form, or the official error."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.official_errors import strict_answer, strict_tool
from whitedwarf.protocol.failures import RefusedRequest
from whitedwarf.protocol.resolution import compact
from whitedwarf.protocol.strict_schema import strict_parameters, strict_response

TEXT = {"type": "string"}


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def ours(normalise: Any, schema: Any) -> str:
    try:
        return compact(normalise(schema))
    except RefusedRequest as error:
        return str(error)


def theirs_for_tools(schema: Any) -> str:
    result = strict_tool(schema)
    return result if isinstance(result, str) else compact(result)


def test_an_object_closes_and_requires_everything() -> None:
    assert strict_parameters(of(b=TEXT, a={"type": "null"})) == {
        "type": "object",
        "properties": {"b": TEXT, "a": {"type": "null"}},
        "additionalProperties": False,
        "required": ["b", "a"],
    }


def test_absent_parameters_are_an_empty_object() -> None:
    expected = {"type": "object", "properties": {}, "additionalProperties": False, "required": []}
    assert strict_parameters(None) == expected == strict_parameters({"type": "object"})


def test_unknown_keywords_vanish_and_known_ones_stand_in_their_order() -> None:
    number = {"multipleOf": 2, "title": "t", "const": 4, "description": "d", "type": "integer", "enum": [4]}
    shown = strict_parameters(of(n=number))
    assert compact(shown["properties"]["n"]) == (  # type: ignore[index, call-overload]
        '{"type":"integer","description":"d","const":4,"multipleOf":2}'
    )


@pytest.mark.parametrize(
    ("schema", "error"),
    [
        ({}, "Invalid tool parameters schema : one of `type`, `anyOf`, `$ref` field is required"),
        (TEXT, "The top level of the function parameters schema must be an object."),
        (of(a=of()), "An object with no properties is not allowed."),
        ({**of(), "additionalProperties": True}, "additionalProperties should not be true"),
        ({**of(a=TEXT), "required": ["b"]}, "Required property 'b' not found in object"),
        ({**of(a=TEXT), "required": ["a", "a"]}, "Duplicate required property 'a'"),
        ({**of(a=TEXT), "required": []}, "Required properties must match all properties in the object"),
        (of(a={"type": "array"}), "Invalid tool parameters schema : missing field `items`"),
        (
            of(a={"anyOf": [5]}),
            "Invalid tool parameters schema : field `anyOf`: "
            "invalid type: integer `5`, expected internally tagged enum JsonSchemaType",
        ),
        (
            of(a={"anyOf": [["object"]]}),
            "Invalid tool parameters schema : field `anyOf`: "
            "invalid length 0, expected struct variant JsonSchemaType::Object with 5 elements",
        ),
    ],
)
def test_what_has_no_strict_form_is_refused(schema: Any, error: str) -> None:
    assert ours(strict_parameters, schema) == error == strict_tool(schema)


def test_a_response_schema_is_told_in_its_own_words() -> None:
    assert ours(strict_response, of()) == "An object with no properties is not allowed."
    assert ours(strict_response, TEXT) == "The top level of the json schema must be an object."
    assert ours(strict_response, {"type": 5}).startswith("Invalid json schema: invalid type")


def test_the_deepest_schema_that_a_body_can_hold_is_read() -> None:
    schema: dict[str, Any] = TEXT
    for _ in range(123):
        schema = {"type": "array", "items": schema}
    assert strict_parameters(of(a=schema)) is not None


KEYWORDS = """
    type anyOf $ref properties required additionalProperties description $def items enum format pattern const default
    minimum multipleOf title $defs
"""
SCRAPS = """[
    null, true, false, 5, -1, 1.5, 9223372036854775808, "x", "a", "string", "object", "email", [], ["a"], ["a", "b"],
    ["a", "a"], [5], ["string"], ["string", "null"], [["boolean", "d"]], {}, {"a": 5}, {"null": null}, {"email": null},
    {"type": "string"}
]"""
keywords, scraps, names = st.sampled_from(KEYWORDS.split()), st.sampled_from(json.loads(SCRAPS)), st.sampled_from("abc")
extras = st.dictionaries(keywords, scraps, max_size=1) | st.just({})
leaves = st.builds(
    lambda kind, extras: {"type": kind, **extras},
    st.sampled_from(["string", "number", "integer", "boolean", "null", ["string", "null"]]),
    extras,
)
requirements = st.none() | st.lists(names, max_size=3).map(lambda chosen: {"required": chosen})


def _objects(inner: Any) -> Any:
    parts = (
        st.dictionaries(names, inner, min_size=1, max_size=3),
        requirements,
        extras,
        st.none() | st.dictionaries(names, inner),
    )
    return st.builds(
        lambda properties, required, extras, definitions: {
            **extras,
            **of(**properties),
            **(required or {}),
            **({"$def": definitions} if definitions else {}),
        },
        *parts,
    )


schemas = _objects(
    st.recursive(
        leaves,
        lambda inner: (
            _objects(inner)
            | inner.map(lambda items: {"type": "array", "items": items})
            | st.lists(inner, max_size=2).map(lambda choices: {"anyOf": choices})
            | st.dictionaries(keywords, scraps | inner, max_size=3)
        ),
        max_leaves=6,
    )
)


@pytest.mark.slow
@settings(max_examples=1500)
@given(schemas | st.dictionaries(keywords, scraps, max_size=3))
def test_any_schema_becomes_what_the_official_library_makes_of_it(schema: dict[str, Any]) -> None:
    assert ours(strict_parameters, schema) == theirs_for_tools(schema)
    assert ours(strict_response, schema) == strict_answer(schema)
