"""Cancelling, failing, closing: every request ends, and the engine outlives what it can."""

import gc
import logging
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from fakes.gates import PATIENCE_S, Gate
from fakes.models import FakeModel, FakeState, greedy_continuation
from whitedwarf.engine.engine import Engine
from whitedwarf.engine.request import GREEDY, Finished, FinishReason, GenerateOptions, Token
from whitedwarf.errors import BackendError, EngineClosedError, OutOfMemoryError
from whitedwarf.model.base import Logits, Span

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]
POISON = 13
ENDLESS = GenerateOptions(max_tokens=900, sampling=GREEDY)
SHORT = GenerateOptions(max_tokens=3, sampling=GREEDY)
ANSWER = greedy_continuation(PROMPT, 3, 64)


def raise_on_poison(spans: Sequence[Span]) -> None:
    if any(POISON in span.ids for span in spans):
        raise RuntimeError("poisoned")


class NotANumberModel(FakeModel):
    """Answers a prompt with POISON in it with logits that are not numbers."""

    def forward(self, spans: Sequence[Span]) -> list[Logits]:
        results = super().forward(spans)
        return [
            np.full_like(rows, np.nan) if POISON in span.ids else rows
            for span, rows in zip(spans, results, strict=True)
        ]


# --- cancelling


def test_a_cancel_during_prefill_ends_within_the_chunk() -> None:
    gate = Gate()
    model = FakeModel(before_forward=gate)
    with Engine(model, max_chunk_tokens=2) as engine:
        generation = engine.submit(PROMPT, ENDLESS)
        gate.let_through()
        gate.wait_for_pass(2)
        generation.cancel()
        gate.open()
        completion = generation.result(PATIENCE_S)
        assert completion.finished.reason is FinishReason.CANCELLED
        assert completion.finished.prefill_s > 0
    assert model.batches == [(2,), (2,)]


def test_a_cancel_during_decode_draws_no_further_token() -> None:
    gate = Gate()
    with Engine(FakeModel(before_forward=gate)) as engine:
        generation = engine.submit(PROMPT, ENDLESS)
        gate.let_through(2)
        gate.wait_for_pass(3)
        generation.cancel()
        gate.open()
        assert generation.result(PATIENCE_S).ids == greedy_continuation(PROMPT, 2, 64)


def test_a_request_cancelled_in_the_queue_never_gets_a_state() -> None:
    gate = Gate()
    model = FakeModel(before_forward=gate)
    with Engine(model, max_parallel=1) as engine:
        first = engine.submit(PROMPT, SHORT)
        gate.wait_for_pass(1)
        second = engine.submit(PROMPT, SHORT)
        second.cancel()
        gate.open()
        assert second.result(PATIENCE_S).finished == Finished(FinishReason.CANCELLED, 8, 0)
        assert first.result(PATIENCE_S).ids == ANSWER
    assert model.num_states == 1


def test_a_late_cancel_changes_nothing() -> None:
    with Engine(FakeModel()) as engine:
        generation = engine.submit(PROMPT, SHORT)
        generation.result(PATIENCE_S)
        generation.cancel()
        assert generation.result().finished.reason is FinishReason.LENGTH


def test_leaving_a_with_block_cancels_and_waits() -> None:
    with Engine(FakeModel(delay_s=0.001)) as engine:
        with engine.submit(PROMPT, ENDLESS) as generation:
            next(event for event in generation if isinstance(event, Token))
        assert generation.is_finished
        assert generation.result().finished.reason is FinishReason.CANCELLED


# --- failing


def test_a_failing_batch_fails_its_requests_and_no_later_one() -> None:
    with Engine(FakeModel(before_forward=raise_on_poison)) as engine:
        failed = engine.submit([1, POISON], SHORT)
        with pytest.raises(BackendError, match="batch of 2 tokens: RuntimeError: poisoned") as caught:
            failed.result(PATIENCE_S)
        assert isinstance(caught.value.__cause__, RuntimeError)
        assert engine.submit(PROMPT, SHORT).result(PATIENCE_S).ids == ANSWER


def test_requests_outside_the_failing_batch_go_on() -> None:
    gate = Gate()

    def gated(spans: Sequence[Span]) -> None:
        gate(spans)
        raise_on_poison(spans)

    with Engine(FakeModel(before_forward=gated), max_parallel=1) as engine:
        failed = engine.submit([POISON], SHORT)
        waiting = engine.submit(PROMPT, SHORT)
        gate.open()
        with pytest.raises(BackendError):
            failed.result(PATIENCE_S)
        assert waiting.result(PATIENCE_S).ids == ANSWER


def test_an_iterating_reader_sees_the_figures_and_then_the_error() -> None:
    with Engine(FakeModel(before_forward=raise_on_poison)) as engine:
        events = iter(engine.submit([POISON], SHORT))
        next(events)
        finished = next(events)
        assert isinstance(finished, Finished)
        assert finished.reason is FinishReason.ERROR
        with pytest.raises(BackendError, match="poisoned"):
            next(events)


def test_two_requests_that_fail_together_have_an_error_each() -> None:
    with Engine(FakeModel(before_forward=raise_on_poison)) as engine:
        generations = [engine.submit([POISON], SHORT) for _ in range(2)]
        errors = []
        for generation in generations:
            with pytest.raises(BackendError) as caught:
                generation.result(PATIENCE_S)
            errors.append(caught.value)
    assert errors[0] is not errors[1]


def test_logits_without_numbers_fail_one_request_not_its_companion() -> None:
    with Engine(NotANumberModel()) as engine:
        bad, good = engine.submit([POISON], SHORT), engine.submit(PROMPT, SHORT)
        with pytest.raises(BackendError, match="finite"):
            bad.result(PATIENCE_S)
        assert good.result(PATIENCE_S).ids == ANSWER


