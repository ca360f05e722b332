"""Working a part of the time: how long the rests are, and that nobody is deaf in them."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.gates import PATIENCE_S
from fakes.models import FakeModel, greedy_continuation
from whitedwarf.engine.engine import Engine
from whitedwarf.engine.power import LONGEST_REST_S, checked_power, rest_s
from whitedwarf.engine.request import GREEDY, FinishReason, GenerateOptions, Token
from whitedwarf.errors import UsageError

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]
ENDLESS = GenerateOptions(max_tokens=900, sampling=GREEDY)
DELAY_S = 0.02


@given(st.floats(0, 0.5), st.integers(1, 100))
def test_work_is_the_wanted_part_of_work_and_rest(work_s: float, percent: int) -> None:
    assert work_s == pytest.approx((work_s + rest_s(work_s, percent)) * percent / 100)


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
