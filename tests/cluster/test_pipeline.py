"""A model over several stages is the model: the same bits, whatever is asked of it and whatever goes wrong."""

import threading
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import pytest

from cluster.parts import SYNTHETIC, parts, tokens, whole
from fakes.cluster_routes import FakeRoutes
from whitedwarf.cluster.pipeline import MOST_ATTEMPTS, ClusterModel
from whitedwarf.cluster.work import StageError
from whitedwarf.errors import Cancelled, ClusterError, UsageError
from whitedwarf.model.base import PaceableModel, Span
from whitedwarf.model.steering import Steering

SPLITS = [("nano", "packed", (3,)), ("nano", "f32", (1, 4)), ("nano", "packed", (1, 2, 3, 4, 5))]
SPLITS += [(SYNTHETIC, "packed", (2,)), (SYNTHETIC, "f32", (1, 3))]
TWO = ("nano", "packed", (2, 4))


@contextmanager
def cluster(name="nano", kv_cache="packed", cuts=(2, 4), mishaps=None, bits=32, **more):
    first, *others = parts(name, kv_cache, *cuts)
    routes = FakeRoutes(others)
    if mishaps is not None:
        routes.mishaps = mishaps
    try:
        yield ClusterModel.over(first, routes, bits, **more), routes
    finally:
        routes.close()


def prefilled(model, ids, chunk=50):
    """A state that has read all but the last of `ids`, in pieces that nobody waits for; and the logits of the last."""
    state = model.new_state()
    for start in range(0, len(ids) - 1, chunk):
        model.forward([Span(state, ids[start : min(start + chunk, len(ids) - 1)], "none")])
    return state, model.forward([Span(state, ids[-1:], "last")])[0][0]


def greedy(model, ids, num_tokens, chunk=50):
    state, row = prefilled(model, ids, chunk)
    rows = [row]
    for _ in range(num_tokens - 1):
        (logits,) = model.forward([Span(state, np.array([rows[-1].argmax()], np.int32))])
        rows.append(logits[0])
    return np.array(rows)


def test_a_pace_is_told_our_own_layers_and_changes_no_bit():
    ids, told = tokens(60), []
    with cluster() as (model, _):
        assert isinstance(model, PaceableModel)
        (paced,) = model.forward_at_pace([Span(model.new_state(), ids, "all")], told.append)
        (plain,) = model.forward([Span(model.new_state(), ids, "all")])
    assert told == [0, 1]
    assert paced.tobytes() == plain.tobytes()


class Once:
    """The given mishap at the n-th piece of work of a stage."""

    def __init__(self, mishap, stage, at, times=1):
        self.mishap, self.stage, self.at, self.times = mishap, stage, at, times
        self.seen = 0

    def __call__(self, stage, work):
        if stage != self.stage or not work.spans:
            return None
        self.seen += 1
        return self.mishap if self.at <= self.seen < self.at + self.times else None


@pytest.mark.parametrize(("name", "kv_cache", "cuts"), SPLITS)
def test_a_prompt_in_pieces_and_a_long_greedy_answer_have_the_bits_of_one_process(name, kv_cache, cuts):
    ids = tokens(310)
    with cluster(name, kv_cache, cuts) as (model, routes):
        found = greedy(model, ids, 110)
        assert len(routes.made) == 1
    assert found.tobytes() == greedy(whole(name, kv_cache), ids, 110).tobytes()


@pytest.mark.parametrize("bits", [16, 8])
def test_fewer_bits_are_near(bits):
    ids = tokens(120)
    with cluster(bits=bits) as (model, _):
        found = prefilled(model, ids)[1]
    expected = prefilled(whole("nano"), ids)[1]
    assert 0 < np.abs(found - expected).max() < {16: 0.05, 8: 1.0}[bits] * np.abs(expected).max()


def test_batches_of_prompts_and_single_tokens_have_the_bits_of_one_process():
    prompts = [tokens(count, seed=count) for count in (140, 3, 77)]

    def answers(model):
        states, rows = [model.new_state() for _ in prompts], []
        rows += model.forward([Span(states[0], prompts[0][:90], "none"), Span(states[1], prompts[1], "all")])
        rows += model.forward(
            [Span(states[1], prompts[1][:1]), Span(states[0], prompts[0][90:]), Span(states[2], prompts[2])]
        )
        rows += model.forward([Span(state, prompts[1][:1], "all") for state in states])
        return [row.tobytes() for row in rows]

    with cluster() as (model, _):
        assert answers(model) == answers(whole("nano"))


