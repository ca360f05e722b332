"""Who takes tokens out of the sampler's hands: only where it wants to, for its own answer alone; and a pause."""

import time
from dataclasses import dataclass, field

import numpy as np
import pytest

from fakes.gates import PATIENCE_S
from fakes.models import FakeModel, expected_logits, greedy_continuation
from whitedwarf.engine.engine import Engine
from whitedwarf.engine.guide import FREE, Course, Mask
from whitedwarf.engine.request import GREEDY, FinishReason, GenerateOptions, SamplingOptions, Token
from whitedwarf.engine.sampler import XorShift64Star, sample
from whitedwarf.errors import BackendError
from whitedwarf.model.base import Logits

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]
VOCAB = 64
TEN = GenerateOptions(max_tokens=10, sampling=GREEDY)
ANSWER = greedy_continuation(PROMPT, 10, VOCAB)


@dataclass
class Chosen:
    """Takes the n-th token as `tokens` has it, and remembers all logits it was shown."""

    tokens: dict[int, int] = field(default_factory=dict)
    fails_at: int | None = None
    shown: list[Logits] = field(default_factory=list)

    def choose(self, logits: Logits) -> int | None:
        self.shown.append(logits.copy())
        if len(self.shown) - 1 == self.fails_at:
            raise ValueError("lost")
        return self.tokens.get(len(self.shown) - 1)


def test_it_sees_the_logits_of_every_token_and_may_leave_them_alone() -> None:
    chooser = Chosen()
    with Engine(FakeModel()) as engine:
        assert engine.submit(PROMPT, TEN, chooser=chooser).result(PATIENCE_S).ids == ANSWER
    for n, logits in enumerate(chooser.shown):
        assert np.array_equal(logits, expected_logits([*PROMPT, *ANSWER[:n]], VOCAB))


def test_what_it_takes_comes_and_the_answer_goes_on_from_there() -> None:
    unlikely = int(np.argmin(expected_logits([*PROMPT, *ANSWER[:3]], VOCAB)))
    with Engine(FakeModel()) as engine:
        ids = engine.submit(PROMPT, TEN, chooser=Chosen({3: unlikely})).result(PATIENCE_S).ids
    begun = [*ANSWER[:3], unlikely]
    assert ids == [*begun, *greedy_continuation([*PROMPT, *begun], 6, VOCAB)]


def test_a_chosen_token_takes_no_random_number_and_needs_no_guide() -> None:
    class Nothing:
        course: Course = FREE

        def mask(self) -> Mask | None:
            return np.packbits(np.arange(VOCAB) == 5, bitorder="little")

        def accept(self, token: int) -> Course:
            return FREE

    sampling, random = SamplingOptions(seed=7), XorShift64Star(7)
    first = sample(expected_logits(PROMPT, VOCAB), sampling, random)
    third = sample(expected_logits([*PROMPT, first, 9], VOCAB), sampling, random)
    with Engine(FakeModel()) as engine:
        three = GenerateOptions(3, sampling=sampling)
        assert engine.submit(PROMPT, three, chooser=Chosen({1: 9})).result(PATIENCE_S).ids == [first, 9, third]
        both = engine.submit(PROMPT, three, guide=Nothing(), chooser=Chosen({1: 9})).result(PATIENCE_S)
        assert both.ids == [5, 9, 5]


def test_a_chosen_stop_token_ends_the_answer() -> None:
    options = GenerateOptions(max_tokens=10, sampling=GREEDY, stop_ids=frozenset({7}))
    with Engine(FakeModel()) as engine:
        completion = engine.submit(PROMPT, options, chooser=Chosen({2: 7})).result(PATIENCE_S)
    assert (completion.ids, completion.finished.stop_id) == (ANSWER[:2], 7)


def test_one_that_fails_ends_its_own_answer_only() -> None:
    with Engine(FakeModel()) as engine:
        failed, beside = engine.submit(PROMPT, TEN, chooser=Chosen(fails_at=2)), engine.submit(PROMPT, TEN)
        with pytest.raises(BackendError, match=r"chooses the answer's tokens failed \(ValueError: lost\)"):
            failed.result(PATIENCE_S)
        assert beside.result(PATIENCE_S).ids == ANSWER


def test_a_paused_engine_stands_still_and_then_goes_on_with_the_same_tokens() -> None:
    with Engine(FakeModel(delay_s=0.01)) as engine:
        generation = engine.submit(PROMPT, TEN)
        while not isinstance(generation.next_event(PATIENCE_S), Token):
            pass
        engine.is_paused = True
        time.sleep(0.1)  # the pass in hand
        while generation.next_event(0) is not None:
            pass
        assert generation.next_event(0.3) is None
        assert engine.is_paused
        engine.is_paused = False
        assert generation.result(PATIENCE_S).ids == ANSWER


def test_a_cancel_and_a_close_are_heard_in_a_pause() -> None:
    engine = Engine(FakeModel(delay_s=0.01))
    endless = GenerateOptions(max_tokens=900, sampling=GREEDY)
    first, second = engine.submit(PROMPT, endless), engine.submit([*PROMPT, 1], endless)
    engine.is_paused = True
    first.cancel()
    assert first.result(PATIENCE_S).finished.reason is FinishReason.CANCELLED
    engine.close()
    assert second.result(PATIENCE_S).finished.reason is FinishReason.CANCELLED


def test_a_paused_engine_that_drains_lets_its_requests_end() -> None:
    engine = Engine(FakeModel())
    engine.is_paused = True
    generation = engine.submit(PROMPT, TEN)
    engine.close(drain=True)
    assert generation.result(PATIENCE_S).ids == ANSWER
