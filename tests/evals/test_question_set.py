"""The 92 questions as a set: their number, their form, and that nothing but thinking gives an answer away."""

import re
import tomllib
from collections import Counter
from importlib.resources import files
from itertools import pairwise

import pytest

from whitedwarf.evals.case import LETTERS, SAFE, Case
from whitedwarf.evals.questions import KINDS, built_in_cases

CASES = built_in_cases()
TEXTS = [(files("whitedwarf.evals.questions") / f"{name}.toml").read_text(encoding="utf-8") for name in KINDS]
TABLES = {table["id"]: table for text in TEXTS for table in tomllib.loads(text)["case"]}
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)


def test_there_are_ninety_two_in_their_order() -> None:
    assert Counter(case.source for case in CASES) == {"science": 25, "general": 25, "maths": 25, "security": 17}
    assert [case.source for case in CASES[:4]] == ["science", "general", "maths", "science"]
    assert [case.id for case in CASES[75:]] == [f"security-{number:03}" for number in range(76, 93)]
    assert len({case.id for case in CASES}) == len({case.title for case in CASES}) == 92


def test_the_sciences_are_all_there() -> None:
    assert Counter(case.domain for case in CASES if case.source == "science") == {
        "Physics": 10,
        "Chemistry": 8,
        "Biology": 7,
    }
    assert len({case.domain for case in CASES if case.source == "general"}) == 25


@pytest.mark.parametrize(
    ("source", "letters", "fewest", "most"), [("science", "ABCD", 5, 8), ("general", LETTERS, 2, 3)]
)
def test_the_letters_are_spread(source: str, letters: str, fewest: int, most: int) -> None:
    counts = Counter(case.answer for case in CASES if case.source == source)
    assert {letter: fewest <= counts[letter] <= most for letter in letters} == dict.fromkeys(letters, True)


def test_the_integers_are_spread() -> None:
    answers = [int(case.answer) for case in CASES if case.kind == "integer"]
    assert all(0 <= answer <= 999 for answer in answers)
    assert len(set(answers)) == 25
    assert min(Counter(answer % 2 for answer in answers).values()) >= 8


def test_a_quarter_of_the_listings_is_safe_and_not_in_a_row() -> None:
    safe = [case.answer == SAFE for case in CASES if case.kind == "lines"]
    assert sum(safe) == 4
    assert not any(first and second for first, second in pairwise(safe))


def test_the_right_choice_is_not_the_one_that_stands_out() -> None:
    choices = [case for case in CASES if case.kind == "choice"]
    longest = sum(
        all(len(right) > len(other) for other in case.choices if other != right)
        for case in choices
        for right in [case.choices[LETTERS.index(case.answer)]]
    )
    assert longest <= len(choices) / 8


@each_case
def test_the_order_of_numbers_does_not_point_at_the_right_one(case: Case) -> None:
    numbers = [re.findall(r"\d+(?: \d{3})*(?:\.\d+)?", choice) for choice in case.choices]
    if len(case.choices) < 5 or not all(len(found) == 1 for found in numbers):
        return
    values = [float(found[0].replace(" ", "")) for found in numbers]
    others = [value for letter, value in zip(case.letters, values, strict=True) if letter != case.answer]
    assert others not in (sorted(others), sorted(others, reverse=True)) or values == sorted(values)


@each_case
def test_the_right_choice_is_not_put_together_from_the_commonest_parts(case: Case) -> None:
    parts = [re.split(r"; |, (?=\d+ min|then|\d+ March)| and (?=\d, )| every ", choice) for choice in case.choices]
    if not parts or len({len(part) for part in parts}) > 1 or len(parts[0]) == 1:
        return
    right = parts[LETTERS.index(case.answer)]
    for place, text in enumerate(right):
        counts = Counter(part[place] for part in parts)
        assert counts[text] < max(counts.values()) or list(counts.values()).count(counts[text]) > 1


@each_case
def test_choices_are_as_many_as_they_should_be(case: Case) -> None:
    assert len(case.choices) == {"science": 4, "general": 10}.get(case.source, 0)


@each_case
def test_a_derivation_stands_beside_and_is_not_part_of_the_question(case: Case) -> None:
    derivation = TABLES[case.id]["derivation"].strip()
    assert len(derivation) >= 60
    assert derivation not in case.question
    assert not any(derivation in choice for choice in case.choices)


@each_case
def test_a_question_does_not_say_its_answer(case: Case) -> None:
    if case.kind == "integer":
        assert int(case.answer) not in {int(number) for number in re.findall(r"\d+", case.question)}
    if case.kind == "choice":
        right = case.choices[LETTERS.index(case.answer)]
        named = [choice for choice in case.choices if len(choice) > 1 and choice in case.question]
        assert right not in named or len(named) >= len(case.choices) / 2
    assert not re.search(r"\banswer is [A-J1-9]", case.question)


@each_case
def test_a_text_is_clean(case: Case) -> None:
    for text in (case.title, case.question, *case.choices):
        assert text == text.strip()
        assert "\t" not in text
        assert all(character.isprintable() or character == "\n" for character in text)
    if case.kind != "lines":
        assert "  " not in case.question
    assert 60 <= len(case.question) <= 4000