def test_states_step_back_are_frozen_and_continued_as_in_one_process():
    ids = tokens(260)

    def answers(model):
        state, rows = model.new_state(), []
        model.forward([Span(state, ids[:200], "none")])
        frozen, room = state.snapshot(), state.rollback_room
        rows += model.forward([Span(state, ids[200:216], "all")])
        state.rollback(9)
        longer = state.snapshot()
        rows += model.forward([Span(state, ids[207:230], "all")])
        for snapshot in (frozen, frozen.rebased(longer), longer, longer.packed()):
            other = model.new_state()
            other.restore(snapshot)
            assert (other.position, other.rollback_room) == (snapshot.position, snapshot.rollback_room)
            rows += model.forward([Span(other, ids[snapshot.position : snapshot.position + 40], "all")])
            state.restore(snapshot)
            rows += model.forward([Span(state, ids[snapshot.position :][:3], "all")])
        with pytest.raises(ValueError, match="at most"):
            state.rollback(room + 4)
        return [row.tobytes() for row in rows]

    with cluster() as (model, _):
        assert answers(model) == answers(whole("nano"))


@pytest.mark.parametrize("stage", [0, 1])
@pytest.mark.parametrize("at", [1, 3, 8, 12])
@pytest.mark.parametrize("mishap", ["die", "die after", "lose", "swap"])
def test_what_is_lost_is_computed_again(mishap, at, stage):
    ids = tokens(310)
    with cluster(mishaps=Once(mishap, stage, at)) as (model, routes):
        assert greedy(model, ids, 8).tobytes() == expected_greedy(310, 8).tobytes()
        assert len(routes.made) == 1 + mishap.startswith("die")


def expected_greedy(length, num_tokens):
    return greedy(whole("nano"), tokens(length), num_tokens)


def test_a_failing_stage_is_one_clear_error_and_the_next_answer_is_right():
    with cluster(mishaps=Once("fail", 1, 7)) as (model, routes):
        with pytest.raises(StageError, match="out of memory"):
            greedy(model, tokens(310), 8)
        assert greedy(model, tokens(310), 8).tobytes() == expected_greedy(310, 8).tobytes()
        assert len(routes.made) == 1


def test_the_failure_of_a_piece_that_nobody_waited_for_is_told_to_its_own_sequence():
    ids = tokens(40)
    with cluster(mishaps=Once("fail", 1, 1)) as (model, _):
        failed, other = model.new_state(), model.new_state()
        model.forward([Span(failed, ids, "none")])
        found = model.forward([Span(other, ids, "last")])[0]
        assert found.tobytes() == prefilled(whole("nano"), ids)[1].tobytes()
        with pytest.raises(StageError, match="out of memory"):
            model.forward([Span(failed, ids[:1])])


def test_a_cluster_that_fails_again_and_again_is_one_error():
    told = pytest.raises(ClusterError, match=f"{MOST_ATTEMPTS} times")
    with cluster(mishaps=Once("lose", 1, 2, times=10**6)) as (model, _), told:
        greedy(model, tokens(310), 8)
    with cluster(mishaps=Once("die", 0, 2, times=10**6)) as (model, routes):
        with pytest.raises(ClusterError, match=f"{MOST_ATTEMPTS} times"):
            greedy(model, tokens(310), 8)
        assert len(routes.made) < 3 * MOST_ATTEMPTS


def test_without_a_route_a_pass_fails_and_with_one_the_next_works():
    ids = tokens(310)
    with cluster() as (model, routes):
        routes.is_up = False
        with pytest.raises(ClusterError, match="no member has layers 2 to 3"):
            model.forward([Span(model.new_state(), ids)])
        routes.is_up = True
        state, _ = prefilled(model, ids)
        routes.route.break_off()
        routes.is_up = False
        with pytest.raises(ClusterError, match="no member has"):
            model.forward([Span(state, ids[:1])])
        routes.is_up = True
        found = model.forward([Span(state, ids[:1], "last")])[0]
    expected = whole("nano")
    state, _ = prefilled(expected, ids)
    assert found.tobytes() == expected.forward([Span(state, ids[:1], "last")])[0].tobytes()


def test_a_cancel_ends_the_waiting_for_a_route_and_for_a_stage():
    gate, ids = threading.Event(), tokens(50)
    cancelled = threading.Event()
    with cluster(mishaps=lambda stage, work: gate.wait(30) and None) as (model, routes):
        state = model.new_state()
        threading.Timer(0.1, cancelled.set).start()
        with pytest.raises(Cancelled):
            model.forward([Span(state, ids, "last", cancelled.is_set)])
        assert state.position == 50
        for _ in range(4):  # nobody waits for the window either
            model.forward([Span(state, ids[:10], "none", cancelled.is_set)])
        gate.set()
        all_ids = np.concatenate([ids, *[ids[:10]] * 4, ids])
        assert model.forward([Span(state, ids)])[0].tobytes() == prefilled(whole("nano"), all_ids)[1].tobytes()
        assert routes.route.parts[0].facts().num_sessions == 1  # nothing had to be computed again
        routes.route.break_off()
        routes.is_up, routes.limit_s = False, 30
        cancelled.clear()
        threading.Timer(0.1, cancelled.set).start()
        with pytest.raises(Cancelled):
            model.forward([Span(state, ids, "last", cancelled.is_set)])
        assert state.position == len(all_ids)


