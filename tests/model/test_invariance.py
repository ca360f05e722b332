"""The same tokens give the same bits, whatever the chunking, the companions, or the detours on the way."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.engines import logits_of, oracle_model, pieces, run
from oracle.fixtures import oracle_arrays
from whitedwarf.model.base import Span

MODES = [
    ("tinyA/tiny-f32.gguf", "f32", True),
    ("tinyA/tiny-f32.gguf", "packed", True),
    ("tinyA/tiny-mxfp4.gguf", "packed", False),
    ("tinyQ/tiny-iq2.gguf", "packed", False),
    ("tinyQ/tiny-iq2.gguf", "f16", False),
]
every_mode = pytest.mark.parametrize(("file", "kv_cache", "quality"), MODES)


@pytest.fixture
def model(file, kv_cache, quality):
    return oracle_model(file, kv_cache=kv_cache, quality=quality)


def tokens(count, seed=0, vocab=512):
    return np.random.default_rng(seed).integers(0, vocab, count).astype(np.int32)


@every_mode
@settings(max_examples=8)
@given(sizes=st.lists(st.integers(1, 150), min_size=1, max_size=8))
def test_any_split_gives_the_same_bits(file, kv_cache, quality, sizes):
    model, ids = oracle_model(file, kv_cache=kv_cache, quality=quality), tokens(300)
    split = run(model, model.new_state(), pieces(ids, sizes))
    assert (split == logits_of(model, ids)).all()


@every_mode
def test_token_by_token_gives_the_same_bits(model):
    ids = tokens(270)
    assert (logits_of(model, ids, 1) == logits_of(model, ids)).all()


@every_mode
def test_companions_in_the_batch_change_nothing(model):
    ids, others = tokens(140), [tokens(count, seed=count) for count in (1, 37, 150)]
    alone = logits_of(model, ids)
    state, states = model.new_state(), [model.new_state() for _ in others]
    head = model.forward([Span(states[0], others[0]), Span(state, ids[:90], "all"), Span(states[1], others[1])])[1]
    rest = [model.forward([Span(state, ids[i : i + 1], "all"), Span(states[2], others[2])])[0] for i in range(90, 92)]
    tail = model.forward([Span(states[0], others[1], "all"), Span(state, ids[92:], "all")])[1]
    assert (np.concatenate([head, *rest, tail]) == alone).all()


@every_mode
@settings(max_examples=6)
@given(at=st.integers(1, 290), drafts=st.integers(1, 16))
def test_rollback_of_a_rejected_draft_leaves_no_trace(file, kv_cache, quality, at, drafts):
    model, ids = oracle_model(file, kv_cache=kv_cache, quality=quality), tokens(300)
    state = model.new_state()
    run(model, state, [ids[:at]])
    run(model, state, [tokens(drafts, seed=99)])
    state.rollback(drafts)
    assert (run(model, state, [ids[at:]]) == logits_of(model, ids)[at:]).all()


@every_mode
@settings(max_examples=6)
@given(at=st.integers(1, 290), detour=st.integers(1, 200))
def test_a_restored_snapshot_continues_with_the_same_bits(file, kv_cache, quality, at, detour):
    model, ids = oracle_model(file, kv_cache=kv_cache, quality=quality), tokens(300)
    expected = logits_of(model, ids)[at:]
    state = model.new_state()
    run(model, state, [ids[:at]])
    snapshot = state.snapshot()
    run(model, state, [tokens(detour, seed=7)])
    other = model.new_state()
    for target in (state, other, state):
        target.restore(snapshot)
        assert (run(model, target, pieces(ids[at:], [5, 64])) == expected).all()


@every_mode
@settings(max_examples=6)
@given(at=st.integers(20, 290), back=st.integers(1, 16), detour=st.integers(1, 90))
def test_a_snapshot_is_not_written_over_by_a_rollback_behind_it(file, kv_cache, quality, at, back, detour):
    model, ids = oracle_model(file, kv_cache=kv_cache, quality=quality), tokens(300)
    state = model.new_state()
    run(model, state, [ids[:at]])
    snapshot = state.snapshot()
    state.rollback(back)
    run(model, state, [tokens(detour, seed=8)])
    state.restore(snapshot)
    assert (run(model, state, [ids[at:]]) == logits_of(model, ids)[at:]).all()


def test_rollback_beyond_its_room_is_refused():
    model = oracle_model("tinyA/tiny-f32.gguf")
    state = model.new_state()
    run(model, state, [tokens(40)])
    with pytest.raises(ValueError, match="at most 16"):
        state.rollback(17)


def test_a_prompt_of_the_oracle_is_split_invariant_at_every_compression_boundary():
    model, ids = oracle_model("tinyA/tiny-f32.gguf"), oracle_arrays("tinyA/ref.npz")["medium_ids"]
    whole = logits_of(model, ids)
    for cut in (3, 4, 5, 7, 8, 31, 32, 33, 127, 128, 129, 255, 256, 257):
        assert (run(model, model.new_state(), [ids[:cut], ids[cut:]]) == whole).all()
