"""Parts of a model, each for itself: the bits of the whole, and sessions that are never continued wrongly."""

import pickle

import numpy as np
import pytest

from cluster.parts import SYNTHETIC, parts, tokens, whole
from whitedwarf.cluster import boundary
from whitedwarf.cluster.history import BASIS, Trail, rolled
from whitedwarf.cluster.stage import Stage
from whitedwarf.cluster.work import HashMismatch, SpanWork, StageError, StateOrder, Work
from whitedwarf.engine.rests import Rests
from whitedwarf.model.base import Span
from whitedwarf.model.state import ROLLBACK_TOKENS

MODELS = [("nano", "packed"), ("nano", "f32"), (SYNTHETIC, "packed")]


def span_of(session, ids, before=(), logits="all"):
    hash_before = rolled(BASIS, np.array(before, np.int32))
    return SpanWork(session, len(before), hash_before, rolled(hash_before, ids), ids, logits)


class Sender:
    """A first part, and the work that it makes for a stage."""

    def __init__(self, model):
        self.model = model
        self.state = model.new_state()
        self.past = []

    def work(self, ids, *orders, bits=32, **more):
        streams = self.model.forward_part([Span(self.state, ids, "none")]).streams
        span = span_of(1, ids, self.past)
        self.past += ids.tolist()
        return Work(0, orders, (span,), boundary.encode(streams, bits), bits, **more)


NEW = StateOrder("new", 1)


@pytest.mark.parametrize(("name", "kv_cache"), MODELS)
def test_part_after_part_gives_the_bits_of_the_whole(name, kv_cache):
    model, ids = whole(name, kv_cache), tokens(300)
    expected = model.forward([Span(model.new_state(), ids, "all")])[0]
    num_layers = model.config.hp.num_layers
    for cuts in ((2,), (1, 3), tuple(range(1, num_layers))):
        states = [(one, one.new_state()) for one in parts(name, kv_cache, *cuts)]
        found = []
        for piece in (ids[:130], ids[130:131], ids[131:]):
            streams = None
            for one, state in states:
                passed = one.forward_part([Span(state, piece, "all")], streams)
                streams = passed.streams
            found.append(passed.logits[0])
        assert np.concatenate(found).tobytes() == expected.tobytes()


def test_a_part_is_no_model():
    first, last = parts("nano", "packed", 3)
    assert (first.held, last.held) == (range(3), range(3, 6))
    span = Span(last.new_state(), tokens(3), "all")
    with pytest.raises(ValueError, match="layers 3 to 5 of 6 are here"):
        last.forward([span])
    with pytest.raises(ValueError, match="streams of the layers before"):
        last.forward_part([span])
    with pytest.raises(ValueError, match="layer 0 is here"):
        first.forward_part([Span(first.new_state(), tokens(3), "all")], np.zeros((3, 4, 256), np.float32))
    with pytest.raises(ValueError, match="expected streams"):
        last.forward_part([span], np.zeros((2, 4, 256), np.float32))


def test_states_of_other_layers_are_refused():
    first, last = parts("nano", "packed", 3)
    state = first.new_state()
    with pytest.raises(ValueError, match="other layers"):
        last.new_state().restore(state.snapshot())
    with pytest.raises(ValueError, match="same layers"):
        state.snapshot().rebased(last.new_state().snapshot())


def test_a_stage_gives_the_logits_of_the_whole():
    model, (first, last), ids = whole("nano"), parts("nano", "packed", 2), tokens(140)
    sender, stage = Sender(first), Stage(last)
    expected = model.forward([Span(model.new_state(), ids, "all")])[0]
    found = [stage.work(sender.work(ids[:139], NEW)), stage.work(sender.work(ids[139:]))]
    assert np.concatenate([done.logits for done in found]).tobytes() == expected.tobytes()
    assert [(hop.layers, hop.num_tokens) for hop in found[0].hops] == [((2, 5), 139)]


def test_a_stage_at_less_than_full_power_rests_after_each_layer_and_changes_no_bit():
    first, last = parts("nano", "packed", 2)
    clock_s, rests_s = [0.0], []

    def clock() -> float:
        clock_s[0] += 1.0  # whatever is done takes a second
        return clock_s[0]

    def sleep(seconds: float) -> None:
        rests_s.append(seconds)
        clock_s[0] += seconds

    sender, other = Sender(first), Sender(first)  # a stage may write over the streams that it gets
    plain, paced = Stage(last), Stage(last, Rests(20, sleep, clock))
    for ids, orders, num_rests in ((tokens(20), [NEW], 4), (tokens(1), [], 1)):  # a piece of a prompt, a token
        expected, found = plain.work(sender.work(ids, *orders)), paced.work(other.work(ids, *orders))
        assert found.logits.tobytes() == expected.logits.tobytes()
        assert len(rests_s) >= num_rests
        rests_s.clear()


def test_what_nobody_wants_is_not_sent_back():
    first, last = parts("nano", "packed", 2)
    done = Stage(last).work(Sender(first).work(tokens(5), NEW, is_ack_only=True))
    assert done.logits is None
    assert done.streams is None


def test_a_session_with_another_history_is_named_before_anything_is_computed():
    first, last = parts("nano", "packed", 2)
    sender, stage = Sender(first), Stage(last)
    with pytest.raises(HashMismatch, match="session 1 is not here") as raised:
        stage.work(sender.work(tokens(5)))
    assert raised.value.session == 1
    again = Sender(first)
    work = again.work(tokens(5), NEW)
    stage.work(work)
    with pytest.raises(HashMismatch, match="is at 5 with another history than expected at 0"):
        stage.work(Work(1, (), work.spans, work.streams))
    changed = again.work(tokens(4, seed=2))
    other = SpanWork(1, 5, changed.spans[0].hash_before, 7, changed.spans[0].ids, "all")
    with pytest.raises(HashMismatch, match="changed on the way"):
        stage.work(Work(2, (), (other,), changed.streams))
    assert stage.work(changed).logits is not None


