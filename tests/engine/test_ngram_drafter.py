"""What repeats itself is guessed, and nothing else; the same as a plain search finds."""

from hypothesis import given
from hypothesis import strategies as st

from whitedwarf.engine.drafter import NOTHING, Guess
from whitedwarf.engine.ngram_drafter import SURE_MATCH, NgramDrafter

TOKENS = st.lists(st.integers(0, 3), max_size=80)


def drafter(ids: list[int], least_match: int = 3) -> NgramDrafter:
    one = NgramDrafter(least_match)
    one.told(ids)
    return one


def plain_search(ids: list[int], most: int, least_match: int) -> Guess:
    """The longest match up to SURE_MATCH, the latest of equals, and what followed it, over and over."""
    for length in range(min(SURE_MATCH, len(ids) - 1), least_match - 1, -1):
        ending = ids[len(ids) - length :]
        for end in range(len(ids) - 1, length - 1, -1):
            if ids[end - length : end] == ending:
                followers = ids[end:]
                return Guess((followers * most)[:most], length, one_hope(length))
    return NOTHING


def one_hope(length: int) -> float:
    """What is hoped of a match of this length: as the drafter says of some text with one."""
    text = list(range(length))
    return drafter([*text, 99, *text], 1).draft(1).hope


def test_what_followed_the_same_words_is_guessed() -> None:
    text = [10, 11, 12, 13, 14, 15, 16]
    assert drafter([*text, 99, *text[:3]]).draft(4) == Guess([13, 14, 15, 16], 3, 0.3)


def test_the_latest_of_equal_matches_counts() -> None:
    assert drafter([1, 2, 3, 7, 1, 2, 3, 8, 1, 2, 3]).draft(1).ids == [8]


def test_a_longer_match_counts_more_than_a_later_one() -> None:
    assert drafter([9, 1, 2, 3, 7, 5, 1, 2, 3, 8, 9, 1, 2, 3]).draft(1).ids == [7]


def test_what_repeats_itself_goes_on_repeating() -> None:
    assert drafter([1, 2, 3, 4] * 3).draft(10).ids == [1, 2, 3, 4, 1, 2, 3, 4, 1, 2]
    assert drafter([5] * 9).draft(6).ids == [5] * 6


def test_new_text_is_not_guessed() -> None:
    assert drafter(list(range(3000))).draft(4) == NOTHING
    assert drafter([]).draft(4) == NOTHING
    assert drafter([1, 2, 1, 2]).draft(4) == NOTHING


@given(TOKENS, st.integers(1, 16), st.integers(1, 4))
def test_it_finds_what_a_plain_search_finds(ids: list[int], most: int, least_match: int) -> None:
    assert drafter(ids, least_match).draft(most) == plain_search(ids, most, least_match)


@given(st.lists(TOKENS, max_size=5), st.integers(1, 8))
def test_it_does_not_matter_in_which_pieces_it_is_told(pieces: list[list[int]], most: int) -> None:
    one = NgramDrafter(2)
    for piece in pieces:
        one.told(piece)
        one.draft(most)
    assert one.draft(most) == drafter([token for piece in pieces for token in piece], 2).draft(most)


def test_long_prompts_fit() -> None:
    one = drafter(list(range(5000)) + list(range(1000, 1200)))
    assert one.draft(3).ids == [1200, 1201, 1202]
