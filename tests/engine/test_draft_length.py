"""Guesses are looked at where that was measured to be worth it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whitedwarf.engine.draft_length import LASTING, PLAIN_EVERY, Company, DraftLengths, HitRates, PassCosts, best_length

ALONE = Company(rows=1, answers=1)


def costs(seconds: dict[int, float]) -> PassCosts:
    known = PassCosts()
    for _ in range(LASTING // (2 * len(seconds))):
        for rows, took in seconds.items():
            known.took(rows, took)
    return known


def test_rows_that_cost_nothing_are_all_looked_at() -> None:
    assert best_length(0.9, 8, ALONE, costs(dict.fromkeys(range(1, 10), 0.1))) == 8


def test_rows_that_cost_a_pass_each_never_are() -> None:
    assert best_length(0.9, 8, ALONE, costs({rows: 0.1 * rows for rows in range(1, 10)})) == 0


def test_bad_guesses_are_not_looked_at() -> None:
    cheap = costs({rows: 0.1 + 0.02 * rows for rows in range(1, 10)})
    assert best_length(0.05, 8, ALONE, cheap) == 0
    assert best_length(0.6, 8, ALONE, cheap) in range(2, 5)
    assert best_length(0.95, 8, ALONE, cheap) == 8


@given(
    rate=st.floats(0, 1),
    most=st.integers(0, 16),
    seconds=st.lists(st.floats(1e-4, 10), min_size=17, max_size=17),
)
def test_no_other_length_would_have_been_much_better(rate: float, most: int, seconds: list[float]) -> None:
    known = costs(dict(enumerate(sorted(seconds), 1)))  # more rows take longer
    chosen = best_length(rate, most, ALONE, known)

    def pace(length: int) -> float:
        return sum(rate**power for power in range(length + 1)) / known.of(1 + length)

    assert 0 <= chosen <= most
    assert all(pace(length) <= max(pace(chosen), 1.05 * pace(0)) * (1 + 1e-9) for length in range(most + 1))


def test_rows_not_measured_are_between_their_neighbours() -> None:
    known = costs({1: 1.0, 5: 2.0})
    assert known.of(3) == pytest.approx(1.5)
    assert known.of(9) > 2.0
    assert costs({4: 1.0}).of(2) == 1.0


def test_one_slow_pass_spoils_nothing_for_long() -> None:
    known = costs({1: 0.1})
    known.took(1, 60.0)
    assert known.of(1) < 0.15


def test_a_first_pass_that_was_held_up_keeps_nobody_from_trying_again() -> None:
    known = costs({1: 0.1, 2: 0.11})
    known.took(9, 60.0)
    spoilt = known.of(9)
    for _ in range(2 * LASTING):
        known.took(1, 0.1)
        known.took(3, 0.12)
    assert known.of(9) < 0.2 < spoilt


def test_what_further_rows_cost_is_learned_from_fewer() -> None:
    assert costs({1: 0.1, 3: 0.12}).of(9) == pytest.approx(0.18, rel=0.05)
    assert costs({1: 0.1, 3: 0.3}).of(9) == pytest.approx(0.9, rel=0.05)


def test_an_answer_learns_faster_than_the_engine_and_begins_where_that_is() -> None:
    engine = HitRates()
    first = HitRates(engine)
    for _ in range(100):
        first.saw("mtp", hits=0, misses=1, hope=0.7)
    assert first.of("mtp", 0.7) < 0.05
    assert first.of("mtp", 0.7) < engine.of("mtp", 0.7) < engine.of("other", 0.7)
    assert HitRates(engine).of("mtp", 0.1) == engine.of("mtp", 0.7)


def test_guesses_that_lose_are_looked_at_for_a_small_share_of_the_time() -> None:
    lengths, plain_s, lost_s, total_s = DraftLengths(), 0.1, 0.0, 0.0
    for _ in range(2000):
        rows = 4 if lengths.begin_pass() else 1  # never right, whatever the rates say
        seconds = plain_s * (1 + 0.5 * (rows - 1))
        lengths.costs.took(rows, seconds)
        lengths.passed(rows, 1, 1)
        lost_s, total_s = lost_s + seconds - plain_s, total_s + seconds
    assert lost_s < 0.03 * total_s


def test_guesses_that_pay_are_always_looked_at_and_soon_not_when_that_ends() -> None:
    lengths, plain_s = DraftLengths(), 0.1
    for _ in range(500):
        rows = 4 if lengths.begin_pass() else 1
        lengths.costs.took(rows, plain_s * (1 + 0.2 * (rows - 1)))
        lengths.passed(rows, 1, rows)
    assert rows == 4
    looked_at = 0
    for _ in range(500):
        rows = 4 if lengths.begin_pass() else 1
        looked_at += rows == 4
        lengths.costs.took(rows, plain_s * (1 + 0.2 * (rows - 1)))
        lengths.passed(rows, 1, 1)
    assert looked_at < 100


def test_now_and_then_a_pass_without_guesses_is_timed() -> None:
    lengths = DraftLengths()
    assert not lengths.begin_pass()  # the first one shows what a pass takes
    lengths.costs.took(1, 0.1)
    lengths.passed(1, 1, 1)
    passes = [lengths.begin_pass() for _ in range(10 * (PLAIN_EVERY + 1))]
    assert passes.count(False) == 10
