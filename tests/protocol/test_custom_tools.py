"""Custom tools as functions of one text."""

from typing import Any

import pytest

from whitedwarf.protocol.custom_tools import custom_arguments, custom_description, custom_parameters

GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": "start: /x/"}


def test_a_custom_tool_takes_one_text() -> None:
    assert custom_parameters()["required"] == ["input"]
    assert custom_arguments('a "b"\n') == '{"input":"a \\"b\\"\\n"}'


def test_a_grammar_follows_the_description() -> None:
    told = "`input` must follow this lark grammar:\nstart: /x/"
    assert custom_description("Patches.", GRAMMAR) == f"Patches.\n\n{told}"
    assert custom_description(None, {"type": "grammar", "grammar": GRAMMAR}) == told


@pytest.mark.parametrize(
    "form", [None, 5, {}, {"type": "text"}, {"type": "grammar"}, {"type": "grammar", "grammar": 5}]
)
def test_what_is_no_grammar_leaves_the_description_as_it_is(form: Any) -> None:
    assert custom_description("Patches.", form) == "Patches."
    assert custom_description(None, form) is None
