"""Choices: the same for ever, fair enough, within their bounds."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whitedwarf.calibration.dice import Dice

GOLDEN = [571, 655, 981, 954, 614, 649, 242, 791]
SHUFFLED = [2, 1, 4, 5, 3, 7, 0, 6]
HEX = "a2940c5d66cd"


def test_choices_stay_what_they_were() -> None:
    dice = Dice("golden", 7)
    assert [dice.below(1000) for _ in range(8)] == GOLDEN
    assert dice.shuffled(range(8)) == SHUFFLED
    assert dice.hex(12) == HEX


def test_seeds_that_look_alike_are_different() -> None:
    seeds = [("a", 1), ("a", "1"), ("a1",), ("a", 1, ""), ("", "a", 1)]
    assert len({Dice(*seed).hex(16) for seed in seeds}) == len(seeds)


@given(st.integers(), st.integers(1, 10**6))
def test_bounds_are_kept(seed: int, count: int) -> None:
    dice = Dice(seed)
    assert 0 <= dice.below(count) < count
    assert count <= dice.between(count, count + 1) <= count + 1
    assert len(dice.digits(5)) == 5
    assert sorted(dice.shuffled(range(9))) == list(range(9))
    assert len(set(dice.some(range(9), 4))) == 4
    assert len(dice.some(range(3), 9)) == 3


def test_choices_are_fair() -> None:
    dice = Dice(0)
    counts = Counter(dice.below(10) for _ in range(10_000))
    assert all(900 < counts[number] < 1100 for number in range(10))
    weighted = Counter(dice.weighted({"a": 1, "b": 9, "c": 0}) for _ in range(10_000))
    assert 900 < weighted["a"] < 1100
    assert weighted["c"] == 0
    assert 2800 < sum(dice.chance(30) for _ in range(10_000)) < 3200


def test_nothing_cannot_be_chosen_from() -> None:
    with pytest.raises(ValueError, match="nothing"):
        Dice(0).weighted({"a": 0})