def test_a_cancel_is_heard_while_lost_work_is_repeated():
    asked = []

    def is_cancelled():
        asked.append(True)
        return len(asked) > 3

    with cluster(replay_tokens=10) as (model, routes):
        state, _ = prefilled(model, tokens(310))
        routes.route.break_off()
        with pytest.raises(Cancelled):
            model.forward([Span(state, tokens(5), "last", is_cancelled)])
        assert state.position == 310
        expected = whole("nano")
        same, _ = prefilled(expected, tokens(310))
        found = model.forward([Span(state, tokens(5))])[0]
        assert found.tobytes() == expected.forward([Span(same, tokens(5))])[0].tobytes()


def test_pieces_of_a_prompt_are_under_way_together_up_to_the_window():
    gate, sent = threading.Event(), []

    def mishaps(stage, work):
        if stage == 0:
            sent.append(work.number)
            gate.wait(30)

    with cluster(mishaps=mishaps) as (model, _):
        state, ids = model.new_state(), tokens(300)
        for start in range(0, 60, 20):
            assert model.forward([Span(state, ids[start : start + 20], "none")])[0].shape == (0, 4096)
        threading.Timer(0.1, gate.set).start()
        for start in range(60, 160, 20):
            model.forward([Span(state, ids[start : start + 20], "none")])
        found = model.forward([Span(state, ids[160:], "last")])[0]
        assert found.tobytes() == prefilled(whole("nano"), ids)[1].tobytes()
        assert all(before < after for before, after in pairwise(sent))


def test_stages_drop_what_nobody_holds():
    with cluster() as (model, routes):
        states = [prefilled(model, tokens(30, seed))[0] for seed in range(3)]
        kept = [state.snapshot() for state in states]
        model.forward([Span(states[0], tokens(1))])
        stage = routes.route.parts[1]
        assert (stage.facts().num_sessions, stage.facts().num_snapshots) == (3, 3)
        del states[1:], kept[:2]
        model.forward([Span(states[0], tokens(1))])
        assert (stage.facts().num_sessions, stage.facts().num_snapshots) == (1, 1)
        states[0].restore(kept.pop())
        model.forward([Span(states[0], tokens(1))])
        assert (stage.facts().num_sessions, stage.facts().num_snapshots) == (1, 0)


def test_a_steered_model_is_steered_on_every_machine():
    ids, plain = tokens(60), whole("nano")
    directions = np.random.default_rng(1).normal(size=(6, plain.config.hp.hidden_size)).astype(np.float32)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    steering = Steering(directions, ffn=0.7, attention=-0.3)
    with cluster(mishaps=Once("die", 1, 3)) as (model, routes):
        steered = model.steered(steering)
        assert greedy(steered, ids, 6).tobytes() == greedy(plain.steered(steering), ids, 6).tobytes()
        assert greedy(model, ids, 6).tobytes() == greedy(plain, ids, 6).tobytes()
        assert len(routes.made) == 2
        state = model.new_state()
        with pytest.raises(TypeError, match="new_state"):
            steered.forward([Span(state, ids)])
        with pytest.raises(ValueError, match="another model"):
            steered.new_state().restore(state.snapshot())
        assert steered.steered(None).steering is None
        assert steered.steered(None).new_state().home.is_of(model.home)


def test_it_offers_what_a_model_offers():
    with cluster(bits=16) as (model, _):
        shorter = model.with_context(512)
        assert (shorter.config.context_length, model.steering, model.ops.name) == (512, None, "cpu")
        assert model.arithmetic == "cpu with 16 bits between machines"
        shorter.forward([Span(model.new_state(), tokens(4))])
        with pytest.raises(UsageError, match="cannot be looked into"):
            model.forward([Span(model.new_state(), tokens(4))], lambda name, layer, rows: None)
        with pytest.raises(UsageError, match="not in this model's vocabulary"):
            model.forward([Span(model.new_state(), np.array([5000], np.int32))])
        with pytest.raises(ValueError, match="at least one span"):
            model.forward([])
        state = model.new_state()
        with pytest.raises(ValueError, match="share a state"):
            model.forward([Span(state, tokens(4)), Span(state, tokens(4))])
        with pytest.raises(TypeError, match="new_state"):
            model.forward([Span(whole("nano").new_state(), tokens(4))])
    with pytest.raises(ValueError, match="first layers"):
        ClusterModel.over(whole("nano"), FakeRoutes([]))
    first, *others = parts("nano", "packed", 2, 4)
    model = ClusterModel.over(first, FakeRoutes(others[:1]))
    with pytest.raises(ClusterError, match="expected stages from layer 2 to 5, got 2 to 3"):
        model.forward([Span(model.new_state(), tokens(4))])
