"""Which experts lie in fast memory: the books are kept, and what is hot stays."""

from collections.abc import Sequence

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from whitedwarf.weights.expert_cache import HALF_LIFE_TOKENS, Admission, ExpertCache, Fetch, Load

NUM_EXPERTS = 8
SMALL, LARGE = 10, 20


def cache_of(slots: int, layers: int = 3, experts: int = NUM_EXPERTS) -> ExpertCache:
    return ExpertCache(experts, [SMALL] * layers, {SMALL: slots})


def ask(
    cache: ExpertCache,
    layer: int,
    picked: Sequence[int],
    rows: int = 1,
    admission: Admission = Admission.ALWAYS,
    most: int | None = None,
) -> Fetch:
    return cache.fetch(layer, cache.pick(layer, picked, rows), admission, most)


def run(
    cache: ExpertCache,
    layer: int,
    *picked: int,
    rows: int = 1,
    admission: Admission = Admission.ALWAYS,
    most: int | None = None,
) -> Fetch:
    fetch = ask(cache, layer, picked, rows, admission, most)
    cache.release(fetch)
    return fetch


def test_the_first_experts_fill_empty_slots_and_are_hits_from_then_on() -> None:
    cache = cache_of(4)
    fetch = run(cache, 0, 5, 2)
    assert fetch.loads == (Load(2, 0, None), Load(5, 1, None))
    assert dict(fetch.slots) == {2: 0, 5: 1}
    assert dict(run(cache, 0, 2, 5).hits) == {2: 0, 5: 1}
    assert cache.traffic.hits == 2
    assert cache.traffic.misses == 2
    assert cache.traffic.loaded_bytes == 2 * SMALL
    assert cache.traffic.hit_rate == 0.5


def test_the_same_expert_of_another_layer_is_another_expert() -> None:
    cache = cache_of(4)
    run(cache, 0, 1)
    assert not run(cache, 1, 1).hits
    assert cache.slot(0, 1) != cache.slot(1, 1)


def test_the_coldest_goes_first() -> None:
    cache = cache_of(2, layers=1)
    run(cache, 0, 1)
    run(cache, 0, 1)
    run(cache, 0, 2)
    assert run(cache, 0, 3).loads == (Load(3, 1, (0, 2)),)


def test_among_equally_hot_ones_the_one_unused_for_longest_goes() -> None:
    cache = cache_of(2, layers=3)
    run(cache, 0, 1)
    run(cache, 1, 1)
    assert run(cache, 2, 1).loads[0].victim == (0, 1)


def test_a_miss_counts_as_a_pick_too() -> None:
    cache = cache_of(1, layers=1)
    held = ask(cache, 0, [1])
    assert ask(cache, 0, [2]).left == (2,)
    cache.release(held)
    assert cache.heat[0, 2] == 1
    assert cache.picks[0, 2] == 1


def test_heat_halves_every_sixteen_decoded_tokens() -> None:
    cache = cache_of(4, layers=2)
    for _ in range(HALF_LIFE_TOKENS):
        run(cache, 0, 1)
        run(cache, 1, 1)
    assert cache.heat[0, 1] == HALF_LIFE_TOKENS
    run(cache, 0, 2)
    assert cache.heat[0, 1] == HALF_LIFE_TOKENS / 2
    assert cache.traffic.passes == HALF_LIFE_TOKENS


def test_eight_sequences_decoded_together_are_eight_tokens() -> None:
    cache = cache_of(4, layers=1)
    for _ in range(3):
        run(cache, 0, 1, 1, 1, 1, 1, 1, 1, 1, rows=8)
    assert cache.heat[0, 1] == 8 + 8 / 2 + 8 / 2


def test_a_prompt_weighs_as_much_as_sixteen_tokens() -> None:
    cache = cache_of(4, layers=1)
    run(cache, 0, *[1] * 512, rows=1024)
    assert cache.heat[0, 1] == HALF_LIFE_TOKENS / 2


def test_slots_in_use_are_nobody_elses() -> None:
    cache = cache_of(2)
    held = ask(cache, 0, [1, 2])
    assert ask(cache, 1, [3]).left == (3,)
    cache.release(held)
    assert ask(cache, 2, [3]).left == ()


def test_more_experts_than_slots_come_in_rounds() -> None:
    cache = cache_of(3)
    fetch, seen = ask(cache, 0, range(NUM_EXPERTS), rows=64), set()
    while True:
        seen |= set(fetch.slots)
        cache.release(fetch)
        if not fetch.left:
            break
        fetch = cache.again(fetch)
    assert seen == set(range(NUM_EXPERTS))
    assert cache.traffic.loads == NUM_EXPERTS == cache.traffic.misses


