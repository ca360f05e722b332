"""Working a part of the time: how long the rests are, and that nobody is deaf in them."""

import time
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.gates import PATIENCE_S
from fakes.models import FakeModel, greedy_continuation
from whitedwarf.engine.engine import Engine
from whitedwarf.engine.power import LONGEST_CREDIT_S, LONGEST_REST_S, Averages, Duty, checked_power, rest_s
from whitedwarf.engine.request import GREEDY, FinishReason, GenerateOptions, Token
from whitedwarf.errors import UsageError
from whitedwarf.model.base import Logits, Pace, Span

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]
ENDLESS = GenerateOptions(max_tokens=900, sampling=GREEDY)
DELAY_S = 0.02


@given(st.floats(0, 0.5), st.integers(1, 100))
def test_work_is_the_wanted_part_of_work_and_rest(work_s: float, percent: int) -> None:
    assert work_s == pytest.approx((work_s + rest_s(work_s, percent)) * percent / 100)


class Clock:
    """Stands still between its steps."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@given(st.lists(st.floats(1e-6, 10), min_size=1))
def test_an_average_is_seven_parts_old_and_one_part_new(samples_s: list[float]) -> None:
    averages, expected_s = Averages(), samples_s[0]
    assert averages.took("a", samples_s[0]) == samples_s[0]
    for sample_s in samples_s[1:]:
        expected_s = expected_s * 7 / 8 + sample_s / 8
        assert averages.took("a", sample_s) == pytest.approx(expected_s)
    assert averages.took("b", 1.0) == 1.0  # of its own


WORK = st.lists(st.tuples(st.sampled_from([0, 1, "decode"]), st.floats(1e-4, 0.5)), min_size=1, max_size=40)


@given(WORK, st.integers(1, 99))
def test_each_rest_is_the_average_of_its_kind_times_what_is_not_power(
    work: list[tuple[object, float]], percent: int
) -> None:
    clock = Clock()
    duty, averages = Duty(clock), Averages()
    for kind, work_s in work:
        duty.begin()
        clock.now_s += work_s
        duty.worked(kind)
        expected_s = averages.took(kind, work_s) * (100 - percent) / percent
        assert duty.left_s(percent) == pytest.approx(min(expected_s, LONGEST_REST_S), abs=1e-9)
        clock.now_s += max(duty.left_s(percent), 0)
        assert duty.left_s(percent) == pytest.approx(0, abs=1e-9)
        duty.rested(percent)


@given(WORK, st.integers(10, 99), st.lists(st.floats(-0.5, LONGEST_CREDIT_S), min_size=40, max_size=40))
def test_rests_that_are_too_short_or_too_long_are_made_up_for(
    work: list[tuple[object, float]], percent: int, errors_s: list[float]
) -> None:
    """A rest that is broken off, or a sleep that is not exact: all rests together are what they should be."""
    clock = Clock()
    duty, averages = Duty(clock), Averages()
    due_s = rested_s = 0.0
    for (kind, work_s), error_s in zip([*work, ("end", 1e-4)], [*errors_s[: len(work)], 0.0], strict=True):
        clock.now_s += work_s
        duty.worked(kind)
        due_s += averages.took(kind, work_s) * (100 - percent) / percent
        slept_s = max(duty.left_s(percent) + error_s, 0.0) if duty.left_s(percent) > 0 else 0.0
        clock.now_s += slept_s
        rested_s += slept_s
        duty.rested(percent)
        if due_s > LONGEST_REST_S:
            return
        assert rested_s <= due_s + LONGEST_CREDIT_S + 1e-6
    assert rested_s == pytest.approx(due_s, abs=LONGEST_CREDIT_S + 1e-6)


def test_full_power_owes_nothing() -> None:
    clock = Clock()
    duty = Duty(clock)
    clock.now_s += 5
    duty.worked("a")
    assert duty.left_s(100) <= 0
    duty.rested(100)
    duty.worked("b")
    assert duty.left_s(50) <= 0


def test_full_power_never_rests_and_no_rest_is_endless() -> None:
    assert rest_s(1000.0, 100) == 0
    assert rest_s(1000.0, 1) == LONGEST_REST_S


@pytest.mark.parametrize("percent", [0, 101, -5, 50.0, True, "50"])
def test_what_is_no_power_is_refused(percent: object) -> None:
    with pytest.raises(UsageError, match="from 1 to 100"):
        checked_power(percent)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="from 1 to 100"):
        Engine(FakeModel(), power_percent=percent)  # type: ignore[arg-type]
    with Engine(FakeModel()) as engine, pytest.raises(UsageError, match="from 1 to 100"):
        engine.power_percent = percent  # type: ignore[assignment]


def test_a_slower_engine_gives_the_same_tokens_later() -> None:
    options = GenerateOptions(max_tokens=6, sampling=GREEDY)
    with Engine(FakeModel(delay_s=DELAY_S), power_percent=25) as engine:
        assert engine.power_percent == 25
        began_s = time.monotonic()
        assert engine.submit(PROMPT, options).result(PATIENCE_S).ids == greedy_continuation(PROMPT, 6, 64)
        assert time.monotonic() - began_s >= 5 * 4 * DELAY_S


def test_requests_that_come_in_a_rest_do_not_shorten_it() -> None:
    with Engine(FakeModel(delay_s=DELAY_S), power_percent=10) as engine:
        generation = engine.submit(PROMPT, ENDLESS)
        assert wait_for_token(generation)
        began_s = time.monotonic()
        others = [engine.submit(PROMPT, GenerateOptions(max_tokens=0)) for _ in range(5)]
        others[-1].result(PATIENCE_S)
        assert time.monotonic() - began_s >= 5 * DELAY_S
        generation.cancel()


class Layered(FakeModel):
    """Tells of `LAYERS` layers, each of which takes a while."""

    LAYERS = 4

    def __init__(self, layer_s: float) -> None:
        super().__init__()
        self.layer_s = layer_s
        self.num_layers = 0

    def forward_at_pace(self, spans: Sequence[Span], pace: Pace) -> list[Logits]:
        for layer in range(self.LAYERS):
            time.sleep(self.layer_s)
            self.num_layers += 1
            pace(layer)
        return self.forward(spans)


def test_a_prompt_is_rested_for_after_each_layer_and_tokens_after_each_pass() -> None:
    model, options = Layered(DELAY_S), GenerateOptions(max_tokens=6, sampling=GREEDY)
    with Engine(model, power_percent=25) as engine:
        generation = engine.submit(PROMPT, options)
        began_s = time.monotonic()
        assert wait_for_token(generation)
        assert time.monotonic() - began_s >= Layered.LAYERS * 4 * DELAY_S
        assert generation.result(PATIENCE_S).ids == greedy_continuation(PROMPT, 6, 64)
    assert model.num_layers == Layered.LAYERS  # not told of when a token is decoded


def test_at_full_power_no_layer_is_waited_for() -> None:
    model = Layered(DELAY_S)
    with Engine(model) as engine:
        assert engine.submit(PROMPT, ENDLESS).next_event(PATIENCE_S) is not None
    assert model.num_layers == 0


@pytest.mark.parametrize("how", ["cancel", "close"])
def test_between_layers_a_cancel_and_a_close_are_heard(how: str) -> None:
    model = Layered(0.1)
    engine = Engine(model, power_percent=1)  # 9.9 s after each layer
    began_s = time.monotonic()
    generation = engine.submit(PROMPT, ENDLESS)
    while model.num_layers < 1:
        time.sleep(0.01)
    if how == "cancel":
        generation.cancel()
        assert generation.result(PATIENCE_S).finished.reason is FinishReason.CANCELLED
    engine.close()
    assert generation.result(PATIENCE_S).finished.reason is FinishReason.CANCELLED
    assert time.monotonic() - began_s < 9
    assert model.num_layers == Layered.LAYERS  # what was begun has come to its end, and is kept


def test_more_power_ends_a_rest_between_layers() -> None:
    model = Layered(0.1)
    with Engine(model, power_percent=1) as engine:
        generation = engine.submit(PROMPT, GenerateOptions(max_tokens=3, sampling=GREEDY))
        began_s = time.monotonic()
        while model.num_layers < 1:
            time.sleep(0.01)
        engine.power_percent = 100
        assert generation.result(PATIENCE_S).ids == greedy_continuation(PROMPT, 3, 64)
    assert time.monotonic() - began_s < 9


def wait_for_token(generation) -> bool:  # type: ignore[no-untyped-def]
    while not isinstance(event := generation.next_event(PATIENCE_S), Token):
        assert event is not None
    return True


def test_a_cancel_and_a_close_are_heard_in_a_long_rest() -> None:
    engine = Engine(FakeModel(delay_s=0.3), power_percent=1)
    began_s = time.monotonic()
    generation, other = engine.submit(PROMPT, ENDLESS), engine.submit(PROMPT, ENDLESS)
    assert wait_for_token(generation)
    generation.cancel()
    assert generation.result(PATIENCE_S).finished.reason is FinishReason.CANCELLED
    engine.close()
    assert other.result(PATIENCE_S).finished.reason is FinishReason.CANCELLED
    assert time.monotonic() - began_s < 10  # the rest alone would be 29.7 s


def test_more_power_ends_a_rest() -> None:
    options = GenerateOptions(max_tokens=3, sampling=GREEDY)
    began_s = time.monotonic()
    with Engine(FakeModel(delay_s=0.3), power_percent=1) as engine:
        generation = engine.submit(PROMPT, options)
        assert wait_for_token(generation)
        engine.power_percent = 100
        assert generation.result(PATIENCE_S).ids == greedy_continuation(PROMPT, 3, 64)
    assert time.monotonic() - began_s < 10
