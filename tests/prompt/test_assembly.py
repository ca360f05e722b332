"""The native loops over segments do what the ones in Python say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whitedwarf._native import joined_ids, segment_parts
from whitedwarf.errors import FileFormatError
from whitedwarf.prompt.assembly import python_ids, python_parts
from whitedwarf.prompt.segments import Control, Segment, Text
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.prompt.vocabulary import Vocabulary

IDS = {SpecialToken.USER: 7, SpecialToken.EOS: 1}
SEGMENTS = st.lists(
    st.builds(Text, st.text("a\né｜", max_size=9)) | st.sampled_from(list(IDS)).map(Control), max_size=12
)


def in_pairs(text: str) -> list[str]:
    return [text[start : start + 2] for start in range(0, len(text), 2)]


@given(SEGMENTS)
def test_parts_are_those_of_the_python_loop(segments: list[Segment]) -> None:
    expected = python_parts(segments, Text, IDS, 5, in_pairs)
    assert segment_parts(segments, Text, IDS, 5, in_pairs) == expected
    assert segment_parts(iter(segments), Text, IDS, 5, in_pairs) == expected


@given(st.lists(st.integers(0, 300) | st.sampled_from(["a", "b", "none"]), max_size=12))
def test_ids_are_those_of_the_python_loop(parts: list[str | int]) -> None:
    known = {"a": [1, 2, 300], "b": [4], "none": []}
    assert joined_ids(parts, known) == python_ids(parts, known)


@pytest.mark.parametrize("loop", [segment_parts, python_parts])
def test_a_token_without_id_is_a_key_error(loop) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(KeyError) as caught:
        loop([Text("x"), Control(SpecialToken.IMAGE)], Text, IDS, 5, in_pairs)
    assert caught.value.args == (SpecialToken.IMAGE,)


@pytest.mark.parametrize("loop", [joined_ids, python_ids])
def test_a_text_without_ids_is_a_key_error(loop) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(KeyError, match="unknown"):
        loop(["unknown"], {})


def test_an_error_while_cutting_is_passed_on() -> None:
    def refuse(text: str) -> list[str]:
        raise ValueError(text)

    with pytest.raises(ValueError, match="too long"):
        segment_parts([Text("too long")], Text, IDS, 5, refuse)


def test_a_prompt_that_needs_a_token_the_file_lacks_says_so(nano: Tokenizer) -> None:
    vocabulary = nano.vocabulary
    special_ids = {token: i for token, i in vocabulary.special_ids.items() if token != SpecialToken.USER}
    tokenizer = Tokenizer(Vocabulary(vocabulary.tokens, vocabulary.merges, vocabulary.text_ids, special_ids))
    with pytest.raises(FileFormatError, match="no control token '<｜User｜>'"):
        tokenizer.encode_segments([Control(SpecialToken.USER)])
