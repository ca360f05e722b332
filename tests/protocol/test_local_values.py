"""Values read under the local policy: the error names the place, what was expected and what came."""

from collections.abc import Callable
from typing import Any

import pytest

from whitedwarf.protocol.failures import MalformedRequest
from whitedwarf.protocol.local_sampling import min_p_of, seed_of, token_limit, top_k_of
from whitedwarf.protocol.local_values import (
    flag_at,
    integer_at,
    list_at,
    located,
    needed_text,
    number_at,
    objects_of,
    text_at,
)


@pytest.mark.parametrize("read", [flag_at, integer_at, list_at, number_at, text_at])
def test_what_is_absent_or_null_is_no_error(read: Callable[..., Any]) -> None:
    assert read({}, "a", "") == read({"a": None}, "a", "")
    assert not read({}, "a", "")


@pytest.mark.parametrize(
    ("read", "value", "told"),
    [
        (text_at, 5, "x.a: expected a string, got 5"),
        (needed_text, None, "x.a: expected a string, got null"),
        (flag_at, 1, "x.a: expected true or false, got 1"),
        (integer_at, True, "x.a: expected a whole number, got true"),
        (integer_at, 0.5, "x.a: expected a whole number, got 0.5"),
        (number_at, "1", "x.a: expected a number, got '1'"),
        (list_at, {}, "x.a: expected a list, got an object"),
    ],
)
def test_an_error_names_the_place_and_both_kinds(read: Callable[..., Any], value: Any, told: str) -> None:
    with pytest.raises(MalformedRequest) as caught:
        read({"a": value}, "a", "x")
    assert str(caught.value) == told


def test_a_member_of_the_body_itself_has_no_dot() -> None:
    with pytest.raises(MalformedRequest, match=r"^a: expected"):
        text_at({"a": 5}, "a")


def test_objects_are_numbered() -> None:
    assert objects_of([{}, {"b": 1}], "a") == [("a[0]", {}), ("a[1]", {"b": 1})]
    with pytest.raises(MalformedRequest, match=r"^a\[1\]: expected an object, got 5$"):
        objects_of([{}, 5], "a")


def test_a_long_complaint_is_cut() -> None:
    def complain(value: Any) -> None:
        raise MalformedRequest("x" * 1000)

    with pytest.raises(MalformedRequest) as caught:
        located("a", complain, 5)
    assert len(str(caught.value)) < 310


def test_the_smallest_of_several_limits_counts() -> None:
    body = {"max_tokens": 5.0, "max_completion_tokens": 7}
    assert token_limit(body, "max_tokens", "max_completion_tokens") == 5
    assert token_limit({}, "max_tokens") is None
    with pytest.raises(MalformedRequest, match=r"^max_tokens: expected a whole number, at least 1, got -1"):
        token_limit({"max_tokens": -1}, "max_tokens")


def test_no_seed_and_no_top_k_have_their_spellings() -> None:
    assert (seed_of({"seed": -1}), seed_of({"seed": 0})) == (None, 0)
    assert (top_k_of({"top_k": 0}), top_k_of({"top_k": -1}), top_k_of({"top_k": 1})) == (None, None, 1)


def test_min_p_is_a_share() -> None:
    assert min_p_of({"min_p": 0.5}) == 0.5
    with pytest.raises(MalformedRequest, match=r"^min_p: expected a number from 0 to 1, got 2"):
        min_p_of({"min_p": 2})
