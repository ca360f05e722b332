"""Answers out of texts: every trap of the self-test, and nothing ever breaks on any text."""

import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from whitedwarf.evals.case import LETTERS, Kind
from whitedwarf.evals.extract import answer_part, extract
from whitedwarf.evals.extractor_traps import TRAPS, Trap, fallen_for
from whitedwarf.evals.lines import find_lines

KINDS = st.sampled_from(["choice", "integer", "lines"])
WORDS = st.sampled_from(
    [
        *("Answer", "answer:", "**Answer**:", "A", "I", "C.", "not", "isn't", "ruled out", "=", "70", "007", "-3"),
        *(
            "1,024",
            "12-14",
            "12,",
            "\n",
            "</think>",
            "a",
            "’s",
            "9" * 5000,
            "²",
            "٣",
            "ſ",
            "\ud800",
            "answer" + " " * 50,
        ),
    ]
)


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: f"{trap.kind}: {trap.name}")
def test_no_trap_is_fallen_for(trap: Trap) -> None:
    assert trap.found() == trap.given


def test_the_self_test_finds_nothing_and_every_trap_has_a_name_of_its_own() -> None:
    assert fallen_for() == []
    assert len({(trap.kind, trap.name) for trap in TRAPS}) == len(TRAPS)


@given(st.text() | st.lists(WORDS).map(" ".join) | st.lists(WORDS).map("".join), KINDS, st.integers(2, 10))
@example("Answer: " + "9" * 10_000, "lines", 4)
@example("Answer: " + "9" * 10_000 + "-" + "9" * 20_000, "lines", 4)
def test_whatever_the_text_there_is_an_answer_in_normal_form(text: str, kind: Kind, num_choices: int) -> None:
    letters = LETTERS[:num_choices]
    found = extract(answer_part(text), kind, letters)
    if kind == "choice":
        assert found == "" or (len(found) == 1 and found in letters)
    elif kind == "lines":
        assert set(found) <= set("0123456789,-")
        assert found == "" or find_lines(found) == found
    else:
        assert set(found) <= set("0123456789.-")


@given(st.text(string.ascii_lowercase + " .\n"), st.sampled_from("ABCDEFGHIJ"))
def test_a_last_line_in_the_asked_form_is_always_read(before: str, letter: str) -> None:
    assert extract(f"{before}\nAnswer: {letter}", "choice", LETTERS) == letter


@given(st.text(), st.integers(0, 10**40))
def test_a_last_line_with_an_integer_is_always_read(before: str, number: int) -> None:
    assert extract(f"{before}\nAnswer: {number}", "integer") == str(number)


@pytest.mark.parametrize("text", ["answer " * 20_000, "answer" + " " * 100_000, "A " * 50_000, "1-" * 50_000])
@pytest.mark.parametrize("kind", ["choice", "integer", "lines"])
def test_long_monotonous_texts_take_no_time(text: str, kind: Kind) -> None:
    extract(text, kind, "ABCD")  # a slow one would take minutes
