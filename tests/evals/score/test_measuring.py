"""Teacher forcing against its definition, token by token, on a model that any mix-up shows in."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.models import FakeModel, expected_logits, greedy_continuation
from whitedwarf.errors import FileFormatError, WhitedwarfError
from whitedwarf.evals.score.comparison import compare, report
from whitedwarf.evals.score.likelihood import forced, forced_logits, log_softmax, nll_of
from whitedwarf.evals.score.measuring import Forcing, Score, measured, total_of

VOCAB = 40
IDS = st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=12)


def slow_nll(prompt: list[int], target: list[int]) -> list[float]:
    """By the definition."""
    found = []
    for number, token in enumerate(target):
        row = expected_logits(prompt + target[:number], VOCAB).astype(np.float64)
        found.append(math.log(sum(math.exp(value - row[token]) for value in row)))
    return found


@given(prompt=IDS, target=IDS, chunk=st.integers(1, 15))
def test_forcing_is_what_its_definition_says(prompt: list[int], target: list[int], chunk: int) -> None:
    outcome = forced(FakeModel(vocab_size=VOCAB), prompt, target, chunk)
    assert outcome.nll.tolist() == pytest.approx(slow_nll(prompt, target), abs=1e-9)
    likeliest = [expected_logits(prompt + target[:i], VOCAB).argmax() == token for i, token in enumerate(target)]
    assert outcome.is_likeliest.tolist() == likeliest


@pytest.mark.parametrize(("prompt", "target"), [([], [1]), ([1], [])])
def test_nothing_cannot_be_forced(prompt: list[int], target: list[int]) -> None:
    with pytest.raises(ValueError, match="expected a prompt and targets"):
        list(forced_logits(FakeModel(vocab_size=VOCAB), prompt, target, 4))


@pytest.mark.parametrize("right", [0, 1, 3, 5])
def test_the_greedy_beginning_is_counted(right: int) -> None:
    prompt = [3, 1, 4]
    target = greedy_continuation(prompt, 5, VOCAB)
    if right < 5:
        target[right] = (target[right] + 1) % VOCAB
    (score,) = measured(FakeModel(vocab_size=VOCAB), [Forcing("a", prompt, target)], 4)
    assert (score.greedy_lcp, score.first_match) == (right, right > 0)
    assert (score.prompt_tokens, score.target_tokens) == (3, 5)


def test_logits_that_are_no_numbers_are_said() -> None:
    class Broken(FakeModel):
        def forward(self, spans):  # type: ignore[no-untyped-def]
            return [logits * np.nan for logits in super().forward(spans)]

    with pytest.raises(WhitedwarfError, match="logits are no numbers"):
        list(measured(Broken(vocab_size=VOCAB), [Forcing("a", [1], [2])], 4))


def test_far_logits_do_not_overflow() -> None:
    row = np.array([[1e4, -1e4, 0]], np.float32)
    assert nll_of(row, np.array([1]))[0] == pytest.approx(2e4)
    assert log_softmax(row[0])[0] == pytest.approx(0)


# comparing


def score(case_id: str, nll: float, tokens: int = 10, first: bool = True, lcp: int = 5) -> Score:
    return Score(case_id, 7, tokens, nll, first, lcp)


def test_totals_weigh_tokens_not_cases() -> None:
    total = total_of([score("a", 10, tokens=1, first=False, lcp=0), score("b", 2, tokens=3, lcp=3)])
    assert (total.average_nll, total.first_matches, total.average_lcp) == (3, 1, 1.5)


def test_the_common_cases_are_compared() -> None:
    old = [score("a", 5), score("b", 5), score("c", 5), score("gone", 1)]
    new = [score("b", 7, first=False), score("a", 3, lcp=9), score("c", 5), score("new", 1), score("newer", 1)]
    found = compare(old, new)
    assert (found.old_only, found.new_only, len(found.changes)) == (1, 2, 3)
    assert found.wins() == (1, 1, 1)
    assert [change.id for change in found.best()] == ["a"]
    assert [change.id for change in found.worst()] == ["b"]
    assert found.delta == pytest.approx(0)
    assert (found.old.first_matches, found.new.first_matches) == (3, 2)
    text = "\n".join(report(found))
    assert "cases 3 (1 only in the old, 2 only in the new), 30 tokens" in text
    assert "likelier in the new 1, in the old 1, the same 1" in text


def test_eight_at_either_end_are_shown() -> None:
    old = [score(f"c{i:02d}", 10) for i in range(30)]
    new = [score(f"c{i:02d}", i) for i in range(30)]
    found = compare(old, new)
    assert [change.id for change in found.best()] == [f"c{i:02d}" for i in range(8)]
    assert [change.id for change in found.worst()] == [f"c{i:02d}" for i in range(29, 21, -1)]
    assert found.relative == pytest.approx(0.45)


def test_a_model_is_never_better_than_itself() -> None:
    scores = [score("a", 5), score("b", 0.0)]
    found = compare(scores, scores)
    assert (found.delta, found.wins(), found.best(), found.worst()) == (0, (0, 0, 2), (), ())


def test_a_perfect_old_score_has_no_relative_change() -> None:
    found = compare([score("a", 0)], [score("a", 1)])
    assert found.relative is None
    assert "average nll" in "\n".join(report(found))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ([score("a", 1)], [score("b", 1)], "no case in common"),
        ([score("a", 1, tokens=9)], [score("a", 1)], "has 9 tokens in one table and 10 in the other"),
    ],
)
def test_what_cannot_be_compared_is_said(old: list[Score], new: list[Score], said: str) -> None:
    with pytest.raises(FileFormatError, match=said):
        compare(old, new)
