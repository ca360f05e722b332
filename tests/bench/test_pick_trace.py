"""Which experts were picked, and how often a cache would have had them."""

from types import SimpleNamespace
from typing import Any, cast

import hypothesis.strategies as st
import numpy as np
from hypothesis import given

from whitedwarf.bench.pick_trace import PickRecorder, hit_rates
from whitedwarf.cli.loading import open_model
from whitedwarf.config import ModelSettings
from whitedwarf.model.base import Span
from whitedwarf.ops.base import Ops


def test_passes_of_one_row_are_written_down_and_others_are_not() -> None:
    made: list[PickRecorder] = []

    def wrap(ops: Ops) -> Ops:
        recorder, wrapped = PickRecorder.around(ops)
        made.append(recorder)
        return wrapped

    model = open_model(ModelSettings(backend="cpu", context=64), wrap=wrap).transformer
    state = model.new_state()
    model.forward([Span(state, np.arange(5, dtype=np.int32))])
    assert made[0].picks.size == 0
    for token in (7, 8, 9):
        model.forward([Span(state, np.array([token], np.int32))])
    hp = model.config.hp
    picks = made[0].picks
    assert picks.shape == (3, hp.num_layers, hp.num_experts_used)
    assert 0 <= picks.min() <= picks.max() < hp.num_experts


def test_results_are_the_wrapped_backends_own() -> None:
    ops: Any = SimpleNamespace(route=lambda x, router, ids: ([[1, 2]], "weights"), host=lambda x: x, name="inner")
    recorder, wrapped = PickRecorder.around(cast(Ops, ops))
    assert wrapped.name == "inner"
    assert cast(Any, wrapped).route(None, object(), None) == ([[1, 2]], "weights")
    assert recorder.picks.tolist() == [[[1, 2]]]


@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(1, 3))
def test_a_cache_of_everything_misses_only_what_was_never_picked(seed: int, layers: int, used: int) -> None:
    rng = np.random.default_rng(seed)
    row = rng.permuted(np.tile(np.arange(8), (layers, 1)), axis=1)[:, :used]
    picks = np.tile(row, (10, 1, 1)).astype(np.int32)
    rates = hit_rates(picks, 8, (0.5, 1.0))
    assert rates[-1].hit_rate == 1.0
    assert rates[-1].slots == 8 * layers


def test_more_slots_find_more_of_a_skewed_choice() -> None:
    rng = np.random.default_rng(1)
    shares = 1 / np.arange(1, 65)
    row = [[rng.choice(64, 4, replace=False, p=shares / shares.sum()) for _ in range(3)] for _ in range(200)]
    rates = [rate.hit_rate for rate in hit_rates(np.array(row, np.int32), 64)]
    assert rates == sorted(rates)
    assert rates[0] > 0.15
    assert rates[-1] > 0.9
