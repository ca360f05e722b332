"""Schemas as they are written are schemas, and take what they say."""

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from whitedwarf.server.json_schemas import array, flag, members, number, one_of, or_null, text, whole, word
from whitedwarf.server.openapi_answers import ANSWERS
from whitedwarf.server.openapi_requests import REQUESTS


@pytest.mark.parametrize("schema", [*REQUESTS.values(), *ANSWERS.values()])
def test_every_schema_of_ours_is_one(schema: Any) -> None:
    Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (text(minLength=1), ["a"], ["", 1, None]),
        (number(minimum=0), [0, 0.5], [-1, "1"]),
        (whole(), [1, 2.0], [1.5, "1"]),
        (flag(), [True], [1, "true"]),
        (array(text(), minItems=1), [["a"]], [[], [1], "a"]),
        (members({"a": whole()}, required=("a",)), [{"a": 1}, {"a": 1, "b": 2}], [{}, {"a": "x"}, []]),
        (one_of("", text(), whole()), ["a", 1], [None, 1.5]),
        (word("", "a", "b"), ["a"], ["c", None]),
        (or_null(text()), ["a", None], [1]),
        (or_null(word("", "a")), ["a", None], ["b"]),
        (or_null({"type": "null"}), [None], ["a"]),
        (or_null(one_of("", text(), whole())), ["a", 1, None], [[]]),
    ],
)
def test_what_is_said_is_what_is_taken(schema: Any, good: list[Any], bad: list[Any]) -> None:
    validator = Draft202012Validator(schema)
    validator.check_schema(schema)
    assert [value for value in good if not validator.is_valid(value)] == []
    assert [value for value in bad if validator.is_valid(value)] == []
