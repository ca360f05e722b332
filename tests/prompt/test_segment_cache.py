import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whitedwarf.prompt.segment_cache import pieces
from whitedwarf.prompt.segments import Control, Segment, Text
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer

# What a cut might spoil: line ends of all kinds among everything that the pre-tokenizer tells apart.
KINDS = ["a", "é", "\u0301", "1", "!", "。", " ", "\t", "\u3000", "\x1f", "\u0378", "中", "゛", "\u3040", "\U0001f600"]
ROUGH = st.lists(st.sampled_from([*KINDS, "\n", "\r\n", "\r", "\n\n", "\x85", "\u2028"]), max_size=60).map("".join)


@settings(max_examples=400, deadline=None)
@given(ROUGH, st.integers(1, 12))
def test_the_ids_of_the_pieces_are_the_ids_of_the_text(deepseek: Tokenizer, text: str, length: int) -> None:
    cut = pieces(text, length)
    assert "".join(cut) == text
    assert [token_id for piece in cut for token_id in deepseek.encode(piece)] == deepseek.encode(text)


@settings(max_examples=200, deadline=None)
@given(ROUGH, ROUGH, st.integers(1, 12))
def test_a_text_that_grew_has_the_same_pieces_up_to_the_last(text: str, more: str, length: int) -> None:
    before = pieces(text, length)[:-1]
    assert pieces(text + more, length)[: len(before)] == before


def test_pieces_of_a_long_text_are_of_about_the_length_asked() -> None:
    cut = pieces("a line of some length\n" * 1000, 4096)
    assert len(cut) == 6
    assert all(4096 <= len(piece) < 4096 + 22 for piece in cut[:-1])


@pytest.mark.parametrize("text", ["", "short", "a" * 50_000, "\n" * 50_000, "\n " * 50_000])
def test_text_without_a_place_to_cut_stays_whole(text: str) -> None:
    assert pieces(text) == [text]


def segments_of(turns: list[str]) -> list[Segment]:
    return [part for turn in turns for part in (Control(SpecialToken.USER), Text(turn))]


@settings(max_examples=100, deadline=None)
@given(st.lists(ROUGH | ROUGH.map(lambda text: text * 200), max_size=5), ROUGH)
def test_a_growing_conversation_has_the_ids_it_has_without_a_cache(
    nano: Tokenizer, turns: list[str], more: str
) -> None:
    remembering, forgetful = Tokenizer(nano.vocabulary), Tokenizer(nano.vocabulary, cache_bytes=0)
    for count in range(len(turns) + 1):
        segments = [*segments_of(turns[:count]), Text(more)]
        assert remembering.encode_segments(segments) == forgetful.encode_segments(segments)
        assert remembering.encode_segments(segments) == forgetful.encode_segments(segments)
    assert len(forgetful.cache) == 0


def test_the_caller_may_change_the_ids_it_got(nano: Tokenizer) -> None:
    tokenizer = Tokenizer(nano.vocabulary)
    first = tokenizer.encode_segments([Text("hello world")])
    expected = list(first)
    first.clear()
    assert tokenizer.encode_segments([Text("hello world")]) == expected
