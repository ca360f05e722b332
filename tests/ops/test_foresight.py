"""Who is foreseen, from what, and when nobody is: against a store that only writes down what it was told."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from whitedwarf.ops.base import RouterWeights
from whitedwarf.ops.foresight import MANY_ROWS, MOST_AHEAD, SAMPLED_ROWS, TRY_EVERY, Clock, Foresight
from whitedwarf.weights.expert_cache import ExpertCache

E, K = 64, 2


@dataclass
class FakeStore:
    """Everything in `here` is in memory."""

    cache: ExpertCache
    here: set[tuple[int, int]] = field(default_factory=set)
    foreseen: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)

    def lacks(self, layer: int, experts: Any) -> list[int]:
        return [expert for expert in experts if (layer, expert) not in self.here]

    def foresee(self, layer: int, experts: Any) -> None:
        self.foreseen.append((layer, tuple(experts)))


class FakeRouter:
    """Routes row i to the experts x[i] names, the second one weighing more."""

    def __init__(self) -> None:
        self.num_rows: list[int] = []

    def __call__(self, x: Any, router: RouterWeights, ids: Any) -> tuple[Any, Any]:
        self.num_rows.append(len(x))
        return x[:, :K].astype(np.int32), np.tile(np.array([0.25, 0.75], np.float32), (len(x), 1))


def learned(table: Any = None) -> RouterWeights:
    return RouterWeights(None, None, table, K, 1.0, True)  # type: ignore[arg-type]


def foresight(num_layers: int = 3) -> tuple[Foresight, FakeStore, FakeRouter]:
    store = FakeStore(ExpertCache(E, [1] * num_layers, {1: 8}))
    router = FakeRouter()
    found = Foresight(store, router, range(num_layers))
    for layer in range(num_layers):
        found.learn(layer, learned())
    return found, store, router


def rows(*picks: tuple[int, int]) -> Any:
    return np.array(picks, np.float32)


def ids(count: int) -> Any:
    return np.zeros(count, np.int32)


def test_the_next_layer_s_router_is_asked_with_this_layer_s_input_the_likeliest_first() -> None:
    found, store, _ = foresight()
    store.here.add((1, 9))
    found.look_ahead(0, rows((3, 7), (9, 3)), ids(2))
    assert store.foreseen == [(1, (7, 3))]


def test_behind_the_last_layer_there_is_nothing_to_foresee() -> None:
    found, store, _ = foresight()
    found.look_ahead(2, rows((3, 7)), ids(1))
    assert store.foreseen == []


def test_routers_that_were_not_met_yet_are_not_asked() -> None:
    store = FakeStore(ExpertCache(E, [1, 1], {1: 8}))
    found = Foresight(store, FakeRouter(), range(2))
    found.begin(ids(1))
    found.look_ahead(0, rows((3, 7)), ids(1))
    assert store.foreseen == []


def test_tables_are_known_when_the_pass_begins() -> None:
    found, store, router = foresight()
    table = np.array([[5, 6], [6, 1]], np.int32)
    found.learn(0, learned(table))
    found.learn(1, learned(table + 1))
    found.begin(np.array([1, 0, 1], np.int32))
    assert store.foreseen == [(0, (1, 5, 6)), (1, (2, 6, 7))]
    found.look_ahead(0, rows((3, 7)), np.array([0], np.int32))
    assert store.foreseen[2:] == [(1, (6, 7))]
    assert router.num_rows == []


def test_of_a_prompt_some_rows_tell_who_is_needed_for_sure_in_the_order_of_the_rounds() -> None:
    found, store, router = foresight()
    x = np.tile(rows((9, 4), (2, 4)), (200, 1))
    x[7] = (50, 51)
    found.look_ahead(0, x, ids(len(x)))
    assert router.num_rows == [SAMPLED_ROWS]
    assert store.foreseen == [(1, (2, 4, 9))]


def test_no_more_than_a_few_at_a_time() -> None:
    found, store, _ = foresight()
    found.look_ahead(0, rows(*((2 * pair, 2 * pair + 1) for pair in range(MANY_ROWS))), ids(MANY_ROWS))
    assert len(store.foreseen[0][1]) == 0.75 * MOST_AHEAD


def test_a_layer_that_is_foreseen_badly_goes_without_and_is_tried_again() -> None:
    found, store, router = foresight()
    for _ in range(20 * TRY_EVERY):
        found.look_ahead(0, rows((3, 7)), ids(1))
        found.judge(1, {1, 2}, 1)
    assert found.records[1, False].precision < found.enough_precision
    asked, told = len(router.num_rows), len(store.foreseen)
    for _ in range(2 * TRY_EVERY):
        found.look_ahead(0, rows((3, 7)), ids(1))
        found.judge(1, {3, 7}, 1)
    assert len(router.num_rows) - asked == 2
    assert len(store.foreseen) == told
    for _ in range(30 * TRY_EVERY):
        found.look_ahead(0, rows((3, 7)), ids(1))
        found.judge(1, {3, 7}, 1)
    assert len(store.foreseen) > told


@pytest.mark.parametrize(("waited_s", "expected"), [(9.0, 0), (0.1, 40)])
def test_the_longer_we_wait_for_the_disk_the_more_must_be_right(waited_s: float, expected: int) -> None:
    found, store, _ = foresight()
    for _ in range(200):
        found.spent(waited_s, 1.0)
    for _ in range(40):  # half of them right
        found.look_ahead(0, rows((3, 7)), ids(1))
        found.judge(1, {3}, 1)
    assert len(store.foreseen) == expected


def test_a_clock_tells_waiting_from_working() -> None:
    clock = Clock()
    clock.working(is_new=True)
    clock.waiting()
    assert clock.read()[0] > 0
    clock.working()
    waited_s, worked_s = clock.read()
    assert waited_s == 0 < worked_s


def test_of_a_layer_only_as_many_are_read_as_are_mostly_right() -> None:
    found, store, _ = foresight()
    for _ in range(40):
        found.look_ahead(0, rows((3, 7)), ids(1))
        found.judge(1, {7}, 1)
    assert store.foreseen[-1] == (1, (7,))


def test_who_was_in_memory_anyway_does_not_count_as_foreseen() -> None:
    found, store, _ = foresight()
    store.here.add((1, 3))
    before = 0.75
    found.look_ahead(0, rows((3, 7)), ids(1))
    found.judge(1, {3, 8}, 1)
    assert found.records[1, False].precision < before


@pytest.mark.parametrize("num_rows", [1, 40])
def test_prompts_are_judged_apart(num_rows: int) -> None:
    found, _, _ = foresight()
    found.look_ahead(0, np.tile(rows((3, 7)), (num_rows, 1)), ids(num_rows))
    found.judge(1, {8}, num_rows)
    assert [key for key, record in found.records.items() if record.precision not in (0.75, 1.0)] == [
        (1, num_rows > MANY_ROWS)
    ]


def test_where_nearly_nothing_is_read_nobody_is_asked() -> None:
    found, store, router = foresight()
    for _ in range(60):
        found.begin(ids(1))
    found.look_ahead(0, rows((3, 7)), ids(1))
    assert router.num_rows == []
    assert store.foreseen == []
    for number in range(3):  # experts are read again
        fetch = store.cache.fetch(0, [number])
        store.cache.release(fetch)
    found.begin(ids(1))
    found.look_ahead(0, rows((3, 7)), ids(1))
    assert router.num_rows == [1]
