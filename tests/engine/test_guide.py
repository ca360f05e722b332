"""What a guide does to an answer: greedy stretches, an early end, and nothing to any other request."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.gates import PATIENCE_S
from fakes.models import FakeModel, expected_logits, greedy_continuation
from whitedwarf.engine.engine import Engine
from whitedwarf.engine.guide import FREE, Course, Mask
from whitedwarf.engine.request import GREEDY, FinishReason, GenerateOptions, SamplingOptions
from whitedwarf.engine.sampler import XorShift64Star, sample, score
from whitedwarf.engine.script import ScriptedAnswer
from whitedwarf.engine.scripted import ScriptedEngine
from whitedwarf.errors import BackendError

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]
VOCAB = 64
GREEDILY = Course(is_greedy=True)
OVER = Course(is_over=True)


@dataclass
class Steered:
    """Says of the n-th token what `courses` has there, `FREE` where there is nothing; remembers what it was told."""

    courses: dict[int, Course] = field(default_factory=dict)
    fails_at: int | None = None
    masks: dict[int, Mask] = field(default_factory=dict)
    told: list[int] = field(default_factory=list)

    @property
    def course(self) -> Course:
        return self.courses.get(0, FREE)

    def mask(self) -> Mask | None:
        return self.masks.get(len(self.told))

    def accept(self, token: int) -> Course:
        self.told.append(token)
        if len(self.told) == self.fails_at:
            raise ValueError("lost")
        return self.courses.get(len(self.told), FREE)


def real() -> Engine:
    return Engine(FakeModel())


def scripted() -> ScriptedEngine:
    answer = ScriptedAnswer(tuple((token,) for token in greedy_continuation(PROMPT, 10, VOCAB)))
    return ScriptedEngine([answer], context_length=100, vocab_size=VOCAB)


BOTH = pytest.mark.parametrize("engine", [real, scripted])
TEN = GenerateOptions(max_tokens=10, sampling=GREEDY)
ANSWER = greedy_continuation(PROMPT, 10, VOCAB)


@BOTH
def test_a_guide_hears_every_token_once(engine: Callable[[], Engine | ScriptedEngine]) -> None:
    guide = Steered()
    with engine() as running:
        assert running.submit(PROMPT, TEN, guide=guide).result(PATIENCE_S).ids == ANSWER == guide.told


@BOTH
@pytest.mark.parametrize("at", [1, 4, 10])
def test_an_answer_that_is_over_ends_after_that_token(engine: Callable[[], Engine | ScriptedEngine], at: int) -> None:
    with engine() as running:
        completion = running.submit(PROMPT, TEN, guide=Steered({at: OVER})).result(PATIENCE_S)
    assert completion.ids == ANSWER[:at]
    assert (completion.finished.reason, completion.finished.stop_id) == (FinishReason.STOP, None)
    assert completion.finished.generated_tokens == at


@BOTH
def test_a_stop_token_is_not_told_to_the_guide(engine: Callable[[], Engine | ScriptedEngine]) -> None:
    guide, stop = Steered(), ANSWER[3]
    with engine() as running:
        options = GenerateOptions(max_tokens=10, sampling=GREEDY, stop_ids=frozenset({stop}))
        assert running.submit(PROMPT, options, guide=guide).result(PATIENCE_S).finished.stop_id == stop
    assert guide.told == ANSWER[:3]


@BOTH
def test_a_guide_that_fails_ends_its_own_answer_only(engine: Callable[[], Engine | ScriptedEngine]) -> None:
    with engine() as running:
        failed = running.submit(PROMPT, TEN, guide=Steered(fails_at=3))
        beside = running.submit(PROMPT, TEN)
        with pytest.raises(BackendError, match=r"steers the answer failed on token \d+ \(ValueError: lost\)"):
            failed.result(PATIENCE_S)
        assert beside.result(PATIENCE_S).ids == ANSWER
        assert running.submit(PROMPT, TEN).result(PATIENCE_S).ids == ANSWER


@given(st.lists(st.booleans(), min_size=1, max_size=12), st.integers(0, 1000))
def test_greedy_stretches_take_no_random_number(stretches: list[bool], seed: int) -> None:
    sampling, random, expected = SamplingOptions(seed=seed), XorShift64Star(seed), list(PROMPT)
    for is_greedy in (False, *stretches):
        logits = expected_logits(expected, VOCAB)
        expected.append(sample(logits, GREEDY if is_greedy else sampling, random))
    guide = Steered({n: GREEDILY for n, is_greedy in enumerate(stretches, 1) if is_greedy})
    with real() as engine:
        completion = engine.submit(PROMPT, GenerateOptions(len(stretches) + 1, sampling=sampling), guide=guide)
        assert completion.result(PATIENCE_S).ids == expected[len(PROMPT) :]


def test_after_an_end_by_the_guide_the_next_turn_goes_on_with_the_state() -> None:
    with Engine(FakeModel(max_rollback=16), prefix_budget_bytes=100_000) as engine:
        engine.submit(PROMPT, TEN, guide=Steered({4: OVER})).result(PATIENCE_S)
        longer = [*PROMPT, *ANSWER[:4], 7]
        again = engine.submit(longer, TEN).result(PATIENCE_S)
    assert again.finished.reused_tokens == len(PROMPT) + 3  # the last token was drawn, not run
    assert again.ids == greedy_continuation(longer, 10, VOCAB)


def test_the_first_token_may_be_steered_too() -> None:
    one = GenerateOptions(max_tokens=1, sampling=SamplingOptions(temperature=50.0, seed=1))
    with real() as running:
        free = running.submit(PROMPT, one).result(PATIENCE_S).ids
        steered = running.submit(PROMPT, one, guide=Steered({0: GREEDILY})).result(PATIENCE_S).ids
    assert steered == ANSWER[:1] != free


def only(*tokens: int) -> Mask:
    return np.packbits(np.isin(np.arange(VOCAB), tokens), bitorder="little")


def test_a_mask_is_asked_for_before_each_token_and_holds_for_that_one() -> None:
    guide = Steered(masks={0: only(7), 2: only(1, 2, 3)})
    with real() as running:
        said = running.submit(PROMPT, TEN, guide=guide).result(PATIENCE_S).ids
    second = greedy_continuation([*PROMPT, 7], 1, VOCAB)
    logits = expected_logits([*PROMPT, 7, *second], VOCAB)
    assert said[:3] == [7, *second, max((1, 2, 3), key=lambda token: logits[token])]
    assert said[3:] == greedy_continuation([*PROMPT, *said[:3]], 7, VOCAB)


def test_the_probability_that_is_told_is_the_models_own() -> None:
    one = GenerateOptions(max_tokens=1, sampling=GREEDY, logprobs=1)
    with real() as running:
        (token,) = running.submit(PROMPT, one, guide=Steered(masks={0: only(7)})).result(PATIENCE_S).tokens
    logprob, best = score(expected_logits(PROMPT, VOCAB), 7, 1)
    assert (token.id, token.logprob, token.best) == (7, logprob, best)
    assert best[0].id != 7


@pytest.mark.parametrize("is_refused", [False, True])
def test_a_dead_end_ends_its_own_answer_with_an_error(is_refused: bool) -> None:
    class Lost(Steered):
        def mask(self) -> Mask | None:
            if len(self.told) == 2:
                if is_refused:
                    raise RuntimeError("too complex")
                return only()
            return None

    with real() as running:
        failed, beside = running.submit(PROMPT, TEN, guide=Lost()), running.submit(PROMPT, TEN)
        with pytest.raises(BackendError, match="too complex" if is_refused else "allows no token here"):
            failed.result(PATIENCE_S)
        assert beside.result(PATIENCE_S).ids == ANSWER


def test_a_script_is_not_masked() -> None:
    with scripted() as running:
        assert running.submit(PROMPT, TEN, guide=Steered(masks={0: only(7)})).result(PATIENCE_S).ids == ANSWER
