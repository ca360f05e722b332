"""Reading question files: strictly, and with the place of what is wrong."""

import pytest

from whitedwarf.errors import FileFormatError
from whitedwarf.evals.questions import read_questions

GOOD = '''
[[case]]
id = "sum-1"
domain = "Arithmetic"
title = "A sum"
question = """
What is 1 + 2?
Think.
"""
choices = ["2", "3"]
answer = "B"
derivation = "Count."
'''


def test_a_file_of_questions_is_read() -> None:
    (case,) = read_questions(GOOD, "science", "choice")
    assert (case.name, case.kind, case.choices, case.answer) == ("science/sum-1", "choice", ("2", "3"), "B")
    assert case.question == "What is 1 + 2?\nThink."
    assert "Count" not in repr(case)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("derivation", "derivations", "unknown member 'derivations'"),
        ('answer = "B"', "", "case 1 .sum-1.: 'answer' is missing"),
        ('answer = "B"', "answer = 3", "answer must be a text"),
        ('answer = "B"', 'answer = "C"', "science.toml, case 1 .sum-1.: answer: expected one letter of AB"),
        ('["2", "3"]', "[2, 3]", "choices must be a list of texts"),
        ('["2", "3"]', '["2", "2"]', "two choices are the same"),
        ("[[case]]", "[case]", "written as"),
        ("[[case]]", "version = 1\n[[case]]", "unknown member 'version'"),
        ("[[case]]", "[[case", "expected TOML"),
        ('"Arithmetic"', '" "', "domain must be a text that is not empty"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(old: str, new: str, told: str) -> None:
    assert old in GOOD
    with pytest.raises(FileFormatError, match=told):
        read_questions(GOOD.replace(old, new), "science", "choice")


def test_ids_are_unique_in_a_file() -> None:
    with pytest.raises(FileFormatError, match=r"two cases have the id 'sum-1'"):
        read_questions(GOOD + GOOD, "science", "choice")
