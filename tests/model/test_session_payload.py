"""A state that went through the arrays of a session file continues with the same bits (model.md 7.1)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from oracle.engines import model_at, oracle_model, pieces, run
from oracle.fixtures import ROOT
from whitedwarf.model.session_payload import EMPTY_SCORE, Frontier, SessionArrays, without
from whitedwarf.model.transformer import Transformer
from whitedwarf.ops.base import RowFormat, RowKind
from whitedwarf.ops.rows import decode_rows, encode_rows, encode_stored

NANO = ROOT / "src" / "whitedwarf" / "data" / "nano.gguf"
MODES = ("packed", "packed-f16", "f16", "f32")
# around the first windows of ratios 4 and 128, and around the end of the sliding window
POSITIONS = (1, 2, 3, 4, 5, 7, 8, 9, 126, 127, 128, 129, 131, 132, 255, 256, 257, 300)


def nano(kv_cache: str) -> Transformer:
    return model_at(NANO, kv_cache=kv_cache, quality=False)


def tokens(count: int, seed: int = 0, vocab: int = 4096) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, vocab, count).astype(np.int32)


def through_arrays(model: Transformer, state):
    arrays = SessionArrays(model)
    snapshot = state.snapshot()
    other = model.new_state()
    other.restore(arrays.snapshot(snapshot.position, arrays.of(snapshot)))
    return other


def same_arrays(left, right) -> bool:
    pairs = [pair for layers in zip(left, right, strict=True) for pair in zip(*layers, strict=True)]
    return all(np.array_equal(a.view(np.uint32), b.view(np.uint32)) for a, b in pairs)


@pytest.mark.parametrize("kv_cache", MODES)
@pytest.mark.parametrize("position", POSITIONS)
def test_a_saved_and_loaded_state_continues_with_the_same_bits(kv_cache, position):
    model, ids = nano(kv_cache), tokens(position + 140)
    state = model.new_state()
    run(model, state, [ids[:position]])
    other = through_arrays(model, state)
    assert other.position == position
    rest = ids[position:]
    kept = run(model, state, pieces(rest, [1, 1, 1, 5, 64]))
    assert np.array_equal(run(model, other, pieces(rest, [1, 1, 1, 5, 64])), kept)


@pytest.mark.parametrize("kv_cache", ["packed", "f32"])
@settings(max_examples=6)
@given(at=st.integers(1, 700), steps=st.lists(st.integers(1, 200), min_size=1, max_size=4))
def test_wherever_it_is_cut_the_bits_stay(kv_cache, at, steps):
    model, ids = oracle_model("tinyA/tiny-mxfp4.gguf", kv_cache=kv_cache, quality=False), tokens(900, vocab=512)
    state = model.new_state()
    run(model, state, [ids[:at]])
    other = through_arrays(model, state)
    for piece in pieces(ids[at:], steps):
        assert np.array_equal(run(model, other, [piece]), run(model, state, [piece]))
        other = through_arrays(model, other)


@pytest.mark.parametrize("kv_cache", MODES)
def test_saving_what_was_loaded_gives_the_same_arrays(kv_cache):
    model, ids = nano(kv_cache), tokens(302)
    state = model.new_state()
    run(model, state, [ids])
    arrays = SessionArrays(model)
    first = list(arrays.of(state.snapshot()))
    assert same_arrays(arrays.of(through_arrays(model, state).snapshot()), first)


def test_tokens_that_were_taken_back_are_not_saved():
    model, ids = nano("packed"), tokens(130)
    state, plain = model.new_state(), model.new_state()
    run(model, state, [ids, tokens(9, seed=3)])
    state.rollback(9)
    run(model, plain, [ids])
    arrays = SessionArrays(model)
    assert same_arrays(arrays.of(state.snapshot()), arrays.of(plain.snapshot()))


def test_shapes_are_those_of_the_file():
    model = nano("packed")
    state = model.new_state()
    run(model, state, [tokens(130)])
    shapes = [[array.shape for array in layer] for layer in SessionArrays(model).of(state.snapshot())]
    window, frontier = [(128, 128)], [(8, 256), (8, 256)]
    four = [*window, (32, 128), *frontier, (32, 128), *frontier]
    many = [*window, (1, 128), (128, 128), (128, 128)]
    assert shapes == [window, window, four, many, four, many]


def test_slots_without_a_token_hold_no_share():
    model = nano("f32")
    state = model.new_state()
    run(model, state, [tokens(2)])
    _, _, values, scores, *_ = list(SessionArrays(model).of(state.snapshot()))[2]
    empty = [0, 1, 2, 3, 6, 7]  # no previous window, and two of the open one to come
    assert (values[empty] == 0).all()
    assert (scores[empty] == EMPTY_SCORE).all()
    assert (scores[[4, 5]] > -1e3).all()


@pytest.mark.parametrize(
    ("position", "ratio", "start", "live"),
    [
        (0, 4, 0, slice(4, 4)),
        (3, 4, 0, slice(4, 7)),
        (4, 4, 0, slice(0, 4)),
        (6, 4, 0, slice(0, 6)),
        (9, 4, 4, slice(0, 5)),
        (127, 128, 0, slice(0, 127)),
        (128, 128, 128, slice(0, 0)),
        (130, 128, 128, slice(0, 2)),
    ],
)
def test_the_frontier_holds_the_open_window_and_at_ratio_4_the_one_before(position, ratio, start, live):
    frontier = Frontier.at(position, ratio)
    assert (frontier.start, frontier.live) == (start, live)


floats = hnp.arrays(np.float32, 64, elements=st.floats(-64, 64, width=32))


@settings(max_examples=300)
@given(gates=floats, ape=floats)
def test_gates_are_found_that_sum_to_the_same_score(gates, ape):
    scores = gates + ape
    assert np.array_equal(without(scores, ape) + ape, scores)


def test_gates_are_found_for_every_pair_of_magnitudes():
    generator = np.random.default_rng(5)
    gates, ape = (
        (generator.standard_normal(2_000_000) * 2.0 ** generator.integers(-30, 8, 2_000_000)).astype(np.float32)
        for _ in range(2)
    )
    scores = gates + ape
    assert np.array_equal(without(scores, ape) + ape, scores)


FORMATS = [
    RowFormat(RowKind.PACKED_KV, 512, 64),
    RowFormat(RowKind.PACKED_KV_F16, 512, 64),
    RowFormat(RowKind.PACKED_KEY, 128, 64),
    RowFormat(RowKind.F16, 512, 64),
    RowFormat(RowKind.F32, 512, 64),
]


@pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.kind.value)
@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1.0, 300.0])
def test_decoded_rows_encode_to_rows_of_the_same_values(format, scale):
    x = (np.random.default_rng(1).standard_normal((2000, format.dims)) * scale).astype(np.float32)
    stored = encode_rows(x, format)
    values = decode_rows(stored, format, np.float32)
    again = encode_stored(values, format)
    assert np.array_equal(decode_rows(again, format, np.float32).view(np.uint32), values.view(np.uint32))
    assert np.array_equal(encode_stored(decode_rows(again, format, np.float32), format), again)


def test_arrays_of_another_shape_are_refused():
    model = nano("f32")
    state = model.new_state()
    run(model, state, [tokens(9)])
    arrays = SessionArrays(model)
    layers = list(arrays.of(state.snapshot()))
    with pytest.raises(ValueError, match="6 layers"):
        arrays.snapshot(9, layers[:-1])
    with pytest.raises(ValueError, match="window of layer 0"):
        arrays.snapshot(10, layers)
    with pytest.raises(ValueError, match="7 arrays"):
        arrays.snapshot(9, (*layers[:2], layers[0], *layers[3:]))