def test_orders_are_done_whatever_happens_after_them():
    first, last = parts("nano", "packed", 2)
    sender, stage = Sender(first), Stage(last)
    stage.work(sender.work(tokens(5), NEW))
    with pytest.raises(HashMismatch):
        stage.work(Work(1, (StateOrder("new", 2), StateOrder("drop", 1)), (span_of(3, tokens(2)),)))
    assert stage.facts().num_sessions == 1
    assert stage.work(Work(2, (StateOrder("drop", 2),))).logits is None
    assert stage.facts().num_sessions == 0


def test_a_failure_costs_the_sessions_of_that_work_and_nothing_else():
    first, last = parts("nano", "packed", 2)
    sender, stage = Sender(first), Stage(last)
    work = sender.work(tokens(5), NEW, StateOrder("new", 9))
    with pytest.raises(StageError, match=r"layers 2 to 5 failed .* 20480 bytes"):
        stage.work(Work(0, work.orders, work.spans, work.streams[:-4]))
    assert stage.facts().num_sessions == 1
    with pytest.raises(HashMismatch):
        stage.work(Work(1, (), work.spans, work.streams))


def test_snapshots_rollbacks_and_restored_sessions_continue_with_the_same_bits():
    model, (first, last), ids = whole("nano"), parts("nano", "packed", 2), tokens(200)
    expected = model.forward([Span(model.new_state(), ids, "all")])[0]
    sender, stage = Sender(first), Stage(last)
    stage.work(sender.work(ids[:150], NEW))
    kept, past = sender.state.snapshot(), list(sender.past)
    stage.work(sender.work(tokens(9, seed=5), StateOrder("snapshot", 1, 77)))
    sender.state.rollback(9)
    sender.past = list(past)
    done = stage.work(sender.work(ids[150:160], StateOrder("rollback", 1, num_tokens=9)))
    assert done.logits.tobytes() == expected[150:160].tobytes()
    sender.state.restore(kept)
    sender.past = past
    orders = StateOrder("pack", snapshot=77), StateOrder("drop", 1), StateOrder("restore", 1, 77)
    assert stage.work(sender.work(ids[150:], *orders)).logits.tobytes() == expected[150:].tobytes()


def test_a_step_back_that_is_too_long_ends_the_session():
    first, last = parts("nano", "packed", 2)
    sender, stage = Sender(first), Stage(last)
    stage.work(sender.work(tokens(50), NEW))
    stage.work(Work(1, (StateOrder("rollback", 1, num_tokens=ROLLBACK_TOKENS + 1),)))
    assert stage.facts().num_sessions == 0


def test_what_was_dropped_is_not_kept():
    first, last = parts("nano", "packed", 2)
    sender, stage = Sender(first), Stage(last)
    stage.work(sender.work(tokens(50), NEW))
    stage.work(Work(1, (StateOrder("snapshot", 1, 5), StateOrder("restore", 2, 5), StateOrder("rebase", 5, 5))))
    held = stage.facts()
    assert (held.num_sessions, held.num_snapshots) == (2, 1)
    stage.work(Work(2, (StateOrder("drop", 1), StateOrder("drop", 2), StateOrder("drop_snapshot", snapshot=5))))
    assert stage.facts() == type(held)(0, 0, 0)


@pytest.mark.parametrize("kind", ["plain", "packed"])
def test_a_snapshot_taken_apart_and_put_together_elsewhere_is_the_same(kind):
    model, (first, last), ids = whole("nano"), parts("nano", "packed", 2), tokens(180)
    sender, stage, other = Sender(first), Stage(last), Stage(last)
    stage.work(sender.work(ids[:150], NEW))
    stage.work(Work(1, (StateOrder("snapshot", 1, 5),)))
    trail = Trail.at(ROLLBACK_TOKENS, 150, rolled(BASIS, ids[:150]))
    state = model.new_state()
    model.forward([Span(state, ids[:150], "none")])
    layers = list(model.state_arrays(kind).of(state.snapshot()))
    for layer in last.held:
        found = stage.gather(5, layer, kind)
        assert [array.tobytes() for array in found] == [array.tobytes() for array in layers[layer]]
        other.scatter(6, layer, kind, found, trail)
    done = other.work(sender.work(ids[150:], StateOrder("restore", 1, 6)))
    assert done.logits.tobytes() == model.forward([Span(state, ids[150:], "all")])[0].tobytes()
    with pytest.raises(HashMismatch, match="snapshot 8 is not here"):
        stage.gather(8, 3, kind)


@pytest.mark.parametrize(("bits", "near"), [(16, 0.02), (8, 0.5)])
def test_fewer_bits_are_near(bits, near):
    model, (first, last), ids = whole("nano"), parts("nano", "packed", 3), tokens(60)
    expected = model.forward([Span(model.new_state(), ids, "all")])[0]
    found = Stage(last).work(Sender(first).work(ids, NEW, bits=bits)).logits
    assert 0 < np.abs(found - expected).max() < near * np.abs(expected).max()


def test_what_goes_between_processes_can_be_pickled():
    mismatch = pickle.loads(pickle.dumps(HashMismatch(3, "why")))
    assert (mismatch.session, str(mismatch)) == (3, "why")
    assert "session 3" in str(pickle.loads(pickle.dumps(HashMismatch(3))))
    work = Work(1, (NEW,), (span_of(1, tokens(3)),), np.zeros(4, np.uint8))
    assert pickle.loads(pickle.dumps(work)).orders == work.orders
