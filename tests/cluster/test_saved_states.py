"""What is saved of a state is the same whatever the topology, and every topology loads it."""

import pytest

from cluster.parts import tokens, whole
from cluster.test_pipeline import Once, cluster
from whitedwarf.cluster.states import ClusterSnapshot
from whitedwarf.errors import ClusterError
from whitedwarf.kvstore.model_facts import arithmetic_of, layout_of
from whitedwarf.kvstore.payload import Payload, PayloadKind
from whitedwarf.kvstore.store import FORMATS
from whitedwarf.model.base import Span

KINDS = {"plain": PayloadKind.DS4, "packed": PayloadKind.PACKED}
CUTS = [(3,), (1, 2, 3, 4, 5), (2, 4)]
every_kind = pytest.mark.parametrize("kind", KINDS)
LENGTH = 150


def state_of(model, length=LENGTH):
    state = model.new_state()
    for start in range(0, length, 64):
        model.forward([Span(state, tokens(length)[start : start + 64], "none")])
    return state


def file_of(model, snapshot, kind, length=LENGTH):
    layers = model.state_arrays(kind).of(snapshot)
    payload = Payload(tokens(length), None, layers, KINDS[kind])
    return b"".join(map(bytes, FORMATS[KINDS[kind]].write_payload(payload, layout_of(model))))


def loaded(model, data, kind):
    payload = FORMATS[KINDS[kind]].read_payload(data, layout_of(model), "test")
    state = model.new_state()
    state.restore(model.state_arrays(kind).restored(payload.ids, payload.layers))
    return state


def answer(model, state):
    return model.forward([Span(state, tokens(20, seed=9), "all")])[0].tobytes()


@every_kind
@pytest.mark.parametrize("kv_cache", ["packed", "f32"])
def test_files_are_the_same_bytes_and_load_everywhere(kind, kv_cache):
    one = whole("nano", kv_cache)
    state = state_of(one)
    data = file_of(one, state.snapshot(), kind)
    expected = answer(one, state)
    for cuts in CUTS:
        with cluster(kv_cache=kv_cache, cuts=cuts) as (model, _):
            state = state_of(model)
            assert file_of(model, state.snapshot(), kind) == data
            restored = loaded(model, data, kind)
            assert answer(model, restored) == expected
            assert answer(one, loaded(one, data, kind)) == expected


@every_kind
def test_what_was_lost_before_or_while_it_is_saved_is_computed_again(kind):
    one = whole("nano")
    data = file_of(one, state_of(one).snapshot(), kind)
    with cluster() as (model, routes):
        snapshot = state_of(model).snapshot()
        model.forward([Span(model.new_state(), tokens(3))])
        routes.route.break_off()
        assert file_of(model, snapshot, kind) == data
        assert len(routes.made) == 2
        snapshot = state_of(model).snapshot()
        layers, found = model.state_arrays(kind).of(snapshot), []
        for _ in range(4):
            found.append(next(layers))
        routes.route.break_off()
        found += layers
        payload = Payload(tokens(LENGTH), None, found, KINDS[kind])
        written = FORMATS[KINDS[kind]].write_payload(payload, layout_of(model))
        assert b"".join(map(bytes, written)) == data


def test_a_snapshot_that_the_stages_have_not_is_computed_again():
    one = whole("nano")
    with cluster(mishaps=Once("lose", 0, 3)) as (model, routes):
        snapshot = state_of(model).snapshot()
        assert file_of(model, snapshot, "packed") == file_of(one, state_of(one).snapshot(), "packed")
        assert len(routes.made) == 1


def test_a_state_that_cannot_be_fetched_is_one_clear_error():
    with cluster() as (model, routes):
        snapshot = state_of(model).snapshot()
        routes.route.break_off()
        routes.is_up = False
        with pytest.raises(ClusterError, match="no member has layers 2 to 3"):
            file_of(model, snapshot, "packed")


@every_kind
def test_a_state_loaded_while_the_cluster_is_away_is_computed_when_it_is_needed(kind):
    one = whole("nano")
    state = state_of(one)
    data = file_of(one, state.snapshot(), kind)
    with cluster() as (model, routes):
        routes.is_up = False
        restored = loaded(model, data, kind)
        assert restored.position == LENGTH
        routes.is_up = True
        assert answer(model, restored) == answer(one, state)


@every_kind
def test_arrays_of_another_shape_are_refused(kind):
    one = whole("nano")
    layers = list(one.state_arrays(kind).of(state_of(one).snapshot()))
    with cluster() as (model, routes):
        arrays = model.state_arrays(kind)
        with pytest.raises(ValueError, match="6 layers"):
            arrays.restored(tokens(LENGTH), layers[:-1])
        for wrong in (1, 4):
            changed = [tuple(array[:-1] for array in layer) if i == wrong else layer for i, layer in enumerate(layers)]
            with pytest.raises(ValueError, match="must have shape"):
                arrays.restored(tokens(LENGTH), changed)
        model.forward([Span(model.new_state(), tokens(3))])
        assert all(part.facts().num_snapshots == 0 for part in routes.route.parts)


def test_only_snapshots_of_the_model_are_taken():
    one = whole("nano")
    with cluster() as (model, _), cluster() as (other, _):
        arrays, foreign = model.state_arrays("packed"), other.new_state().snapshot()
        assert isinstance(foreign, ClusterSnapshot)
        assert not arrays.accepts(foreign)
        assert not arrays.accepts(one.new_state().snapshot())
        assert arrays.accepts(model.new_state().snapshot())
        assert not one.state_arrays("packed").accepts(foreign)
        with pytest.raises(ValueError, match="of this model"):
            arrays.of(foreign)
        with pytest.raises(ValueError, match="of this model"):
            one.state_arrays("plain").of(foreign)


def test_fewer_bits_are_another_arithmetic():
    with cluster(bits=16) as (model, _), cluster() as (exact, _):
        marks = [arithmetic_of(one, quality=False) for one in (whole("nano"), exact, model)]
    assert marks[0] == marks[1] != marks[2]


def test_a_step_back_right_after_loading_is_refused_as_in_one_process():
    one = whole("nano")
    data = file_of(one, state_of(one).snapshot(), "packed")
    with cluster() as (model, _):
        assert loaded(model, data, "packed").rollback_room == loaded(one, data, "packed").rollback_room == 0
