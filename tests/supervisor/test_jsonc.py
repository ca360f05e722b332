"""JSON with comments and trailing commas, and what is told about the rest."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whitedwarf.errors import UsageError
from whitedwarf.supervisor.jsonc import DEEPEST, parse_jsonc

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
GAPS = st.lists(st.sampled_from([" ", "\n", "\t", '// a " { [\n', "/* , } * / \n */", "/**/"]), max_size=3).map("".join)


def spoken(value: Any, gap: Any) -> str:
    """The value with gaps drawn between its parts, and commas after the last ones."""
    if isinstance(value, dict):
        parts = [f"{gap()}{json.dumps(name)}{gap()}:{spoken(inner, gap)}" for name, inner in value.items()]
        return f"{gap()}{{{','.join(parts)}{',' if parts else ''}{gap()}}}{gap()}"
    if isinstance(value, list):
        parts = [spoken(inner, gap) for inner in value]
        return f"{gap()}[{','.join(parts)}{',' if parts else ''}{gap()}]{gap()}"
    return f"{gap()}{json.dumps(value, ensure_ascii=False)}{gap()}"


@given(VALUES)
def test_plain_json_is_read_as_json_reads_it(value: Any) -> None:
    for text in (json.dumps(value), json.dumps(value, indent=2, ensure_ascii=False)):
        assert parse_jsonc(text) == json.loads(text)


@given(VALUES, st.data())
def test_comments_and_last_commas_change_nothing(value: Any, data: st.DataObject) -> None:
    assert parse_jsonc(spoken(value, lambda: data.draw(GAPS))) == value


@given(st.text(alphabet='{}[]",:/*\\ntrue019.eE-+ \n\u4e2d', max_size=40))
def test_any_text_is_read_or_refused_with_its_place(text: str) -> None:
    try:
        parse_jsonc(text)
    except UsageError as error:
        assert str(error).startswith("line ")  # noqa: PT017


@pytest.mark.parametrize(
    ("text", "place", "says"),
    [
        ("", "line 1, column 1", "got the end of the file"),
        ('{\n  "a": 1\n  "b": 2\n}', "line 3, column 3", 'expected "," or "}"'),
        ("{\n  a: 1}", "line 2, column 3", "a name in double quotes"),
        ('{"a": 1, "b": 2, "a": 3}', "line 1, column 18", '"a" stands twice'),
        ('{"a": tru}', "line 1, column 7", 'got "tru"'),
        ('{"a": NaN}', "line 1, column 7", "a value"),
        ('{"a": 1e999}', "line 1, column 12", "too large"),
        ('{"a": 01}', "line 1, column 7", "a number"),
        ('{"a" 1}', "line 1, column 6", '":" after the name'),
        ("[,]", "line 1, column 2", "a value"),
        ("[1,,2]", "line 1, column 4", "a value"),
        ('["a\nb"]', "line 1, column 4", "ends on the line where it begins"),
        ('["C:\\models"]', "line 1, column 5", "a backslash is written \\\\ in a text"),
        ('["abc', "line 1, column 2", 'has no " at its end'),
        ("[1] /* never ends", "line 1, column 5", "*/"),
        ("[1] x", "line 1, column 5", "the end of the file"),
        ('["\\ud800"]', "line 1, column 10", "surrogate"),
        ("[" * (DEEPEST + 2), f"line 1, column {DEEPEST + 2}", "levels"),
        ("\r\n\r\n?", "line 3, column 1", 'got "?"'),
    ],
)
def test_what_is_wrong_is_told_with_its_line_and_column(text: str, place: str, says: str) -> None:
    with pytest.raises(UsageError) as told:
        parse_jsonc(text)
    assert str(told.value).startswith(f"{place}: ")
    assert says in str(told.value)


def test_a_mark_at_the_beginning_is_skipped() -> None:
    assert parse_jsonc("\ufeff{}") == {}
