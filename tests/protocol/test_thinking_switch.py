"""Every way in which clients switch thinking off or on (spec/demand.md P09)."""

from typing import Any

import pytest

from whitedwarf.protocol.failures import MalformedRequest
from whitedwarf.protocol.thinking_switch import explicit_thinking, requested_effort

OFF: list[dict[str, Any]] = [
    {"thinking": {"type": "disabled"}},
    {"thinking": False},
    {"thinking": "disabled"},
    {"think": False},
    {"think": "none"},
    {"enable_thinking": False},
    {"chat_template_kwargs": {"thinking": False}},
    {"chat_template_kwargs": {"enable_thinking": False}},
    {"chat_template_kwargs": {"thinking": {"type": "disabled"}}},
    {"chat_template_kwargs": {"reasoning_effort": "none"}},
    {"reasoning_effort": "none"},
    {"reasoning": {"effort": "none"}},
    {"reasoning": {"enabled": False}},
    {"output_config": {"effort": "none"}},
]
ON: list[dict[str, Any]] = [
    {"thinking": {"type": "enabled"}},
    {"thinking": {"type": "adaptive", "display": "omitted"}},
    {"thinking": {"type": "enabled", "budget_tokens": 1000}},
    {"thinking": True},
    {"think": True},
    {"enable_thinking": True},
    {"chat_template_kwargs": {"thinking": True}},
    {"reasoning": {"enabled": True}},
    {"thinking": {"type": "enabled"}, "reasoning_effort": "none"},
]
OPEN: list[dict[str, Any]] = [
    {},
    {"thinking": None, "think": None, "reasoning": None, "chat_template_kwargs": None, "output_config": None},
    {"reasoning_effort": "high"},
    {"reasoning": {"summary": "auto"}},
    {"chat_template_kwargs": {"other": 1}},
]
UNKNOWN: list[tuple[dict[str, Any], str]] = [
    ({"thinking": {"type": "maybe"}}, "thinking.type: expected one of enabled, adaptive, disabled; got 'maybe'"),
    ({"thinking": {}}, "thinking.type: expected one of enabled, adaptive, disabled; got null"),
    ({"thinking": 1}, "thinking: expected one of enabled, adaptive, disabled; got 1"),
    ({"enable_thinking": "no"}, "enable_thinking: expected one of true, false; got 'no'"),
    ({"chat_template_kwargs": {"enable_thinking": 0}}, "chat_template_kwargs.enable_thinking: expected one of"),
    ({"chat_template_kwargs": []}, "chat_template_kwargs: expected an object, got a list"),
    ({"reasoning_effort": "extreme"}, "reasoning_effort: expected one of none, minimal, low, medium, high, xhigh"),
    ({"think": "hard"}, "think: expected one of none, minimal"),
    ({"output_config": {"effort": 3}}, "output_config.effort: expected one of"),
]


@pytest.mark.parametrize("body", OFF, ids=str)
def test_every_spelling_of_no_thinking_is_understood(body: dict[str, Any]) -> None:
    assert explicit_thinking(body) is False


@pytest.mark.parametrize("body", ON, ids=str)
def test_every_spelling_of_thinking_is_understood(body: dict[str, Any]) -> None:
    assert explicit_thinking(body) is True


@pytest.mark.parametrize("body", OPEN, ids=str)
def test_a_request_that_says_nothing_leaves_it_open(body: dict[str, Any]) -> None:
    assert explicit_thinking(body) is None


@pytest.mark.parametrize(("body", "message"), UNKNOWN, ids=str)
def test_an_unknown_value_is_refused_with_the_allowed_ones(body: dict[str, Any], message: str) -> None:
    with pytest.raises(MalformedRequest) as caught:
        explicit_thinking(body)
    assert str(caught.value).startswith(message)


def test_the_effort_is_read_wherever_clients_put_it() -> None:
    assert requested_effort({"reasoning_effort": "max"}) == "max"
    assert requested_effort({"reasoning": {"effort": "low"}}) == "low"
    assert requested_effort({"output_config": {"effort": "xhigh"}}) == "xhigh"
    assert requested_effort({"think": "high"}) == "high"
    assert requested_effort({"think": True}) is None


def test_a_bad_effort_is_refused_even_where_a_switch_decides() -> None:
    with pytest.raises(MalformedRequest):
        requested_effort({"thinking": {"type": "disabled"}, "reasoning_effort": "extreme"})