def test_of_too_many_the_hottest_come_first() -> None:
    cache = cache_of(2)
    fetch = ask(cache, 0, [3, 3, 3, 1, 7, 7], rows=3)
    assert [load.expert for load in fetch.loads] == [3, 7]
    assert fetch.left == (1,)


def test_where_somebody_else_computes_misses_only_hotter_ones_are_loaded() -> None:
    cache = cache_of(1, layers=1)
    run(cache, 0, 1)
    run(cache, 0, 1)
    assert run(cache, 0, 2, admission=Admission.HOTTER).left == (2,)
    run(cache, 0, 2, admission=Admission.HOTTER)
    assert run(cache, 0, 2, admission=Admission.HOTTER).loads == (Load(2, 0, (0, 1)),)


def test_a_prompt_leaves_all_but_a_few_slots_alone() -> None:
    cache = cache_of(8, layers=2)
    for expert in range(8):
        run(cache, 0, expert, expert)
    fetch = ask(cache, 1, range(8), rows=512, admission=Admission.PASSING, most=2)
    while fetch.left:
        assert len(fetch.loads) == 2
        cache.release(fetch)
        fetch = cache.again(fetch, Admission.PASSING, 2)
    cache.release(fetch)
    assert sum(cache.slot(0, expert) is not None for expert in range(8)) == 6
    assert run(cache, 0, 0).hits or run(cache, 0, 7).hits


def test_what_passed_through_stays_if_it_is_needed_again() -> None:
    cache = cache_of(2, layers=2)
    run(cache, 0, 1, 2)
    run(cache, 1, 5, admission=Admission.PASSING, most=1)
    assert run(cache, 1, 5).hits
    assert run(cache, 1, 6).loads[0].victim == (0, 2)


def test_sizes_have_pools_of_their_own() -> None:
    cache = ExpertCache(NUM_EXPERTS, [SMALL, LARGE, SMALL], {SMALL: 2, LARGE: 1})
    run(cache, 0, 1)
    run(cache, 1, 1)
    run(cache, 2, 1)
    assert run(cache, 1, 2).loads == (Load(2, 0, (1, 1)),)
    assert cache.slot(0, 1) is not None
    assert cache.traffic.loaded_bytes == 2 * SMALL + 2 * LARGE


def test_a_size_without_slots_is_refused() -> None:
    with pytest.raises(ValueError, match=r"got none for \[20\]"):
        ExpertCache(NUM_EXPERTS, [SMALL, LARGE], {SMALL: 2})


def test_bytes_that_did_not_arrive_leave_an_empty_slot() -> None:
    cache = cache_of(2)
    fetch = ask(cache, 0, [1])
    cache.forget(0, 1)
    cache.release(fetch)
    assert cache.slot(0, 1) is None
    assert run(cache, 0, 1).loads == (Load(1, 0, None),)


def test_hot_experts_are_loaded_before_anybody_asks() -> None:
    cache = cache_of(2)
    cache.heat[1, 4], cache.heat[0, 3], cache.heat[2, 0] = 3, 2, 1
    assert cache.preload() == ((1, Load(4, 0, None)), (0, Load(3, 1, None)))
    assert cache.preload() == ()
    assert run(cache, 1, 4).hits


def test_a_preload_may_be_bounded() -> None:
    cache = cache_of(8)
    cache.heat[0] = 1
    assert len(cache.preload(3)) == 3


