"""A state that was taken apart into the arrays it is made of, and put together again, is the same state."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.test_session_payload import MODES, POSITIONS, nano, tokens
from oracle.engines import oracle_model, pieces, run
from whitedwarf.model.packed_session import PackedArrays
from whitedwarf.model.session_payload import SessionArrays


def through(arrays, state):
    snapshot = state.snapshot()
    other = arrays.model.new_state()
    other.restore(arrays.snapshot(snapshot.position, [tuple(map(np.copy, layer)) for layer in arrays.of(snapshot)]))
    return other


def same_arrays(left, right) -> bool:
    pairs = [pair for layers in zip(left, right, strict=True) for pair in zip(*layers, strict=True)]
    return all(a.shape == b.shape and a.tobytes() == b.tobytes() for a, b in pairs)


@pytest.mark.parametrize("kv_cache", MODES)
@pytest.mark.parametrize("position", POSITIONS)
def test_the_parts_are_the_same_afterwards_and_the_bits_that_follow(kv_cache, position):
    model, ids = nano(kv_cache), tokens(position + 140)
    arrays, state = PackedArrays(model), model.new_state()
    run(model, state, [ids[:position]])
    other, by_ds4 = through(arrays, state), through(SessionArrays(model), state)
    assert other.position == position
    assert same_arrays(arrays.of(other.snapshot()), arrays.of(state.snapshot()))
    rest = list(pieces(ids[position:], [1, 1, 1, 5, 64]))
    kept = run(model, state, rest)
    assert np.array_equal(run(model, other, rest), kept)
    assert np.array_equal(run(model, by_ds4, rest), kept)


@settings(max_examples=8)
@given(at=st.integers(1, 700), steps=st.lists(st.integers(1, 200), min_size=1, max_size=4))
def test_wherever_it_is_cut_the_bits_stay(at, steps):
    model, ids = oracle_model("tinyA/tiny-mxfp4.gguf", kv_cache="packed", quality=False), tokens(900, vocab=512)
    arrays, state = PackedArrays(model), model.new_state()
    run(model, state, [ids[:at]])
    other = through(arrays, state)
    for piece in pieces(ids[at:], steps):
        assert np.array_equal(run(model, other, [piece]), run(model, state, [piece]))
        other = through(arrays, other)


def test_tokens_that_were_taken_back_are_not_saved():
    model, ids = nano("packed"), tokens(130)
    state, plain = model.new_state(), model.new_state()
    run(model, state, [ids, tokens(9, seed=3)])
    state.rollback(9)
    run(model, plain, [ids])
    arrays = PackedArrays(model)
    assert same_arrays(arrays.of(state.snapshot()), arrays.of(plain.snapshot()))


def test_shapes_are_those_of_rows_in_memory():
    model = nano("packed")
    state = model.new_state()
    run(model, state, [tokens(130)])
    shapes = [[array.shape for array in layer] for layer in PackedArrays(model).of(state.snapshot())]
    row, key = model.config.kv_format.row_bytes, model.config.key_format.row_bytes
    window, four_open, open_ = [(128, row)], [(6, 256), (6, 256)], [(2, 128), (2, 128)]
    four = [*window, (32, row), *four_open, (32, key), *four_open]
    many = [*window, (1, row), *open_]
    assert shapes == [window, window, four, many, four, many]


def test_arrays_of_another_shape_are_refused():
    model = nano("f32")
    state = model.new_state()
    run(model, state, [tokens(9)])
    arrays = PackedArrays(model)
    layers = list(arrays.of(state.snapshot()))
    with pytest.raises(ValueError, match="6 layers"):
        arrays.snapshot(9, layers[:-1])
    with pytest.raises(ValueError, match="the window"):
        arrays.snapshot(10, layers)
    with pytest.raises(ValueError, match="7 arrays"):
        arrays.snapshot(9, (*layers[:2], layers[0], *layers[3:]))
    for number, what in ((1, "compressed rows"), (2, "values"), (3, "gates")):
        short = [array[:-1] if place == number else array for place, array in enumerate(layers[2])]
        with pytest.raises(ValueError, match=what):
            arrays.snapshot(9, (*layers[:2], tuple(short), *layers[3:]))
