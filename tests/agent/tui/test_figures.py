"""Figures are short and say what they mean."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whitedwarf.agent.tui.figures import bar, count, duration, percent, rate


@pytest.mark.parametrize(
    ("number", "said"),
    [(0, "0"), (999, "999"), (1000, "1k"), (12_345, "12.3k"), (99_949, "99.9k"), (99_950, "100k"), (131_072, "131k")],
)
def test_counts(number: int, said: str) -> None:
    assert count(number) == said


def test_large_counts() -> None:
    assert (count(999_499), count(999_500), count(1_048_576)) == ("999k", "1.00M", "1.05M")


@given(st.integers(0, 10_000_000))
def test_a_count_is_never_wider_than_six_cells(number: int) -> None:
    assert len(count(number)) <= 6


def test_rates() -> None:
    assert (rate(50, 2.0), rate(5000, 4.0), rate(0, 1.0), rate(5, 0.0)) == ("25.0 t/s", "1250 t/s", "", "")


def test_durations() -> None:
    said = [duration(seconds) for seconds in (-1, 0.44, 9.96, 12.3, 59.6, 185, 7209)]
    assert said == ["0.0 s", "0.4 s", "10.0 s", "12 s", "1:00", "3:05", "2:00:09"]


@given(st.floats(allow_nan=False), st.integers(1, 40))
def test_a_bar_has_its_width_whatever_the_fraction(fraction: float, cells: int) -> None:
    assert len(bar(fraction, cells)) == cells


def test_bars() -> None:
    assert (bar(0, 4), bar(0.5, 4), bar(1, 4), bar(0.53, 4)) == ("    ", "██  ", "████", "██▏ ")


def test_a_hundred_percent_means_all() -> None:
    assert (percent(999, 1000), percent(1000, 1000), percent(2000, 1000), percent(1, 0)) == (99, 100, 100, 0)
