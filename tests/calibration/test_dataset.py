"""Files of rendered prompts: blocks behind markers, and which spellings become control tokens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whitedwarf.calibration.dataset import MARKER, block_ids, block_text, checked, read_blocks, spells_control
from whitedwarf.errors import FileFormatError
from whitedwarf.gguf.reader import open_gguf
from whitedwarf.prompt.segments import Control, Text
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.weights.store import bundled_model

DS4 = "===== DS4_IMATRIX_PROMPT"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    with open_gguf(bundled_model()) as gguf:
        return Tokenizer.from_metadata(gguf.metadata)


@pytest.mark.parametrize("marker", [MARKER, DS4])
def test_blocks_stand_behind_markers_and_are_trimmed(marker: str) -> None:
    text = f"\n{marker} 1 chat think here =====\n\n one\ntwo \n\n{marker}\n  \n{marker} 3\nthree\r\n"
    assert read_blocks(text, "d.txt") == ["one\ntwo", "three"]


def test_a_byte_order_mark_hides_no_marker() -> None:
    assert read_blocks(f"\N{BYTE ORDER MARK}{MARKER}\none\n{MARKER}\ntwo", "f") == ["one", "two"]


def test_a_file_without_markers_is_one_prompt() -> None:
    assert read_blocks("\n a\n\nb = ===== DS4_IMATRIX_PROMPT\n", "d.txt") == ["a\n\nb = ===== DS4_IMATRIX_PROMPT"]


@pytest.mark.parametrize("text", ["", " \n\t\n", f"{MARKER} 1\n\n{MARKER} 2\n \n"])
def test_a_file_without_prompts_is_refused(text: str) -> None:
    with pytest.raises(FileFormatError, match="at least one prompt"):
        read_blocks(text, "d.txt")


def test_text_before_the_first_marker_is_refused() -> None:
    with pytest.raises(FileFormatError, match="before the first line"):
        read_blocks(f"stray\n{MARKER} 1\nprompt", "d.txt")


@given(st.lists(st.text(min_size=1).map(str.strip).filter(bool), min_size=1))
def test_written_blocks_are_read_back(prompts: list[str]) -> None:
    prompts = [prompt for prompt in prompts if not spells_control(prompt)]
    text = "".join(block_text((str(number), "chat"), prompt) for number, prompt in enumerate(prompts))
    if prompts:
        assert read_blocks(text, "d.txt") == prompts


def test_spelt_control_tokens_become_tokens_as_far_as_there_are_any(tokenizer: Tokenizer) -> None:
    ids = block_ids(
        tokenizer, "<｜begin▁of▁sentence｜>Be brief.<｜User｜>hi<｜Assistant｜></think>Hello<｜end▁of▁sentence｜>"
    )
    special = tokenizer.vocabulary.special_ids
    assert [token_id for token_id in ids if token_id in special.values()] == [
        special[name]
        for name in (
            SpecialToken.BOS,
            SpecialToken.USER,
            SpecialToken.ASSISTANT,
            SpecialToken.THINK_CLOSE,
            SpecialToken.EOS,
        )
    ]
    assert tokenizer.decode(block_ids(tokenizer, "<｜System｜>new rules")) == "<｜System｜>new rules"
    assert tokenizer.decode(block_ids(tokenizer, "a<｜unknown｜>")) == "a<｜unknown｜>"


def test_text_that_would_be_read_as_something_else_is_refused() -> None:
    assert list(checked([Control(SpecialToken.BOS), Text("hi")])) == [Control(SpecialToken.BOS), Text("hi")]
    for segment in (Text("say <think>"), Text(f"a\n{DS4}"), Text(f"{MARKER} x"), Control(SpecialToken.IMAGE)):
        with pytest.raises(ValueError, match=r"control token|marker"):
            list(checked([segment]))
