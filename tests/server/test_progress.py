"""Lines of progress: how often, and what they tell."""

import logging

import pytest

from whitedwarf.engine.request import Prefilled, Token
from whitedwarf.server.progress import Progress


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "whitedwarf")
    return caplog


def told(lines: pytest.LogCaptureFixture) -> list[tuple[str, object, object]]:
    return [(record.message, record.__dict__["tokens"], record.__dict__["tps"]) for record in lines.records]


def test_a_long_prompt_tells_how_far_it_is_and_how_fast(clock: Clock, lines: pytest.LogCaptureFixture) -> None:
    progress = Progress(7, clock)
    progress.hears(Prefilled(1000, 5000))  # reused, no work
    for processed in range(1100, 5001, 100):
        clock.now_s += 0.5
        progress.hears(Prefilled(processed, 5000))
    assert told(lines)[:2] == [("prefill", "1400/5000", 200.0), ("prefill", "1800/5000", 200.0)]
    assert len(lines.records) == 9  # one every two seconds, none for the last chunk
    assert {record.__dict__["request"] for record in lines.records} == {7}


def test_a_line_for_each_chunk_is_the_most(clock: Clock, lines: pytest.LogCaptureFixture) -> None:
    progress = Progress(1, clock)
    progress.hears(Prefilled(0, 30))
    for processed in (10, 20):
        clock.now_s += 60
        progress.hears(Prefilled(processed, 30))
    assert told(lines) == [("prefill", "10/30", 0.2), ("prefill", "20/30", 0.2)]


def test_time_in_the_queue_does_not_count(clock: Clock, lines: pytest.LogCaptureFixture) -> None:
    progress = Progress(1, clock)
    clock.now_s += 1000
    progress.hears(Prefilled(0, 30))
    clock.now_s += 2
    progress.hears(Prefilled(20, 30))
    assert told(lines) == [("prefill", "20/30", 10.0)]


@pytest.mark.parametrize(
    ("tokens_per_s", "expected"),
    [
        (10, [("decode", "50", 10.0), ("decode", "100", 10.0), ("decode", "150", 10.0), ("decode", "200", 10.0)]),
        (1000, []),  # it is over in a fifth of a second
        (100, [("decode", "100", 100.0), ("decode", "200", 100.0)]),
    ],
)
def test_an_answer_tells_every_fifty_tokens_but_not_too_often(
    tokens_per_s: int, expected: list[tuple[str, str, float]], clock: Clock, lines: pytest.LogCaptureFixture
) -> None:
    progress = Progress(1, clock)
    progress.hears(Prefilled(0, 1))
    progress.hears(Prefilled(1, 1))
    for number in range(1, 201):
        clock.now_s = 100.0 + number / tokens_per_s
        progress.hears(Token(1))
    assert told(lines) == expected


def test_a_slow_answer_tells_every_five_seconds(clock: Clock, lines: pytest.LogCaptureFixture) -> None:
    progress = Progress(1, clock)
    progress.hears(Prefilled(1, 1))
    for _ in range(10):
        clock.now_s += 2
        progress.hears(Token(1))
    assert told(lines) == [("decode", "3", 0.5), ("decode", "6", 0.5), ("decode", "9", 0.5)]