class Books(RuleBasedStateMachine):
    """Any order of fetches, rounds and releases, against a plain dictionary of who lies where."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = ExpertCache(NUM_EXPERTS, [SMALL, LARGE, SMALL], {SMALL: 4, LARGE: 3})
        self.content: dict[tuple[int, int], tuple[int, int]] = {}  # (size, slot) -> (layer, expert)
        self.open: list[Fetch] = []

    def take(self, fetch: Fetch, asked: set[int]) -> None:
        size = self.cache.layer_bytes[fetch.layer]
        held = {(self.cache.layer_bytes[other.layer], slot) for other in self.open for slot in other.slots.values()}
        for load in fetch.loads:
            assert (size, load.slot) not in held
            assert self.content.get((size, load.slot)) == load.victim
            self.content[size, load.slot] = fetch.layer, load.expert
        for expert, slot in fetch.slots.items():
            assert self.content[size, slot] == (fetch.layer, expert)
        assert set(fetch.slots) | set(fetch.left) == asked
        assert not set(fetch.slots) & set(fetch.left)
        self.open.append(fetch)

    @rule(
        layer=st.integers(0, 2),
        picked=st.lists(st.integers(0, NUM_EXPERTS - 1), min_size=1, max_size=12),
        rows=st.integers(1, 40),
        admission=st.sampled_from(Admission),
        most=st.none() | st.integers(0, 3),
    )
    def fetch(self, layer: int, picked: list[int], rows: int, admission: Admission, most: int | None) -> None:
        self.take(ask(self.cache, layer, picked, rows, admission, most), set(picked))

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def go_on(self, data: st.DataObject) -> None:
        fetch = self.open.pop(data.draw(st.integers(0, len(self.open) - 1)))
        self.cache.release(fetch)
        if fetch.left:
            self.take(self.cache.again(fetch), set(fetch.left))

    @invariant()
    def every_expert_has_one_slot_at_most(self) -> None:
        for (_, slot), (layer, expert) in self.content.items():
            assert self.cache.slot(layer, expert) == slot
        assert self.cache.num_held == len(self.content)


TestBooks = Books.TestCase
TestBooks.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def hit_rate(slots: int, *, tokens: int, seed: int, prompt_every: int = 0) -> float:
    """Of decoding with a few layers whose experts are picked by Zipf's law, in another order for each layer."""
    rng, layers, experts, used = np.random.default_rng(seed), 6, 64, 4
    cache = cache_of(slots, layers, experts)
    chance = 1 / np.arange(1, experts + 1)
    chances = [rng.permutation(chance / chance.sum()) for _ in range(layers)]
    before = None
    for token in range(tokens):
        for layer in range(layers):
            run(cache, layer, *rng.choice(experts, used, replace=False, p=chances[layer]))
        if prompt_every and token % prompt_every == prompt_every - 1:
            for layer in range(layers):
                fetch = ask(cache, layer, range(experts), 256, Admission.PASSING, 4)
                while fetch.left:
                    cache.release(fetch)
                    fetch = cache.again(fetch, Admission.PASSING, 4)
                cache.release(fetch)
        if token == tokens // 3:
            before = cache.traffic
    assert before is not None
    hits, misses = cache.traffic.hits - before.hits, cache.traffic.misses - before.misses
    return hits / (hits + misses)


@pytest.mark.parametrize("share", [0.125, 0.25, 0.5])
def test_more_is_hit_than_the_share_of_the_slots(share: float) -> None:
    assert hit_rate(int(6 * 64 * share), tokens=300, seed=1) > share + 0.1


@given(st.integers(0, 5))
@settings(max_examples=3, deadline=None)
def test_larger_caches_hit_more(seed: int) -> None:
    rates = [hit_rate(slots, tokens=120, seed=seed) for slots in (24, 96, 192, 384)]
    assert rates == sorted(rates)
    assert rates[-1] > 0.9


def test_of_what_a_prompt_has_read_the_hottest_stay() -> None:
    cache = cache_of(3, layers=2)
    for expert in (5, 6, 7):
        run(cache, 0, expert)
    fetch = ask(cache, 1, [2] * 60 + [1] * 3, 20, Admission.PASSING, 1)
    while fetch.left:
        cache.release(fetch)
        fetch = cache.again(fetch, Admission.PASSING, 1)
    cache.release(fetch)
    assert cache.slot(1, 2) is not None
    assert sum(cache.slot(0, expert) is not None for expert in (5, 6, 7)) == 1
    run(cache, 0, 4, rows=20, admission=Admission.PASSING)
    assert cache.slot(1, 2) is not None


def test_a_prompt_needs_one_slot_to_pass_through_and_leaves_later_layers_the_rest() -> None:
    cache = cache_of(4, layers=2)
    run(cache, 1, 5, 6, 7)
    fetch = ask(cache, 0, list(range(8)) * 20, 20, Admission.PASSING, 1)
    while fetch.left:
        cache.release(fetch)
        fetch = cache.again(fetch, Admission.PASSING, 1)
    cache.release(fetch)
    assert sum(cache.slot(1, expert) is not None for expert in (5, 6, 7)) == 2


def test_what_is_expected_is_let_in_over_the_coldest_and_goes_last_until_its_layer_picks() -> None:
    cache = cache_of(2, layers=3)
    for _ in range(3):
        run(cache, 0, 1)
    run(cache, 0, 2)
    assert cache.expect(1, 4) == Load(4, 1, (0, 2))
    assert cache.expect(1, 4) is None
    assert cache.expect(2, 4) == Load(4, 0, (0, 1))
    assert cache.expect(2, 5) is None  # they do not drive each other out
    assert run(cache, 0, 3).slots == {3: 1}  # but whoever is needed now does
    cache.pick(2, [3])
    assert cache.expect(1, 6) == Load(6, 0, (2, 4))
