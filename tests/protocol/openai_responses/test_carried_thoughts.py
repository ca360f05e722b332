"""Thoughts inside a name."""

from hypothesis import given
from hypothesis import strategies as st

from whitedwarf.protocol.openai_responses.carried_thoughts import carried, carrying


@given(st.text())
def test_what_is_carried_comes_out_again(thoughts: str) -> None:
    assert carried(carrying("resp_1-0", thoughts)) == thoughts


@given(st.none() | st.integers() | st.text() | st.text().map("resp_1-0.text.".__add__))
def test_anything_else_fails_nothing(given: object) -> None:
    assert isinstance(carried(given), str)


def test_a_name_alone_carries_nothing() -> None:
    assert carried("resp_1-0") == ""
