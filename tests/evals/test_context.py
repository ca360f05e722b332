"""The context of an exam, and which cases are asked."""

import pytest

from whitedwarf.errors import UsageError
from whitedwarf.evals.context import chosen_context, selected

NATIVE = 1_048_576


def test_it_is_as_long_as_the_longest_prompt_and_a_full_answer() -> None:
    assert chosen_context(500, 16_000, "high", asked=None, native=NATIVE).tokens == 16_501


def test_thinking_hard_takes_more() -> None:
    assert chosen_context(500, 16_000, "max", asked=None, native=NATIVE).tokens == 393_216
    assert chosen_context(500, 500_000, "max", asked=None, native=NATIVE).tokens == 500_501


def test_what_is_asked_for_is_had_with_a_warning_where_it_is_little() -> None:
    assert chosen_context(500, 100, "high", asked=4000, native=NATIVE).warnings == ()
    found = chosen_context(500, 16_000, "high", asked=4000, native=NATIVE)
    assert found.tokens == 4000
    assert "--ctx 4000 is less than the 16501 tokens" in found.warnings[0]


def test_a_model_may_have_less() -> None:
    found = chosen_context(500, 16_000, "high", asked=None, native=8192)
    assert found.tokens == 8192
    assert "this model's context of 8192" in found.warnings[0]


@pytest.mark.parametrize(("tokens", "asked"), [(1_000_000, None), (100, 1_000_001)])
def test_a_million_is_the_most(tokens: int, asked: int | None) -> None:
    with pytest.raises(UsageError, match="the most is 1000000"):
        chosen_context(500, tokens, "high", asked=asked, native=2_000_000)
    assert chosen_context(500, 999_499, "high", asked=None, native=2_000_000).tokens == 1_000_000


def test_all_some_or_a_list_of_cases() -> None:
    assert list(selected(5, None, None)) == [1, 2, 3, 4, 5]
    assert list(selected(5, 2, None)) == [1, 2]
    assert list(selected(5, None, " 5, 1,3")) == [5, 1, 3]


@pytest.mark.parametrize("words", ["", "0", "6", "a", "1;2", "1,", "-1", "1,1", "²", "9" * 6000, "0000000000001"])
def test_what_is_no_list_is_refused(words: str) -> None:
    with pytest.raises(UsageError, match="--case-sequence"):
        selected(5, None, words)


def test_no_more_than_there_are_and_not_both() -> None:
    with pytest.raises(UsageError, match="there are 5 cases"):
        selected(5, 6, None)
    with pytest.raises(UsageError, match="exclude each other"):
        selected(5, 1, "1")
