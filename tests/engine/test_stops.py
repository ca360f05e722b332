"""Where reading a prompt pauses."""

from hypothesis import given
from hypothesis import strategies as st

from whitedwarf.engine.stops import FIRST_STOP, STEP_BACK, is_cold, prompt_stops


def test_a_long_prompt_stops_early_once_and_then_at_its_chunks() -> None:
    assert prompt_stops(1700, 0, (), 0, 512) == (256, 512, 1024, 1536, 1700)


def test_small_chunks_are_not_all_remembered() -> None:
    assert prompt_stops(1000, 0, (), 0, 100) == (256, 300, 600, 900, 1000)


def test_what_is_reused_is_not_remembered_again() -> None:
    assert prompt_stops(1700, 1100, (40, 1200), 1150, 512) == (1200, 1536, 1700)


def test_named_positions_keep_the_first_the_last_and_those_apart() -> None:
    assert prompt_stops(250, 0, (30, 50, 70, 200), 0, 512) == (30, 200, 250)
    assert prompt_stops(1000, 0, (30, 300, 400, 560, 570), 0, 4096) == (30, 256, 300, 560, 570, 1000)


def test_a_parting_is_remembered_when_it_saves_something() -> None:
    assert prompt_stops(900, 256, (), 300, 1000) == (900,)
    assert prompt_stops(900, 256, (), 400, 1000) == (400, 900)


@given(
    st.integers(1, 5000),
    st.integers(0, 4999),
    st.lists(st.integers(0, 6000)),
    st.integers(0, 5000),
    st.integers(1, 700),
)
def test_stops_rise_to_the_end(length: int, start: int, named: list[int], parting: int, chunk: int) -> None:
    start = min(start, length - 1)
    stops = prompt_stops(length, start, named, parting, chunk)
    assert list(stops) == sorted(set(stops))
    assert stops[-1] == length
    assert all(start < stop < length - STEP_BACK for stop in stops[:-1])
    assert len(stops) <= 3 + 3 * (length // FIRST_STOP + 1)


def test_next_to_nothing_is_nothing() -> None:
    assert [is_cold(80, reused) for reused in (0, 2, 9, 10, 80)] == [True, True, True, False, False]
