"""What a schema becomes before a grammar follows it."""

import pytest

from whitedwarf.conversation.json_value import Json
from whitedwarf.prompt.bounded_schema import MAX_INTEGER, UnsupportedSchemaError, bounded_schema

BOUNDED: Json = {"type": "integer", "minimum": -MAX_INTEGER, "maximum": MAX_INTEGER}


@pytest.mark.parametrize(
    "around",
    [
        lambda one: one,
        lambda one: {"properties": {"type": one, "n": one}},
        lambda one: {"items": one},
        lambda one: {"items": [one]},
        lambda one: {"prefixItems": [one]},
        lambda one: {"anyOf": [{"type": "string"}, {"allOf": [one]}]},
        lambda one: {"$defs": {"x": one}, "additionalProperties": one},
    ],
)
def test_integers_get_an_end_wherever_they_are(around: type) -> None:
    assert bounded_schema(around({"type": "integer"})) == around(BOUNDED)


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {"type": "number"},
        {"type": ["integer", "number"]},
        {"type": "integer", "enum": [1]},
        {"type": "integer", "const": 10**30},
        {"type": "integer", "exclusiveMinimum": 0, "maximum": 5},
        {"enum": [{"type": "integer"}]},
        {"enum": ["\\u0001", "\n\t"], "description": "\x01"},
        {"properties": {"minProperties": {"type": "string"}}, "minProperties": 1},
    ],
)
def test_nothing_else_is_changed(schema: Json) -> None:
    assert bounded_schema(schema) == schema


def test_one_end_that_is_said_stays() -> None:
    assert bounded_schema({"type": ["integer", "null"], "minimum": 3}) == {
        "type": ["integer", "null"],
        "minimum": 3,
        "maximum": MAX_INTEGER,
    }


def test_the_librarys_own_switches_are_no_part_of_a_schema() -> None:
    assert bounded_schema({"items": {"x-guidance": {"lenient": True}}, "x-guidance": {}}) == {"items": {}}


@pytest.mark.parametrize(
    ("schema", "name"),
    [
        ({"items": {"minProperties": 2}}, "minProperties"),
        ({"enum": ["a", ["b\x01"]]}, "enum"),
        ({"const": "\\\x1f"}, "const"),
        ({"type": "integer", "minimum": 10**19}, "minimum"),
        ({"type": "integer", "exclusiveMaximum": -(10**20)}, "exclusiveMaximum"),
    ],
)
def test_what_cannot_be_promised_is_named(schema: Json, name: str) -> None:
    with pytest.raises(UnsupportedSchemaError, match=f"^{name} "):
        bounded_schema(schema)
