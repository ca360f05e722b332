"""Which routed experts lie in fast memory, and which of them make room: slots of a card, or of RAM before a disk.

A pure policy with its books: it says what to load where, the caller moves the bytes. Promises that every expert has at
most one slot and every slot at most one expert; that the slots of a fetch are nobody else's until it is released; that
the same calls give the same slots. Experts of different sizes have pools of their own.

An expert is hot by how often it was picked, whether it lay in a slot or not; heat halves every 16 decoded tokens. The
coldest goes first, among equals the one not used for the longest time. A pass over many rows (a prompt) weighs as much
as 16 tokens, so that what is picked afterwards counts again soon. Knows no bytes, no device and no file.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
import numpy.typing as npt

HALF_LIFE_TOKENS = 16
NOBODY = -1
_FEW = 64  # picks that are counted sooner one by one


class Admission(Enum):
    """Which misses of a pass get a slot."""

    ALWAYS = "always"  # every one, while there are slots: somebody waits for it
    HOTTER = "hotter"  # into an empty slot, or over a colder expert: somebody else computes it meanwhile
    PASSING = "passing"  # every one, but the colder go first: each is used once, as in the chunks of a prompt


@dataclass(frozen=True, slots=True)
class Load:
    """An expert to bring into a slot of its pool, and whom it drives out: (layer, expert), None for an empty slot."""

    expert: int
    slot: int
    victim: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Fetch:
    """What becomes of the experts that a layer needs. Its slots are held until it is given back with `release`."""

    layer: int
    hits: Mapping[int, int]  # expert -> slot
    loads: tuple[Load, ...]
    left: tuple[int, ...]  # without a slot now, hottest first: ask for them again after the release, or go elsewhere

    @property
    def slots(self) -> Mapping[int, int]:
        """Every expert that has a slot, once the loads are done."""
        return {**self.hits, **{load.expert: load.slot for load in self.loads}}


@dataclass(slots=True)
class Traffic:
    """Counted since the start. An expert counts once in a layer of a pass, however many rows picked it."""

    hits: int = 0
    misses: int = 0
    loads: int = 0
    loaded_bytes: int = 0
    evictions: int = 0
    passes: int = 0

    @property
    def hit_rate(self) -> float:
        """Of the experts that were needed; 0 before the first."""
        needed = self.hits + self.misses
        return self.hits / needed if needed else 0.0


class ExpertCache:
    """Slots for the experts of layers 0 .. len(layer_bytes) - 1.

    layer_bytes: size of one expert of each layer. pool_slots: how many slots each pool has; layer_pools: which one a
    layer's experts use, by default that of their size.
    """

    def __init__(
        self,
        num_experts: int,
        layer_bytes: Sequence[int],
        pool_slots: Mapping[int, int],
        layer_pools: Sequence[int] | None = None,
    ) -> None:
        self.layer_bytes = tuple(layer_bytes)
        self.layer_pools = self.layer_bytes if layer_pools is None else tuple(layer_pools)
        missing = set(self.layer_pools) - set(pool_slots)
        if missing:
            raise ValueError(f"expected slots for every size of expert, got none for {sorted(missing)}")
        self.num_experts = num_experts
        self.heat = np.zeros((len(layer_bytes), num_experts))
        self.picks = np.zeros((len(layer_bytes), num_experts), np.int64)  # all there ever were, for a profile
        self._traffic = Traffic()
        self._places: dict[tuple[int, int], int] = {}  # (layer, expert) -> slot of the pool of this size
        self._expected: dict[int, list[int]] = {}  # layer -> experts that `expect` let in, until the layer picks
        self._pools = {size: _Pool(count) for size, count in pool_slots.items()}
        self._clock = 0
        self._last_layer = NOBODY
        self._tokens = 0  # since heat was last halved

    def pick(self, layer: int, picked: npt.ArrayLike, num_rows: int = 1) -> tuple[int, ...]:
        """Take into account what `num_rows` rows picked, as often as they did; which experts these are, by number.

        A layer that is not behind the last one begins a new pass.
        """
        self._begin(layer, num_rows)
        self._forget_expectations(layer)
        counts = _counted(picked)
        weight = min(1.0, HALF_LIFE_TOKENS / num_rows)
        for expert, count in counts.items():
            self.picks[layer, expert] += count
            self.heat[layer, expert] += count * weight
            self._warm(layer, expert)
        return tuple(counts)

    def fetch(
        self,
        layer: int,
        experts: Sequence[int],
        admission: Admission = Admission.ALWAYS,
        most_loads: int | None = None,
    ) -> Fetch:
        """Say where these experts are to be, all different: those of a whole pass, or of a part of it."""
        fetch = self._fetch(layer, experts, admission, most_loads)
        self._traffic.hits += len(fetch.hits)
        self._traffic.misses += len(experts) - len(fetch.hits)
        return fetch

    def again(self, fetch: Fetch, admission: Admission = Admission.ALWAYS, most_loads: int | None = None) -> Fetch:
        """The next round: what was left of a fetch, which was released. Nothing is counted twice."""
        return self._fetch(fetch.layer, fetch.left, admission, most_loads)

    def expect(self, layer: int, expert: int) -> Load | None:
        """Let an expert in that will probably be picked next, over the coldest, as if it was; None where there is none.

        Until its layer picks, all others go before it. Counts as a load, not as needed.
        """
        pool = self._pools[self.layer_pools[layer]]
        slot = pool.lowest()
        if slot is None or (layer, expert) in self._places or pool.is_expected[slot]:
            return None
        self._clock += 1
        load = self._put(layer, expert, slot, pool, is_passing=False)
        pool.last_use[slot], pool.is_expected[slot] = self._clock, True
        pool.settle(slot, self.heat)
        self._expected.setdefault(layer, []).append(expert)
        return load

    def release(self, fetch: Fetch) -> None:
        """The work on its slots is done: they may be given away."""
        pool, heat = self._pools[self.layer_pools[fetch.layer]], self.heat
        for slot in fetch.slots.values():
            pool.release(slot, heat)
            if pool.is_passing[slot] and not pool.holders[slot]:
                pool.exchange(slot, heat)

    def preload(self, most: int | None = None) -> tuple[tuple[int, Load], ...]:
        """(layer, load) for the hottest experts that fit into empty slots; they are taken to be there from now on."""
        ranked = np.argsort(-self.heat, axis=None, kind="stable")[: int((self.heat > 0).sum())]
        loads: list[tuple[int, Load]] = []
        for layer, expert in (divmod(int(flat), self.num_experts) for flat in ranked):
            pool = self._pools[self.layer_pools[layer]]
            if (layer, expert) in self._places or (most is not None and len(loads) >= most):
                continue
            slot = pool.lowest()
            if slot is not None and pool.rank[slot] == _EMPTY:
                loads.append((layer, self._put(layer, expert, slot, pool, is_passing=False)))
                pool.settle(slot, self.heat)
        return tuple(loads)

    def slot(self, layer: int, expert: int) -> int | None:
        """Where the expert lies, if it does."""
        return self._places.get((layer, expert))

    def num_slots(self, layer: int) -> int:
        """How many experts of this layer could lie here at a time."""
        return len(self._pools[self.layer_pools[layer]].rank)

    @property
    def num_all_slots(self) -> int:
        """Slots of all sizes."""
        return sum(len(pool.rank) for pool in self._pools.values())

    @property
    def num_held(self) -> int:
        """Experts that have a slot."""
        return len(self._places)

    @property
    def held_bytes(self) -> int:
        """Of the experts that have a slot."""
        return sum(self.layer_bytes[layer] for layer, _ in self._places)

    @property
    def traffic(self) -> Traffic:
        """What was counted so far."""
        return replace(self._traffic)

    def forget(self, layer: int, expert: int) -> None:
        """Its bytes did not arrive: the slot is empty again."""
        slot = self._places.pop((layer, expert), None)
        if slot is not None:
            self._pools[self.layer_pools[layer]].clear(slot)

    def _warm(self, layer: int, expert: int) -> None:
        slot = self._places.get((layer, expert))
        if slot is not None:
            self._pools[self.layer_pools[layer]].settle(slot, self.heat)

    def _forget_expectations(self, layer: int) -> None:
        for expert in self._expected.pop(layer, ()):
            slot = self._places.get((layer, expert))
            if slot is not None:
                pool = self._pools[self.layer_pools[layer]]
                pool.is_expected[slot] = False
                pool.settle(slot, self.heat)

    def _begin(self, layer: int, num_rows: int) -> None:
        if layer <= self._last_layer:
            self._tokens += min(num_rows, HALF_LIFE_TOKENS)
            self._traffic.passes += 1
            if self._tokens >= HALF_LIFE_TOKENS:
                self._tokens -= HALF_LIFE_TOKENS
                self.heat *= 0.5
                for pool in self._pools.values():
                    pool.cool()
        self._last_layer = layer

    def _fetch(self, layer: int, experts: Iterable[int], admission: Admission, most_loads: int | None) -> Fetch:
        self._clock += 1
        pool, heat = self._pools[self.layer_pools[layer]], self.heat[layer]
        hits, missed = {}, []
        for expert in experts:
            slot = self._places.get((layer, expert))
            if slot is None:
                missed.append(expert)
                continue
            hits[expert] = slot
            pool.hold(slot, self._clock)
            pool.is_passing[slot] &= admission is Admission.PASSING  # else it is worth keeping after all
        if not missed:
            return Fetch(layer, hits, (), ())
        missed.sort(key=lambda expert: (-heat[expert], expert))
        loads: list[Load] = []
        for expert in missed[:most_loads]:
            slot = pool.lowest()
            if slot is None or (admission is Admission.HOTTER and pool.rank[slot] >= heat[expert]):
                break
            loads.append(self._put(layer, expert, slot, pool, is_passing=admission is Admission.PASSING))
            pool.hold(slot, self._clock)
        return Fetch(layer, hits, tuple(loads), tuple(missed[len(loads) :]))

    def _put(self, layer: int, expert: int, slot: int, pool: "_Pool", *, is_passing: bool) -> Load:
        victim = pool.owners[slot]
        if victim is not None:
            del self._places[victim]
            self._traffic.evictions += 1
        pool.owners[slot], pool.is_passing[slot] = (layer, expert), is_passing and victim is not None
        pool.is_expected[slot], pool.layers[slot] = False, layer
        self._places[layer, expert] = slot
        self._traffic.loads += 1
        self._traffic.loaded_bytes += self.layer_bytes[layer]
        return Load(expert, slot, victim)


_EMPTY, _PASSING, _EXPECTED, _HELD = -2.0, -1.0, 1e300, np.inf  # ranks beside heat: what is lowest goes first


class _Pool:
    """Slots of one size: who is in them, since when nobody used them, and which of them goes first."""

    def __init__(self, num_slots: int) -> None:
        self.owners: list[tuple[int, int] | None] = [None] * num_slots
        self.is_passing = [False] * num_slots
        self.is_expected = [False] * num_slots
        self.holders = [0] * num_slots
        self.layers = np.zeros(num_slots, np.int32)  # of the owners
        self.last_use = np.zeros(num_slots, np.int64)
        self.rank = np.full(num_slots, _EMPTY)

    def hold(self, slot: int, clock: int) -> None:
        self.holders[slot] += 1
        self.last_use[slot] = clock
        self.rank[slot] = _HELD

    def release(self, slot: int, heat: npt.NDArray[np.float64]) -> None:
        self.holders[slot] -= 1
        self.settle(slot, heat)

    def settle(self, slot: int, heat: npt.NDArray[np.float64]) -> None:
        """Rank it again, after its heat or its owner changed."""
        owner = self.owners[slot]
        if self.holders[slot]:
            self.rank[slot] = _HELD
        elif owner is None:
            self.rank[slot] = _EMPTY
        elif self.is_expected[slot]:
            self.rank[slot] = _EXPECTED
        else:
            self.rank[slot] = _PASSING if self.is_passing[slot] else heat[owner]

    def exchange(self, slot: int, heat: npt.NDArray[np.float64]) -> None:
        """Who passes through may stay for a colder one, who passes then: of the layers that the pass has behind it.

        So a prompt leaves the hottest of all it has read, and drives out nobody whom it still needs itself.
        """
        owner = self.owners[slot]
        if owner is None:
            return
        others = np.where((self.layers <= owner[0]) & (self.rank >= 0), self.rank, _HELD)
        coldest = int(others.argmin())
        if others[coldest] < heat[owner]:
            self.is_passing[slot], self.is_passing[coldest] = False, True
            self.settle(slot, heat)
            self.settle(coldest, heat)

    def cool(self) -> None:
        np.multiply(self.rank, 0.5, out=self.rank, where=self.rank > 0)

    def lowest(self) -> int | None:
        """The slot to give away first; None while all are held."""
        if not len(self.rank):
            return None
        lowest = self.rank.min()
        if lowest == _HELD:
            return None
        among = np.flatnonzero(self.rank == lowest)
        return int(among[self.last_use[among].argmin()])

    def clear(self, slot: int) -> None:
        self.owners[slot], self.is_passing[slot], self.is_expected[slot] = None, False, False
        self.last_use[slot] = 0
        if not self.holders[slot]:
            self.rank[slot] = _EMPTY


def _counted(picked: npt.ArrayLike) -> Mapping[int, int]:
    """How often each expert was picked, in the order of their numbers."""
    flat = np.asarray(picked).reshape(-1)
    if len(flat) <= _FEW:
        few: dict[int, int] = {}
        for expert in sorted(flat.tolist()):
            few[expert] = few.get(expert, 0) + 1
        return few
    counts = np.bincount(flat)
    return {int(expert): int(counts[expert]) for expert in np.flatnonzero(counts)}
