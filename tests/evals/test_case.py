"""Cases: what can be graded is one, what cannot is refused by name."""

import pytest

from whitedwarf.errors import FileFormatError
from whitedwarf.evals.case import Case, Kind


def case(
    kind: Kind = "choice", answer: str = "C", choices: tuple[str, ...] = ("1", "2", "3", "4"), **other: str
) -> Case:
    members = {"source": "own", "id": "a-1", "domain": "sums", "title": "A sum", "question": "1 + 2 = ?"} | other
    return Case(**members, choices=choices, answer=answer, kind=kind)


def test_a_case_knows_its_name_and_its_letters() -> None:
    assert case().name == "own/a-1"
    assert case().letters == "ABCD"


@pytest.mark.parametrize("answer", ["0", "7", "12,14-15", "3-3", "1-2,9"])
def test_lines_are_numbers_and_ranges(answer: str) -> None:
    assert case("lines", answer, ()).answer == answer


@pytest.mark.parametrize(
    ("kind", "answer", "choices", "told"),
    [
        ("choice", "E", ("1", "2", "3", "4"), "one letter of ABCD"),
        ("choice", "", ("1", "2"), "one letter of AB"),
        ("choice", "AB", ("1", "2"), "one letter of AB"),
        ("choice", "A", ("1",), "2 to 10"),
        ("choice", "A", tuple("abcdefghijk"), "2 to 10"),
        ("choice", "A", ("1", " "), "empty"),
        ("integer", "70", ("1", "2"), "expected none"),
        ("integer", "070", (), "without leading zeros"),
        ("integer", "x", (), "an integer"),
        ("integer", "-0", (), "an integer"),
        ("lines", "00", (), "lines such as"),
        ("lines", "0,3", (), "lines such as"),
        ("lines", "3,", (), "lines such as"),
        ("lines", "15-12", (), "ends before it begins"),
        ("essay", "x", (), "a kind of choice, integer, lines"),
    ],
)
def test_an_answer_that_cannot_be_graded_is_refused(
    kind: Kind, answer: str, choices: tuple[str, ...], told: str
) -> None:
    with pytest.raises(FileFormatError, match=told):
        case(kind, answer, choices)


@pytest.mark.parametrize(
    ("name", "value"), [("id", "a b"), ("id", "a/b"), ("source", ""), ("title", "a\nb"), ("question", " \n")]
)
def test_names_are_words_and_titles_are_lines(name: str, value: str) -> None:
    with pytest.raises(FileFormatError, match=name):
        case(**{name: value})
