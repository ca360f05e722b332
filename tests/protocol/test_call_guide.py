"""What steers an answer that may call tools."""

from typing import Any

import pytest

from whitedwarf.conversation.json_value import Json
from whitedwarf.engine.guide import FREE, Course, Guide
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.recipe_memory import RecipeMemory
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.protocol.call_guide import CallGuide, call_guide
from whitedwarf.protocol.dialects import CHAT, COMPLETIONS
from whitedwarf.protocol.policy import OFFICIAL, local

TOOLS: list[Json] = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
OFF: dict[str, Json] = {"type": "disabled"}
MARKUP = Course(is_greedy=True, is_inside_call=True)
VALUE = Course(is_inside_call=True)
OVER = Course(is_over=True)
D = "｜DSML｜"


def guide_of(nano: Tokenizer, **more: Any) -> CallGuide | None:
    body: dict[str, Json] = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "tools": TOOLS, **more}
    return call_guide(CHAT.convert(body, local(ModelVersion.V4), RecipeMemory()), nano)


def courses(nano: Tokenizer, guide: Guide | None, *pieces: str) -> list[Course]:
    """The course after each piece, in which the spellings of control tokens are those."""
    assert guide is not None
    return [[guide.accept(token) for token in nano.encode_rendered(piece)][-1] for piece in pieces]


def test_a_call_is_markup_and_values_and_then_the_answer_is_over(nano: Tokenizer) -> None:
    told = courses(
        nano,
        guide_of(nano, thinking=OFF),
        "Well.\n\n",
        f"<{D}tool_calls>\n",
        f'<{D}invoke name="f">\n',
        f'<{D}parameter name="a" string="true">',
        "text",
        f"</{D}",
        "parameter>\n",
        f'<{D}parameter name="b" string="false">',
        '["',
        "text",
        '"',
        f"]</{D}parameter>\n</{D}invoke>\n",
        f"</{D}tool_calls>",
    )
    assert told == [FREE, *[MARKUP] * 2, *[VALUE] * 2, *[MARKUP] * 3, *[VALUE] * 2, *[MARKUP] * 2, OVER]


def test_a_thought_is_free_whatever_it_spells(nano: Tokenizer) -> None:
    call = f'<{D}tool_calls><{D}invoke name="f"></{D}invoke></{D}tool_calls>'
    assert courses(nano, guide_of(nano), call, "</think>", "\n\n" + call) == [FREE, FREE, OVER]


def test_a_call_that_the_prompt_began_is_one_from_the_first_token_on(nano: Tokenizer) -> None:
    guide = guide_of(nano, thinking=OFF, tool_choice="required")
    assert guide is not None
    assert guide.course == MARKUP
    assert courses(nano, guide, f'<{D}invoke name="f">\n</{D}invoke>\n', f"</{D}tool_calls>") == [MARKUP, OVER]


@pytest.mark.parametrize("more", [{"tools": []}, {"tool_choice": "none"}], ids=["no tools", "none wanted"])
def test_nothing_steers_where_no_call_is_read(nano: Tokenizer, more: dict[str, Json]) -> None:
    assert guide_of(nano, **more) is None


def test_nothing_steers_plain_completions(nano: Tokenizer) -> None:
    body: dict[str, Json] = {"model": "m", "prompt": "hi"}
    assert call_guide(COMPLETIONS.convert(body, local(ModelVersion.V4), RecipeMemory()), nano) is None


def test_nothing_steers_what_is_read_to_the_letter(nano: Tokenizer) -> None:
    body: dict[str, Json] = {"messages": [{"role": "user", "content": "hi"}], "tools": TOOLS}
    converted = CHAT.convert({"model": "DeepSeek-V4-Pro", **body}, OFFICIAL, RecipeMemory())
    assert converted.conversation.offers_tools
    assert call_guide(converted, nano) is None


def test_any_control_token_anywhere_is_taken(nano: Tokenizer) -> None:
    for token in SpecialToken:
        guide = guide_of(nano, thinking=OFF)
        assert guide is not None
        for piece in ("<", f'<{D}invoke name="f">', f'<{D}parameter name="a" string="false">', '"'):
            courses(nano, guide, piece)
            if token in nano.vocabulary.special_ids:
                guide.accept(nano.special_id(token))
