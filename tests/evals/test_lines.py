"""Lines as answers name them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whitedwarf.evals.lines import find_lines, names_right_lines

SPECS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 5)).map(lambda pair: f"{pair[0]}-{sum(pair)}"), min_size=1, max_size=5
).map(",".join)


@pytest.mark.parametrize(
    ("given_lines", "expected", "is_right"),
    [
        ("12", "12", True),
        ("12", "12,14-15", True),
        ("14", "12,14-15", True),
        ("14-15", "12,14-15", True),
        ("12,15", "12,14-15", True),
        ("12-15", "12,14-15", False),
        ("13", "12,14-15", False),
        ("12,13", "12,14-15", False),
        ("0", "12", False),
        ("12", "0", False),
        ("0", "0", True),
        ("", "0", False),
        ("12-13", "12,13", True),
        ("1-999999999999999", "12", False),
        ("5", "1-999999999999999", True),
    ],
)
def test_some_of_the_right_lines_and_no_other_are_right(given_lines: str, expected: str, is_right: bool) -> None:
    assert names_right_lines(given_lines, expected) is is_right


def unfolded(spec: str) -> set[int]:
    parts = [part.split("-") for part in spec.split(",")]
    return {line for part in parts for line in range(int(part[0]), int(part[-1]) + 1)}


@given(SPECS, SPECS)
def test_intervals_say_what_sets_say(given_lines: str, expected: str) -> None:
    assert names_right_lines(given_lines, expected) is (unfolded(given_lines) <= unfolded(expected))


@given(SPECS, st.text("abc \n;"), st.text("abc \n;"))
def test_lines_are_found_among_words_and_keep_their_meaning(spec: str, before: str, after: str) -> None:
    found = find_lines(f"{before}{spec.replace(',', ' , ').replace('-', ' - ')}{after}")
    assert found is not None
    assert unfolded(found) == unfolded(spec)


def test_a_range_that_runs_backwards_is_turned_round() -> None:
    assert find_lines("15-12") == "12-15"
    assert find_lines("none") is None
