"""Favoured tokens and penalties: what the OpenAI API says of them, one draw after the other."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.drafters import planted_drafting, random_drafting
from fakes.gates import PATIENCE_S
from fakes.models import FakeModel, expected_logits
from whitedwarf.engine.changed_logits import LogitChanges
from whitedwarf.engine.engine import Engine
from whitedwarf.engine.guide import FREE, Course
from whitedwarf.engine.request import GREEDY, GenerateOptions, SamplingOptions
from whitedwarf.engine.sampler import score
from whitedwarf.errors import UsageError

VOCAB = 64
PROMPT = [3, 1, 4]
BIASES = st.dictionaries(st.integers(0, VOCAB - 1), st.floats(-100, 100, width=32), max_size=5)


def plainly_changed(logits: np.ndarray, options: SamplingOptions, answer: Sequence[int]) -> np.ndarray:
    changed = logits.copy()
    for token, bias in options.logit_bias:
        changed[token] += np.float32(bias)
    for token, count in Counter(answer).items():
        changed[token] -= np.float32(options.presence_penalty + count * options.frequency_penalty)
    return changed


@given(
    st.lists(st.integers(0, VOCAB - 1), max_size=200),
    st.sampled_from([0.0, -2.0, 0.5, 2.0]),
    st.sampled_from([0.0, -2.0, 0.25, 2.0]),
    BIASES,
)
def test_logits_change_as_the_definition_says(
    answer: list[int], presence: float, frequency: float, biases: dict[int, float]
) -> None:
    options = SamplingOptions(presence_penalty=presence, frequency_penalty=frequency, logit_bias=tuple(biases.items()))
    changes, logits = LogitChanges(options), expected_logits(PROMPT, VOCAB)
    before = logits.copy()
    for token in answer:
        changes.saw(token)
    assert np.allclose(changes.of(logits), plainly_changed(logits, options, answer), atol=1e-4)
    assert (logits == before).all()


def test_nothing_is_copied_for_who_asks_for_nothing() -> None:
    changes, logits = LogitChanges(SamplingOptions()), expected_logits(PROMPT, VOCAB)
    changes.saw(5)
    assert changes.of(logits) is logits


def answer_with(sampling: SamplingOptions, **engine: object) -> list[int]:
    with Engine(FakeModel(max_rollback=16), **engine) as running:  # type: ignore[arg-type]
        options = GenerateOptions(max_tokens=20, sampling=sampling)
        return running.submit(PROMPT, options).result(PATIENCE_S).ids


def test_a_greedy_answer_takes_the_best_of_the_changed_logits() -> None:
    sampling = SamplingOptions(temperature=0, presence_penalty=2, frequency_penalty=1, logit_bias=((7, 5.0),))
    ids: list[int] = []
    for _ in range(20):
        logits = expected_logits([*PROMPT, *ids], VOCAB)
        ids.append(int(np.argmax(plainly_changed(logits, sampling, ids))))
    assert answer_with(sampling) == ids
    assert answer_with(sampling) != answer_with(GREEDY)


def test_a_hundred_forbids_or_forces_a_token() -> None:
    greedy = answer_with(GREEDY)
    forbidden = SamplingOptions(temperature=0, logit_bias=tuple((token, -100.0) for token in set(greedy)))
    assert not set(answer_with(forbidden)) & set(greedy)
    assert set(answer_with(SamplingOptions(min_p=0, logit_bias=((9, 100.0),)))) == {9}


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_drafts_change_nothing(temperature: float) -> None:
    sampling = SamplingOptions(temperature, seed=5, presence_penalty=1, frequency_penalty=0.5, logit_bias=((9, 3.0),))
    plain = answer_with(sampling)

    def truth(ids: Sequence[int], count: int) -> list[int]:
        return plain[len(ids) - len(PROMPT) :][:count]

    for drafting in (planted_drafting(truth, 0.3), random_drafting(4)):
        assert answer_with(sampling, drafting=drafting) == plain


def test_log_probabilities_are_the_model_s_own() -> None:
    sampling = SamplingOptions(temperature=0, logit_bias=((9, 100.0),))
    with Engine(FakeModel()) as engine:
        (token,) = engine.submit(PROMPT, GenerateOptions(1, sampling=sampling, logprobs=2)).result(PATIENCE_S).tokens
    assert token.id == 9
    assert (token.logprob, token.best) == score(expected_logits(PROMPT, VOCAB), 9, 2)


class Strict:
    """A guide that wants all greedily: structure."""

    course = Course(is_greedy=True)

    def mask(self) -> None:
        return None

    def accept(self, token: int) -> Course:
        return self.course if token else FREE


def test_structure_is_spoilt_by_nothing() -> None:
    sampling = SamplingOptions(presence_penalty=2, frequency_penalty=2, logit_bias=((9, 100.0),))
    with Engine(FakeModel()) as engine:
        options = GenerateOptions(max_tokens=10, sampling=sampling)
        guided = engine.submit(PROMPT, options, guide=Strict()).result(PATIENCE_S).ids
        assert guided == engine.submit(PROMPT, GenerateOptions(10, sampling=GREEDY)).result(PATIENCE_S).ids


def test_a_bias_for_no_token_is_refused() -> None:
    with Engine(FakeModel()) as engine, pytest.raises(UsageError, match="from 0 to 63, got 64"):
        engine.submit(PROMPT, GenerateOptions(sampling=SamplingOptions(logit_bias=((64, 1.0),))))
