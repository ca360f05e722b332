"""What the MTP block guesses is what it would guess had it been fed the whole history at once."""

import functools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whitedwarf.gguf.reader import open_gguf
from whitedwarf.model.base import DraftAsk, Span
from whitedwarf.model.drafting import MtpDrafts
from whitedwarf.model.loading import load_model, load_mtp
from whitedwarf.model.mtp import MtpBlock
from whitedwarf.model.transformer import Transformer
from whitedwarf.ops.cpu import CpuOps
from whitedwarf.weights.store import bundled_model


@functools.cache
def nano() -> tuple[Transformer, MtpBlock]:
    path = bundled_model()
    main = load_model(open_gguf(path), CpuOps(1)).transformer
    return main, load_mtp(open_gguf(path.with_name("nano-mtp.gguf")), main)


def guessed_at_once(ids: Sequence[int], token: int, most: int) -> list[int]:
    """The slow way: the main model over everything, the block over everything, then its own guesses."""
    main, block = nano()
    kept: list[np.ndarray] = []
    main.forward([Span(main.new_state(), np.array(ids, np.int32), "none")], note=lambda rows: kept.append(rows.copy()))
    output = block.forward([Span(state := block.new_state(), np.array([*ids[1:], token], np.int32))], kept[0])
    found: list[int] = []
    while True:
        found.append(int(output.logits[-1].argmax()))
        if len(found) == most:
            return found
        output = block.forward([Span(state, np.array(found[-1:], np.int32))], output.streams[-1:])


def test_note_sees_streams_even_where_no_logits_are_wanted() -> None:
    main, _ = nano()
    seen: list[np.ndarray] = []
    main.forward([Span(main.new_state(), np.arange(100, 110, dtype=np.int32), "none")], note=seen.append)
    assert [rows.shape for rows in seen] == [(10, main.config.hp.hc_streams, main.config.hp.hidden_size)]


@given(st.data())
@settings(max_examples=25)
def test_any_history_of_drafts_leaves_the_block_as_if_there_had_been_none(data: st.DataObject) -> None:
    main, block = nano()
    drafts = MtpDrafts(block)
    state, note = main.new_state(), drafts.new_state()
    token = st.integers(100, 3999)
    history: list[int] = []
    for _ in range(data.draw(st.integers(1, 5))):
        piece = data.draw(st.lists(token, min_size=1, max_size=9))
        drafts.forward_noting(main, [Span(state, np.array(piece, np.int32), "all")], [note])
        wrong = data.draw(st.integers(0, len(piece) - 1))
        state.rollback(wrong)
        note.take_back(wrong)
        history += piece[: len(piece) - wrong]
        drawn = data.draw(token)
        if data.draw(st.booleans()):
            most = data.draw(st.integers(1, 4))
            assert drafts.draft([DraftAsk(note, drawn, most)]) == [guessed_at_once(history, drawn, most)]
            drafts.forward_noting(main, [Span(state, np.array([drawn], np.int32))], [note])
            history.append(drawn)


def test_several_answers_are_guessed_as_each_alone() -> None:
    main, block = nano()
    drafts = MtpDrafts(block)
    random = np.random.default_rng(3)
    asks, expected = [], []
    for length, most in ((3, 4), (20, 1), (7, 6)):
        ids = random.integers(100, 4000, length)
        note = drafts.new_state()
        drafts.forward_noting(main, [Span(main.new_state(), ids.astype(np.int32))], [note])
        asks.append(DraftAsk(note, 200 + most, most))
        expected.append(guessed_at_once(ids.tolist(), 200 + most, most))
    assert drafts.draft([*asks, DraftAsk(drafts.new_state(), 7, 3)]) == [*expected, []]


@pytest.mark.parametrize("pieces", [(300,), (100, 100, 100), (127, 1, 1, 1, 170)])
def test_of_a_long_prompt_the_end_is_enough(pieces: Sequence[int]) -> None:
    main, block = nano()
    drafts = MtpDrafts(block)
    ids = np.random.default_rng(8).integers(100, 4000, sum(pieces)).astype(np.int32)
    state, note, start = main.new_state(), drafts.new_state(), 0
    for size in pieces:
        drafts.forward_noting(main, [Span(state, ids[start : start + size], "none")], [note])
        start += size
    assert note.num_waiting <= main.config.hp.sliding_window
    assert drafts.draft([DraftAsk(note, 500, 3)]) == [guessed_at_once(ids.tolist(), 500, 3)]


def test_what_the_block_is_not_sure_of_is_no_draft() -> None:
    main, block = nano()
    ids = np.arange(100, 120, dtype=np.int32)

    def found(margin: float) -> list[int]:
        drafts = MtpDrafts(block, margin)
        note = drafts.new_state()
        drafts.forward_noting(main, [Span(main.new_state(), ids)], [note])
        return drafts.draft([DraftAsk(note, 300, 8)])[0]

    assert found(1000.0) == []
    assert len(found(0.0)) == 8
    some = found(1.0)
    assert some == found(0.0)[: len(some)]


def test_logits_are_the_same_bits_with_notes_and_without() -> None:
    main, block = nano()
    drafts = MtpDrafts(block)
    spans = [Span(main.new_state(), np.arange(100, 100 + n, dtype=np.int32), "all") for n in (5, 1)]
    again = [Span(main.new_state(), span.ids, span.logits) for span in spans]
    noted = drafts.forward_noting(main, spans, [drafts.new_state(), None])
    assert all((one == other).all() for one, other in zip(noted, main.forward(again), strict=True))
