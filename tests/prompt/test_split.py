import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.split import AnswerSplitter, Piece
from whitedwarf.prompt.tokenizer import Tokenizer


def joined(pieces: list[Piece]) -> list[tuple[bool, str]]:
    groups = itertools.groupby(pieces, key=lambda piece: piece.is_thinking)
    return [(is_thinking, "".join(piece.text for piece in group)) for is_thinking, group in groups]


def split(tokenizer: Tokenizer, ids: list[int], *, is_thinking: bool) -> list[tuple[bool, str]]:
    splitter = AnswerSplitter(tokenizer, is_thinking=is_thinking)
    return joined([piece for token_id in ids for piece in splitter.feed(token_id)] + splitter.finish())


def test_control_tokens_divide_thinking_from_the_answer(nano: Tokenizer) -> None:
    ids = [*nano.encode("Let me see."), nano.special_id(SpecialToken.THINK_CLOSE), *nano.encode("Wheat.")]
    assert split(nano, ids, is_thinking=True) == [(True, "Let me see."), (False, "Wheat.")]


def test_a_control_token_is_acted_on_at_once(nano: Tokenizer) -> None:
    splitter = AnswerSplitter(nano, is_thinking=False)
    assert splitter.feed(nano.special_id(SpecialToken.THINK_OPEN)) == []
    assert splitter.is_thinking


def test_tags_spelt_in_ordinary_tokens_are_hidden_as_well(nano: Tokenizer) -> None:
    ids = nano.encode("thought</think>answer<think>again")
    assert len(ids) > 6
    assert split(nano, ids, is_thinking=True) == [(True, "thought"), (False, "answer"), (True, "again")]


def test_an_unfinished_tag_at_the_end_is_text(nano: Tokenizer) -> None:
    assert split(nano, nano.encode("a < b </thin"), is_thinking=False) == [(False, "a < b </thin")]


TAGGED = st.lists(st.sampled_from(["<think>", "</think>", "<", "</", "<thi", "nk>", ">", "a", "é", " 你好", "\n"]))


@settings(max_examples=300, deadline=None)
@given(TAGGED, st.booleans())
def test_no_part_of_a_tag_leaks_and_nothing_else_is_lost(nano: Tokenizer, parts: list[str], thinking: bool) -> None:
    text = "".join(parts)
    splitter = AnswerSplitter(nano, is_thinking=thinking)
    pieces: list[Piece] = []
    for token_id in nano.encode(text):
        pieces += splitter.feed(token_id)
        assert "".join(piece.text for piece in pieces) == _shown(text, len("".join(piece.text for piece in pieces)))
    pieces += splitter.finish()
    assert "".join(piece.text for piece in pieces) == re.sub("</?think>", "", text)
    assert joined(pieces) == _reference(text, thinking)


def _shown(text: str, size: int) -> str:
    return re.sub("</?think>", "", text)[:size]


def _reference(text: str, is_thinking: bool) -> list[tuple[bool, str]]:
    pieces = []
    for part in re.split("(</?think>)", text):
        if part in ("<think>", "</think>"):
            is_thinking = part == "<think>"
        elif part:
            pieces.append(Piece(part, is_thinking))
    return joined(pieces)


@pytest.mark.parametrize("text", ["x", "é", "日本"])
def test_ordinary_text_is_never_delayed(nano: Tokenizer, text: str) -> None:
    splitter = AnswerSplitter(nano, is_thinking=False)
    shown = "".join(piece.text for token_id in nano.encode(text) for piece in splitter.feed(token_id))
    assert shown == text