def test_no_memory_for_a_state_fails_that_request_with_the_models_own_words() -> None:
    class FullModel(FakeModel):
        def new_state(self) -> FakeState:
            if self.num_states == 0:
                self.num_states = 1
                raise OutOfMemoryError("no room for another sequence")
            return super().new_state()

    with Engine(FullModel()) as engine:
        with pytest.raises(OutOfMemoryError, match="no room"):
            engine.submit(PROMPT, SHORT).result(PATIENCE_S)
        assert engine.submit(PROMPT, SHORT).result(PATIENCE_S).ids == ANSWER


def test_a_failed_state_is_freed_even_while_the_error_is_held(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "whitedwarf")  # pytest's captured records hold frames, too
    states: list[weakref.ref[object]] = []

    def remember_and_raise(spans: Sequence[Span]) -> None:
        states.extend(weakref.ref(span.state) for span in spans)
        raise RuntimeError("poisoned")

    with Engine(FakeModel(before_forward=remember_and_raise)) as engine:
        generation = engine.submit(PROMPT, SHORT)
        with pytest.raises(BackendError) as caught:
            generation.result(PATIENCE_S)
        with pytest.raises(BackendError):
            engine.submit(PROMPT, SHORT).result(PATIENCE_S)  # the thread has moved on
        gc.collect()
        assert states[0]() is None
        assert caught.value.__cause__ is not None


def test_a_finished_requests_state_is_freed() -> None:
    states: list[weakref.ref[object]] = []
    model = FakeModel(before_forward=lambda spans: states.extend(weakref.ref(span.state) for span in spans))
    with Engine(model) as engine:
        engine.submit(PROMPT, SHORT).result(PATIENCE_S)
        engine.submit(PROMPT, SHORT).result(PATIENCE_S)
        gc.collect()
        assert states[0]() is None


def test_when_the_thread_dies_everybody_is_told(caplog: pytest.LogCaptureFixture) -> None:
    gate = Gate()

    def die(spans: Sequence[Span]) -> None:
        gate(spans)
        raise SystemExit("out of luck")

    engine = Engine(FakeModel(before_forward=die), max_parallel=1)
    generations = [engine.submit(PROMPT, SHORT) for _ in range(3)]
    gate.open()
    for generation in generations:
        with pytest.raises(EngineClosedError, match=r"SystemExit: out of luck.*restart"):
            generation.result(PATIENCE_S)
    with pytest.raises(EngineClosedError, match="out of luck"):
        engine.submit(PROMPT)
    engine.close()
    assert "engine_thread_died" in [record.message for record in caplog.records if record.levelno == logging.CRITICAL]


# --- closing


def test_closing_cancels_what_runs_and_what_waits() -> None:
    engine = Engine(FakeModel(), max_parallel=1)
    generations = [engine.submit(PROMPT, ENDLESS) for _ in range(3)]
    engine.close()
    assert {generation.result(0).finished.reason for generation in generations} <= {
        FinishReason.CANCELLED,
        FinishReason.LENGTH,
    }
    assert generations[2].result(0).finished.reason is FinishReason.CANCELLED


def test_draining_lets_everything_end() -> None:
    engine = Engine(FakeModel(), max_parallel=1)
    generations = [engine.submit(PROMPT, SHORT) for _ in range(3)]
    engine.close(drain=True)
    assert [generation.result(0).ids for generation in generations] == [ANSWER] * 3


def test_a_drain_can_be_hurried_up_from_another_thread() -> None:
    gate = Gate()
    engine = Engine(FakeModel(before_forward=gate))
    generation = engine.submit(PROMPT, ENDLESS)
    gate.wait_for_pass(1)
    drain = threading.Thread(target=engine.close, kwargs={"drain": True})
    drain.start()
    hurry = threading.Thread(target=engine.close)
    hurry.start()
    while not generation.is_cancelled:
        time.sleep(0.001)
    gate.open()
    drain.join(PATIENCE_S)
    hurry.join(PATIENCE_S)
    assert generation.result(0).finished.reason is FinishReason.CANCELLED


def test_closing_twice_is_closing_once() -> None:
    engine = Engine(FakeModel())
    engine.close()
    engine.close(drain=True)
    engine.close()


def test_an_engine_that_is_dropped_stops_its_thread() -> None:
    engine = Engine(FakeModel())
    generation = engine.submit(PROMPT, ENDLESS)
    del engine
    gc.collect()
    assert generation.is_finished


@pytest.mark.parametrize("work", ["", "engine.submit([1], GenerateOptions(max_tokens=100000))"])
def test_an_open_engine_does_not_keep_the_interpreter(work: str) -> None:
    script = f"""
from fakes.models import FakeModel
from whitedwarf.engine.engine import Engine
from whitedwarf.engine.request import GenerateOptions
engine = Engine(FakeModel(context_length=1_000_000, delay_s=0.001))
{work}
"""
    tests = Path(__file__).parents[1]
    paths = f"import sys; sys.path[:0] = {[str(tests), *sys.path]!r}\n"
    done = subprocess.run(
        [sys.executable, "-c", paths + script], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_submitters_and_closers_in_a_race_all_come_to_an_end() -> None:
    for _ in range(10):
        engine = Engine(FakeModel(), max_parallel=2, max_waiting=4)
        outcomes: list[str] = []

        def submit_until_closed(engine: Engine = engine, outcomes: list[str] = outcomes) -> None:
            try:
                while True:
                    engine.submit(PROMPT, SHORT).result(PATIENCE_S)
            except EngineClosedError:
                outcomes.append("closed")

        threads = [threading.Thread(target=submit_until_closed) for _ in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(0.005)
        engine.close()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert outcomes == ["closed"] * 3
