"""Which experts the next layers will pick, so that reading them can begin while this one computes.

Layers that are routed by a table are known exactly from the tokens, when a pass begins. Of the others, the router is
asked beforehand, with the input of the layer in front: streams change little from layer to layer. How often that was
right is counted, of the experts that were not in memory; a layer where it mostly is not goes without, and is only tried
from time to time. While nearly everything is in memory nobody is asked at all: that would cost more than it gives.

Of a long prompt, some rows are enough to know experts that one of all its rows will pick: nothing is read in vain.
Knows no bytes: it asks the store to begin.
"""

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
ENOUGH_PRECISION = 0.5  # of the experts that were foreseen, so many must be picked
ENOUGH_LOADS = 0.1  # experts that a layer has to read, on average, for foreseeing to be worth its time
TRY_EVERY = 16  # passes, where it was not precise enough
_NEW_SHARE = 0.1  # of a new observation in a running average


class Readable(Protocol):
    """What of ExpertStore is needed."""

    def lacks(self, layer: int, experts: Sequence[int]) -> list[int]: ...
    def foresee(self, layer: int, experts: Sequence[int]) -> None: ...
    @property
    def cache(self) -> ExpertCache: ...


@dataclass(slots=True)
class Record:
    """How well the experts of one layer were foreseen."""

    precision: float = 0.75
    asked: tuple[int, ...] = ()  # for the pass that runs
    passes: int = 0

    @property
    def is_good(self) -> bool:
        return self.precision >= ENOUGH_PRECISION

    @property
    def is_due(self) -> bool:
        """Whether to look at all: always if it is worth it, else from time to time."""
        return self.is_good or self.passes % TRY_EVERY == 0

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
        record = self.records.setdefault((layer, len(x) > MANY_ROWS), Record())
        record.passes += 1
        if not record.is_due:
            return
        record.asked = tuple(self.store.lacks(layer, self._guessed(router, x, ids))[:MOST_AHEAD])
        if record.is_good:
            self.store.foresee(layer, record.asked)

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
