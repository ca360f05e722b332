"""Fragments of JSON arguments to the text of parameters."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whitedwarf.agent.events import ParameterText
from whitedwarf.agent.parameters import ParameterReader
from whitedwarf.conversation.events import ArgumentsDelta

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
SCALAR = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
VALUE = st.recursive(SCALAR, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=8)
ARGUMENTS = st.dictionaries(TEXT, VALUE)


def read(*fragments: str) -> list[ParameterText]:
    reader = ParameterReader()
    return [told for fragment in fragments for told in reader.feed(ArgumentsDelta(0, fragment))]


def joined(told: list[ParameterText]) -> list[tuple[str, str, bool]]:
    """Each parameter's whole text, and whether it was closed."""
    whole: list[tuple[str, str, bool]] = []
    for part in told:
        if whole and not whole[-1][2]:
            name, text, _ = whole.pop()
            assert name == part.parameter
            whole.append((name, text + part.text, part.is_closed))
        else:
            whole.append((part.parameter, part.text, part.is_closed))
    return whole


@given(ARGUMENTS, st.booleans(), st.sampled_from([None, 1, "\t"]), st.data())
def test_any_split_gives_the_text_parameters(
    arguments: dict[str, object], is_ascii: bool, indent: int | str | None, data: st.DataObject
) -> None:
    text = json.dumps(arguments, ensure_ascii=is_ascii, indent=indent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)))))
    fragments = [text[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    expected = [(name, value, True) for name, value in arguments.items() if isinstance(value, str)]
    assert joined(read(*fragments)) == expected
    reader = ParameterReader()
    for fragment in fragments:
        reader.feed(ArgumentsDelta(0, fragment))
    assert reader.complete == {name: value for name, value, _ in expected}
    assert reader.parameter == ""


def test_a_value_is_told_while_it_is_written() -> None:
    assert read('{"path": "a', ".py", '", "old": "x\\', 'ny"}') == [
        ParameterText(0, "path", "a"),
        ParameterText(0, "path", ".py"),
        ParameterText(0, "path", "", is_closed=True),
        ParameterText(0, "old", "x"),
        ParameterText(0, "old", "\ny", is_closed=True),
    ]


@pytest.mark.parametrize(
    ("inside", "text"),
    [
        (r"\ud83d\ude00", "😀"),
        (r"\ud83d", "\ufffd"),
        (r"\ude00", "\ufffd"),
        (r"\ud83d\ud83d\ude00", "\ufffd😀"),
        (r"\ud83dx", "\ufffdx"),
        (r"\ud83d\n", "\ufffd\n"),
        (r"\uzzzz", "\ufffd"),
        (r"\"\\\/\b\f\n\r\t", '"\\/\b\f\n\r\t'),
    ],
)
def test_escapes_are_read_in_any_split(inside: str, text: str) -> None:
    whole = f'{{"a": "{inside}", "b": 1}}'
    for cut in range(len(whole) + 1):
        assert joined(read(whole[:cut], whole[cut:])) == [("a", text, True)]
    assert joined(read(*whole)) == [("a", text, True)]


@given(st.lists(st.text(alphabet='{}[]":,\\u d83ae0n1x')))
def test_broken_json_raises_nothing(fragments: list[str]) -> None:
    read(*fragments)


def test_another_call_begins_anew() -> None:
    reader = ParameterReader()
    reader.feed(ArgumentsDelta(0, '{"a": "b", "c": "open'))
    assert (reader.complete, reader.parameter) == ({"a": "b"}, "c")
    reader.feed(ArgumentsDelta(1, '{"d": "e"'))
    assert (reader.complete, reader.parameter) == ({"d": "e"}, "")
