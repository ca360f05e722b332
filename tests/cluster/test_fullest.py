"""A state says what it takes of the machine that keeps most of it."""

import pytest

from cluster.parts import tokens, whole
from cluster.test_pipeline import cluster
from whitedwarf.cluster.fullest import Fullest
from whitedwarf.engine.ledger import total_bytes
from whitedwarf.model.base import Span


@pytest.mark.parametrize("cuts", [(3,), (5,), (3, 4), (1,)])
def test_a_snapshot_takes_what_the_fullest_machine_keeps_of_it(cuts):
    with cluster(cuts=cuts) as (model, routes):
        state = model.new_state()
        for start in range(0, 800, 200):
            model.forward([Span(state, tokens(800)[start : start + 200], "none")])
        snapshot = state.snapshot().packed()
        model.forward([Span(model.new_state(), tokens(1))])
        assert snapshot.local is not None
        here = total_bytes(snapshot.local)
        there = [total_bytes(part._snapshots[snapshot.remote.number].state) for part in routes.route.parts]
        assert total_bytes(snapshot) == pytest.approx(max(here, *there), rel=0.02)
        assert total_bytes(state) >= total_bytes(snapshot)


def test_in_one_process_it_is_what_it_is():
    config = whole("nano").config
    assert Fullest.of(config, range(6), ()) == Fullest()
    assert Fullest.of(config, range(3), (range(3, 4), range(4, 6))).rows > 0.9
    alone = Fullest.of(config, range(2), (range(2, 6),))
    assert alone.own > 1
    assert alone.rows == 1
    assert alone.own_bytes(1000, 100) == round(1000 * alone.own + 100 * alone.row_bytes)
