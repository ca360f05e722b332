import threading
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whitedwarf.prompt.segment_cache import ENTRY_BYTES, SegmentCache, pieces
from whitedwarf.prompt.segments import Control, Segment, Text
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer

# What a cut might spoil: line ends of all kinds among everything that the pre-tokenizer tells apart.
KINDS = ["a", "é", "\u0301", "1", "!", "。", " ", "\t", "\u3000", "\x1f", "\u0378", "中", "゛", "\u3040", "\U0001f600"]
ROUGH = st.lists(st.sampled_from([*KINDS, "\n", "\r\n", "\r", "\n\n", "\x85", "\u2028"]), max_size=60).map("".join)


class Counting:
    """Stands in for an encoder: one id, the length, and what it was asked."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def __call__(self, texts: list[str]) -> list[list[int]]:
        self.asked.append(texts)
        return [[len(text)] for text in texts]


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


def test_what_is_known_is_not_asked_again_and_the_rest_at_once() -> None:
    cache, encode = SegmentCache(), Counting()
    assert cache.encode(["one", "three"], encode) == [[3], [5]]
    assert cache.encode(["three", "four", "one", "four", "eleven"], encode) == [[5], [4], [3], [4], [6]]
    assert encode.asked == [["one", "three"], ["four", "eleven"]]


def test_the_longest_unused_goes_first() -> None:
    encode = Counting()
    cache = SegmentCache(20 * (ENTRY_BYTES + 130))
    for number in range(100):
        cache.encode([f"text {number}", "used again and again"], encode)
    assert sum("used again and again" in asked for asked in encode.asked) == 1
    assert 10 < len(cache) < 30
    cache.encode(["text 99"], encode)
    assert len(encode.asked) == 100
    cache.encode(["text 0"], encode)
    assert encode.asked[-1] == ["text 0"]


def test_no_more_than_the_capacity_is_kept() -> None:
    cache = SegmentCache(100_000)
    for number in range(2000):
        cache.encode([f"{number}" * (number % 500)], Counting())
        assert cache.size_bytes <= 100_000


def test_a_text_too_large_for_the_cache_drives_nothing_out() -> None:
    cache, encode = SegmentCache(100_000), Counting()
    cache.encode(["small"], encode)
    cache.encode(["x" * 200_000], encode)
    cache.encode(["small"], encode)
    assert len(encode.asked) == 2
    assert len(cache) == 1


def test_nothing_is_left_after_clear() -> None:
    cache = SegmentCache()
    cache.encode(["a", "b"], Counting())
    cache.clear()
    assert (len(cache), cache.size_bytes) == (0, 0)


def in_threads(count: int, work: Callable[[int], None]) -> None:
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_threads_share_one_cache() -> None:
    cache = SegmentCache(30_000)
    wrong: list[str] = []

    def work(seed: int) -> None:
        for number in range(300):
            texts = [f"{(number * seed) % 97}" * 3, "shared", f"{seed}-{number}"]
            if cache.encode(texts, Counting()) != [[len(text)] for text in texts]:
                wrong.extend(texts)

    in_threads(4, work)
    assert not wrong
    assert cache.size_bytes <= 30_000


def test_the_caller_may_change_the_ids_it_got(nano: Tokenizer) -> None:
    tokenizer = Tokenizer(nano.vocabulary)
    first = tokenizer.encode_segments([Text("hello world")])
    expected = list(first)
    first.clear()
    assert tokenizer.encode_segments([Text("hello world")]) == expected
