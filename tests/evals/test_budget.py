"""Closing thoughts: exactly when, and how it is told."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.gates import PATIENCE_S
from fakes.models import FakeModel, expected_logits
from whitedwarf.engine.engine import Engine
from whitedwarf.engine.request import GREEDY, GenerateOptions
from whitedwarf.errors import UsageError
from whitedwarf.evals.budget import CloseKind, Limits, ThinkBudget, ThinkClose, close_now, rank_of

VOCAB, PROMPT = 64, [3, 1, 4, 1, 5]


def answer(limits: Limits, close_id: int, budget: int) -> tuple[list[int], ThinkClose]:
    think = ThinkBudget(limits, close_id, budget)
    with Engine(FakeModel(vocab_size=VOCAB)) as engine:
        options = GenerateOptions(budget, sampling=GREEDY)
        ids = engine.submit(PROMPT, options, guide=think, chooser=think).result(PATIENCE_S).ids
    return ids, think.closed


@given(st.integers(0, VOCAB - 1), st.integers(1, 30), st.integers(0, 30), st.integers(0, 30), st.integers(0, 20))
def test_the_engine_closes_exactly_where_a_walk_by_hand_does(
    close_id: int, budget: int, soft: int, hard: int, rank: int
) -> None:
    ids, closed = answer(Limits(soft, hard, rank), close_id, budget)
    expected, end = [], ThinkClose()
    for index in range(budget):
        logits = expected_logits([*PROMPT, *expected], VOCAB)
        place = 1 + sorted(range(VOCAB), key=lambda token: (-logits[token], token)).index(close_id)
        remaining, best = budget - index, int(np.argmax(logits))
        if end.kind is CloseKind.NONE:
            if remaining <= hard:
                end = ThinkClose(CloseKind.HARD, index, remaining, place)
            elif remaining <= soft and place <= rank:
                end = ThinkClose(CloseKind.SOFT, index, remaining, place)
            elif best == close_id:
                end = ThinkClose(CloseKind.NATURAL, index, remaining, place)
            if end.kind is not CloseKind.NONE:
                best = close_id
        expected.append(best)
    assert (ids, closed) == (expected, end)


def test_without_limits_nothing_is_forced() -> None:
    assert close_now(Limits(0, 0, 3), 1, 1) is CloseKind.NONE
    assert close_now(Limits(10, 0, 0), 10, 1) is CloseKind.NONE


def test_hard_wins_over_soft() -> None:
    assert close_now(Limits(10, 10, 3), 10, 1) is CloseKind.HARD
    assert close_now(Limits(10, 9, 3), 10, 3) is CloseKind.SOFT
    assert close_now(Limits(10, 9, 3), 10, 4) is CloseKind.NONE


@pytest.mark.parametrize(
    ("logits", "token", "rank"),
    [
        ([1, 2, 3], 2, 1),
        ([1, 2, 3], 0, 3),
        ([5, 5, 5], 0, 1),
        ([5, 5, 5], 2, 3),
        ([np.nan, np.inf, 1], 2, 1),
        ([np.nan, np.inf, 1], 1, 3),
        ([1, np.nan, 2, -np.inf], 1, 3),
    ],
)
def test_a_rank_counts_what_is_likelier_and_lower_ids_first(logits: list[float], token: int, rank: int) -> None:
    assert rank_of(token, np.array(logits, np.float32)) == rank


def test_negative_limits_are_refused() -> None:
    with pytest.raises(UsageError, match="0 or more"):
        Limits(soft=-1)
