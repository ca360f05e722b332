"""The model's own words for its calls."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.scripted_server import calls
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.spoken_block import blocks_in, spelt, spoken_words, words_of
from whitedwarf.prompt.tokenizer import Tokenizer

BAR = SpecialToken.DSML.value
BLOCK = calls("run", cmd="ls", more="x")


def ids_of(text: str, tokenizer: Tokenizer) -> list[int]:
    return tokenizer.encode_rendered(text)


@pytest.mark.parametrize("before", ["", "Let me see.", "Let me see. "])
@pytest.mark.parametrize("thought", ["", "Hm.</think>", f"No {BLOCK} yet.</think>"])
def test_words_are_what_stands_around_the_tags(nano: Tokenizer, before: str, thought: str) -> None:
    words = spoken_words(ids_of(thought + before + BLOCK, nano), before, nano)
    assert words is not None
    assert spelt(words).decode() == BLOCK
    assert words_of(spelt(words)) == words


def test_what_follows_the_block_is_no_part_of_it(nano: Tokenizer) -> None:
    words = spoken_words(ids_of(BLOCK + "\n", nano), "", nano)
    assert words is not None
    assert spelt(words).decode() == BLOCK


@pytest.mark.parametrize(
    "text",
    [
        "Only text.",
        BLOCK[:-1],
        BLOCK[: BLOCK.rindex("</")],
        f"Words that were not told. {BLOCK}",
        BLOCK.replace("<", "[", 1),
        BLOCK.replace("ls", "<｜User｜>"),
    ],
)
def test_what_is_no_whole_block_behind_the_told_text_has_no_words(nano: Tokenizer, text: str) -> None:
    assert spoken_words(ids_of(text, nano), "", nano) is None


def test_a_spelt_tag_is_no_tag(nano: Tokenizer) -> None:
    assert spoken_words(nano.encode(BLOCK), "", nano) is None


def test_blocks_are_found_in_a_text() -> None:
    other = BLOCK.replace("tool_calls>", " calls>")
    text = f"<｜Assistant｜>One{BLOCK}<｜end▁of▁sentence｜>Two{other}</{BAR}tool_calls>"
    assert [block.decode() for block in blocks_in(text.encode())] == [BLOCK.lstrip(), other.lstrip()]


@pytest.mark.parametrize("missing", ["", ">", "ls>", "tool_calls>"])
def test_the_last_block_is_whole_without_its_last_word(missing: str) -> None:
    text = f"One{BLOCK}<｜end▁of▁sentence｜>Two{BLOCK}".removesuffix(missing)
    assert blocks_in(text.encode()) == [BLOCK.lstrip().encode()] * 2


def test_a_block_that_lacks_more_is_none() -> None:
    assert blocks_in(BLOCK.removesuffix("｜DSML｜tool_calls>").encode()) == []


@pytest.mark.parametrize(
    "block", [b"", b"\xff", b"<", BLOCK[:-1].encode(), b"x" + BLOCK.encode(), BLOCK.encode() + b"x"]
)
def test_what_a_file_holds_instead_of_a_block_has_no_words(block: bytes) -> None:
    assert words_of(block) is None


def test_blocks_that_are_never_closed_cost_one_look() -> None:
    opened = f"<{BAR}tool_calls>" * 20_000 + "x" * 1_000_000
    started_s = time.process_time()
    assert blocks_in(opened.encode()) == []
    assert time.process_time() - started_s < 1  # a minute where each is looked for to the end


TAGS = st.lists(
    st.sampled_from([*(f"<{bar}{BAR}{word}>" for bar in ("", "/") for word in ("tool_calls", " calls")), "x"])
)


@given(TAGS)
def test_a_block_goes_from_the_first_opening_to_the_next_closing_tag(tags: list[str]) -> None:
    text = "".join(tags).encode()
    shortest = f"<{BAR}(?:tool_calls| calls)>.*?</{BAR}(?:tool_calls| calls)>".encode()
    assert blocks_in(text) == re.findall(shortest, text, re.DOTALL)
