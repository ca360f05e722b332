import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whitedwarf.cli.answer_text import AnswerText, parse_start
from whitedwarf.cli.screen import Piece
from whitedwarf.prompt.parse_options import ParseStart
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer

D = "｜DSML｜"
CALL = f'\n\n<{D}tool_calls>\n<{D}invoke name="f">\n</{D}invoke>\n</{D}tool_calls>'


def joined(pieces: list[Piece]) -> list[tuple[bool, str]]:
    groups = itertools.groupby(pieces, key=lambda piece: piece.is_thinking)
    return [(is_thinking, "".join(piece.text for piece in group)) for is_thinking, group in groups]


def shown(tokenizer: Tokenizer, ids: list[int], start: ParseStart) -> list[tuple[bool, str]]:
    text = AnswerText(tokenizer, start)
    pieces = [piece for token_id in ids for piece in text.feed(token_id)] + text.finish()
    assert all(piece.text for piece in pieces)
    return joined(pieces)


def test_control_tokens_divide_thinking_from_the_answer(nano_tokenizer: Tokenizer) -> None:
    ids = nano_tokenizer.encode_rendered("Let me see.\n</think>\n\nWheat.")
    assert shown(nano_tokenizer, ids, ParseStart.REASONING) == [(True, "Let me see."), (False, "Wheat.")]


def test_a_control_token_is_acted_on_at_once(nano_tokenizer: Tokenizer) -> None:
    text = AnswerText(nano_tokenizer, ParseStart.CONTENT)
    assert text.feed(nano_tokenizer.special_id(SpecialToken.THINK_OPEN)) == []
    assert joined(text.feed(nano_tokenizer.encode("x")[0])) == [(True, "x")]


def test_tags_spelt_in_ordinary_tokens_are_text(nano_tokenizer: Tokenizer) -> None:
    ids = nano_tokenizer.encode("thought</think>answer<think>again")
    assert shown(nano_tokenizer, ids, ParseStart.REASONING) == [(True, "thought</think>answer<think>again")]


@pytest.mark.parametrize("text", ["a < b </thin", "a <", "ends with a newline\n"])
def test_what_begins_like_markup_at_the_end_is_text(nano_tokenizer: Tokenizer, text: str) -> None:
    assert shown(nano_tokenizer, nano_tokenizer.encode(text), ParseStart.CONTENT) == [(False, text)]


@pytest.mark.parametrize("start", [ParseStart.CONTENT, ParseStart.REASONING])
@pytest.mark.parametrize("cut", [-12, -1, None], ids=["no end", "half an end", "whole"])
def test_a_call_that_nobody_asked_for_is_not_shown(
    nano_tokenizer: Tokenizer, cut: int | None, start: ParseStart
) -> None:
    ids = nano_tokenizer.encode_rendered("Well." + CALL[:cut])
    assert shown(nano_tokenizer, ids, start) == [(start is ParseStart.REASONING, "Well.")]


TAGGED = st.lists(st.sampled_from(["</think>", "<", "</", "<thi", ">", "a", "é", " 你好", "\n", "<｜User｜>"]))


@settings(max_examples=200, deadline=None)
@given(TAGGED, st.booleans())
def test_no_markup_leaks_and_nothing_else_is_lost(nano_tokenizer: Tokenizer, parts: list[str], thinking: bool) -> None:
    start = ParseStart.REASONING_CONTINUED if thinking else ParseStart.CONTENT_CONTINUED
    ids = nano_tokenizer.encode_rendered("".join(parts))
    thought, close, answer = "".join(parts).partition("</think>") if thinking else ("", "", "".join(parts))
    if close:  # around the end of a thought newlines are no text
        thought, answer = thought.rstrip("\n"), answer.lstrip("\n")
    thought, answer = [text.replace("</think>", "").replace("<｜User｜>", "") for text in (thought, answer)]
    expected = [(is_thought, text) for is_thought, text in ((True, thought), (False, answer)) if text]
    assert shown(nano_tokenizer, ids, start) == expected


@pytest.mark.parametrize("text", ["x", "é", "日本"])
def test_ordinary_text_is_never_delayed(nano_tokenizer: Tokenizer, text: str) -> None:
    answer = AnswerText(nano_tokenizer, ParseStart.CONTENT)
    pieces = [piece for token_id in nano_tokenizer.encode(text) for piece in answer.feed(token_id)]
    assert joined(pieces) == [(False, text)]


def test_half_a_character_waits(nano_tokenizer: Tokenizer) -> None:
    first, *rest = nano_tokenizer.encode("🦔")
    answer = AnswerText(nano_tokenizer, ParseStart.CONTENT)
    assert answer.feed(first) == []
    assert joined([piece for token in rest for piece in answer.feed(token)]) == [(False, "🦔")]


@pytest.mark.parametrize(
    ("prompt", "start"),
    [
        ("<｜User｜>hi<｜Assistant｜><think>", ParseStart.REASONING),
        ("<｜User｜>hi<｜Assistant｜><think>So", ParseStart.REASONING_CONTINUED),
        ("<｜User｜>hi<｜Assistant｜></think>", ParseStart.CONTENT),
        ("<｜User｜>hi<｜Assistant｜>", ParseStart.CONTENT),
        ("<｜User｜>hi<｜Assistant｜><think>So</think>Well", ParseStart.CONTENT_CONTINUED),
        ("<｜Assistant｜><think>a</think>b<｜User｜>c<｜Assistant｜><think>", ParseStart.REASONING),
        ("Once upon", ParseStart.CONTENT_CONTINUED),
        ("", ParseStart.CONTENT),
    ],
)
def test_the_prompt_says_where_the_answer_begins(nano_tokenizer: Tokenizer, prompt: str, start: ParseStart) -> None:
    assert parse_start(nano_tokenizer.encode_rendered(prompt), nano_tokenizer) is start
