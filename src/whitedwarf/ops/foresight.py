"""Which experts the next layers will pick, so that reading them can begin while this one computes.

Layers that are routed by a table are known exactly from the tokens, when a pass begins. Of the others, the router is
asked beforehand, with the input of the layer in front: streams change little from layer to layer. How often that was
right is counted, of the experts that were not in memory; only so many are read, the likeliest. What is read in vain
takes the disk's time, and what is read early saves ours: a layer goes without, and is only tried from time to time,
where fewer are right than is the share of the time that we wait for the disk. While nearly everything is in memory
nobody is asked at all: that would cost more than it gives.

Of a long prompt, some rows are enough to know experts that one of all its rows will pick: nothing is read in vain.
Knows no bytes: it asks the store to begin.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from whitedwarf.ops.base import FloatArray, IntArray, RouterWeights
from whitedwarf.weights.expert_cache import HALF_LIFE_TOKENS, ExpertCache

Route = Callable[[FloatArray, RouterWeights, IntArray], tuple[IntArray, FloatArray]]

MANY_ROWS = HALF_LIFE_TOKENS  # more of them are a prompt
SAMPLED_ROWS = 32  # of a prompt
SURE_PICKS = 2  # of the sampled rows
MOST_AHEAD = 12  # experts whose reading may begin for a layer
LEAST_PRECISION, MOST_PRECISION = 0.3, 0.9  # that are asked of a layer, whatever the share of waiting
ENOUGH_LOADS = 0.1  # experts that a layer has to read, on average, for foreseeing to be worth its time
TRY_EVERY = 16  # passes, where it was not precise enough
_NEW_SHARE = 0.1  # of a new observation in a running average


@dataclass(slots=True)
class Clock:
    """How long we waited for the disk, and how long we did not."""

    waited_s: float = 0.0
    worked_s: float = 0.0
    _last_s: float = 0.0

    def working(self, *, is_new: bool = False) -> None:
        """Until now; `is_new`: since when nobody knows, as nothing ran."""
        now_s = time.perf_counter()
        if not is_new:
            self.worked_s += now_s - self._last_s
        self._last_s = now_s

    def waiting(self) -> None:
        """Until now."""
        now_s = time.perf_counter()
        self.waited_s += now_s - self._last_s
        self._last_s = now_s

    def read(self) -> tuple[float, float]:
        """Waited and worked since the last time it was read."""
        read = self.waited_s, self.worked_s
        self.waited_s = self.worked_s = 0.0
        return read


class Readable(Protocol):
    """What of ExpertStore is needed."""

    def lacks(self, layer: int, experts: Sequence[int]) -> list[int]: ...
    def foresee(self, layer: int, experts: Sequence[int]) -> None: ...
    @property
    def cache(self) -> ExpertCache: ...


@dataclass(slots=True)
class Record:
    """How well the experts of one layer were foreseen."""

    precision: float
    asked: tuple[int, ...] = ()  # for the pass that runs
    passes: int = 0

    def is_due(self, enough: float) -> bool:
        """Whether to look at all: always if it is worth it, else from time to time."""
        return self.precision >= enough or self.passes % TRY_EVERY == 0

    @property
    def likeliest(self) -> tuple[int, ...]:
        """As many as will mostly be right."""
        return self.asked[: max(1, round(self.precision * len(self.asked)))]

    def judge(self, picked: set[int]) -> None:
        """Compare with what was picked."""
        if self.asked:
            right = sum(expert in picked for expert in self.asked) / len(self.asked)
            self.precision += _NEW_SHARE * (right - self.precision)
            self.asked = ()


@dataclass(slots=True)
class Foresight:
    """For a store, by its layers' numbers in the model."""

    store: Readable
    route: Route
    layers: Sequence[int]  # those with experts, ascending
    routers: dict[int, RouterWeights] = field(default_factory=dict)  # as they were met
    records: dict[tuple[int, bool], Record] = field(default_factory=dict)  # of a layer, in prompts and elsewhere
    loads_per_layer: float = 1.0  # at most one
    waiting: float = 0.5  # the share of the time
    _loads_before: int | None = None

    def learn(self, layer: int, router: RouterWeights) -> None:
        """A layer's router was met."""
        self.routers[layer] = router

    def begin(self, ids: IntArray) -> None:
        """A pass over these tokens begins: what tables say, of the layers in front."""
        before, self._loads_before = self._loads_before, self.store.cache.traffic.loads
        if before is not None:
            loads = min(1.0, (self._loads_before - before) / len(self.layers))
            self.loads_per_layer += _NEW_SHARE * (loads - self.loads_per_layer)
        for layer in self.layers:
            router = self.routers.get(layer)
            if router is None or router.table is None:
                return
            self.store.foresee(layer, _named(router.table, ids))

    def look_ahead(self, layer: int, x: FloatArray, ids: IntArray) -> None:
        """This layer computes, with x (n, D): begin to read what the next one will pick."""
        layer += 1
        router = self.routers.get(layer)
        if router is None or self.loads_per_layer < ENOUGH_LOADS:
            return
        if router.table is not None:
            self.store.foresee(layer, _named(router.table, ids))
            return
        is_prompt = len(x) > MANY_ROWS
        record = self.records.setdefault((layer, is_prompt), Record(1.0 if is_prompt else 0.75))
        record.passes += 1
        if not record.is_due(self.enough_precision):
            return
        record.asked = tuple(self.store.lacks(layer, self._guessed(router, x, ids))[:MOST_AHEAD])
        if record.precision >= self.enough_precision:
            self.store.foresee(layer, record.likeliest)

    @property
    def enough_precision(self) -> float:
        """Of the experts that were foreseen for a layer, so many must be picked."""
        return min(MOST_PRECISION, max(LEAST_PRECISION, self.waiting))

    def spent(self, waited_s: float, worked_s: float) -> None:
        """In a layer of a pass: waiting for the disk, and otherwise."""
        if waited_s + worked_s > 0:
            self.waiting += _NEW_SHARE / 4 * (waited_s / (waited_s + worked_s) - self.waiting)

    def judge(self, layer: int, picked: set[int], num_rows: int) -> None:
        """What this layer picked in the end."""
        record = self.records.get((layer, num_rows > MANY_ROWS))
        if record is not None:
            record.judge(picked)

    def _guessed(self, router: RouterWeights, x: FloatArray, ids: IntArray) -> list[int]:
        """The likeliest first; of a prompt, those that are sure, in the order in which they will be needed."""
        if len(x) <= MANY_ROWS:
            experts, weights = self.route(x, router, ids)
            order = np.argsort(-weights, axis=None, kind="stable")
            return list(dict.fromkeys(experts.reshape(-1)[order].tolist()))
        rows = np.linspace(0, len(x) - 1, SAMPLED_ROWS).astype(np.intp)
        experts, _ = self.route(np.ascontiguousarray(x[rows]), replace(router, table=None), ids[rows])
        return np.flatnonzero(np.bincount(experts.reshape(-1)) >= SURE_PICKS).tolist()


def _named(table: IntArray, ids: IntArray) -> list[int]:
    """The experts of these tokens, ascending."""
    if len(ids) <= MANY_ROWS:
        return sorted(set(table[ids].reshape(-1).tolist()))
    return [int(expert) for expert in np.unique(table[ids])]
