"""Requests that begin alike and come together: what they share is computed once, and nobody is the worse for it."""

from collections.abc import Sequence

import numpy as np
import pytest

from fakes.gates import PATIENCE_S, Gate
from fakes.models import FAKE_SNAPSHOT_BYTES, FakeModel, greedy_continuation
from whitedwarf.engine.engine import Engine
from whitedwarf.engine.request import GREEDY, FinishReason, GenerateOptions, Prefilled
from whitedwarf.errors import BackendError
from whitedwarf.model.base import Span

ROOMY = 1000 * FAKE_SNAPSHOT_BYTES
VOCAB = 64
SHORT = GenerateOptions(max_tokens=3, sampling=GREEDY)


def prompt(length: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(0, VOCAB, length).tolist()


class Bench:
    """A gated model of which every pass is let through once `open` is called."""

    def __init__(self, **options: int) -> None:
        self.gate = Gate()
        self.model = FakeModel(context_length=6000, max_rollback=16, before_forward=self.gate)
        self.engine = Engine(self.model, max_chunk_tokens=256, **{"prefix_budget_bytes": ROOMY, **options})

    def __enter__(self) -> "Bench":
        return self

    def __exit__(self, *_: object) -> None:
        self.gate.open()
        self.engine.close()

    def answers(self, prompts: Sequence[list[int]]) -> list[int]:
        """Ask them all while the first pass stands -> how many tokens of each were reused."""
        generations = [self.engine.submit(ids, SHORT) for ids in prompts]
        self.gate.open()
        completions = [generation.result(PATIENCE_S) for generation in generations]
        expected = [greedy_continuation(ids, 3, VOCAB) for ids in prompts]
        assert [completion.ids for completion in completions] == expected
        return [completion.finished.reused_tokens for completion in completions]


def test_the_same_prompt_at_the_same_time_is_read_once() -> None:
    with Bench() as bench:
        assert bench.answers([prompt(3000)] * 4) == [0, 2999, 2999, 2999]
        assert bench.model.rows == 3000 + 3 + 4 * 2


def test_agents_with_one_system_prompt_read_it_once() -> None:
    with Bench() as bench:
        reused = bench.answers([[*prompt(2048), *prompt(500, seed)] for seed in range(1, 5)])
    assert reused == [0, 2048, 2048, 2048]


def test_who_has_little_in_common_is_not_held_up() -> None:
    with Bench() as bench:
        first = bench.engine.submit(prompt(3000), SHORT)
        bench.gate.wait_for_pass(1)
        other = bench.engine.submit([*prompt(200), *prompt(755, 1)], SHORT)
        bench.gate.let_through()
        bench.gate.wait_for_pass(2)
        assert other.next_event(PATIENCE_S) == Prefilled(0, 955)
        first.cancel()


def test_without_memory_nobody_waits_for_a_checkpoint() -> None:
    with Bench(prefix_budget_bytes=0) as bench:
        assert bench.answers([prompt(600)] * 2) == [0, 0]


def test_a_checkpoint_that_does_not_fit_costs_only_the_reuse() -> None:
    with Bench(prefix_budget_bytes=1) as bench:
        assert bench.answers([prompt(600)] * 3) == [0, 0, 0]


def test_who_was_waited_for_may_leave_or_fail() -> None:
    for is_failing in (False, True):
        with Bench() as bench:
            first, second = (bench.engine.submit(prompt(3000), SHORT) for _ in range(2))
            bench.gate.let_through(4)
            bench.gate.wait_for_pass(5)
            if is_failing:
                bench.model.before_forward = _fail_once(bench)
            else:
                first.cancel()
            bench.gate.open()
            completion = second.result(PATIENCE_S)
            assert completion.ids == greedy_continuation(prompt(3000), 3, VOCAB)
            assert completion.finished.reused_tokens >= 4 * 256
            if is_failing:
                with pytest.raises(BackendError, match="once"):
                    first.result(PATIENCE_S)


def _fail_once(bench: Bench):  # type: ignore[no-untyped-def]
    def fail(spans: Sequence[Span]) -> None:
        bench.model.before_forward = None
        raise RuntimeError("once")

    return fail


def test_who_waits_can_be_cancelled() -> None:
    with Bench() as bench:
        first, second = (bench.engine.submit(prompt(3000), SHORT) for _ in range(2))
        bench.gate.wait_for_pass(1)
        second.cancel()
        bench.gate.let_through()
        finished = second.result(PATIENCE_S).finished
        assert (finished.reason, finished.prefill_s) == (FinishReason.CANCELLED, 0.0)
        bench.gate.open()
        assert first.result(PATIENCE_S).ids == greedy_continuation(prompt(3000), 3, VOCAB)


def test_who_waits_keeps_its_place() -> None:
    with Bench(max_parallel=2) as bench:
        bench.engine.submit(prompt(3000), SHORT)
        second = bench.engine.submit(prompt(3000), SHORT)
        third = bench.engine.submit(prompt(10, 1), SHORT)
        bench.gate.open()
        second.result(PATIENCE_S)
        assert third.result(PATIENCE_S).ids == greedy_continuation(prompt(10, 1), 3, VOCAB)
