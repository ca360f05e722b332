"""Which experts every token of a decode picked, and how often caches of several sizes would have had them.

The trace is taken by looking at the router's results; the caches are the very policy that streaming uses
(weights/expert_cache.py), played over the trace. Knows no bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from whitedwarf.ops.base import Ops, RouterWeights
from whitedwarf.weights.expert_cache import ExpertCache

SHARES = tuple(percent / 100 for percent in range(10, 101, 10))

Picks = npt.NDArray[np.int32]  # (tokens, layers, experts used)


class PickRecorder:
    """Wraps a backend and remembers what passes of one row picked."""

    def __init__(self, inner: Ops) -> None:
        self._inner = inner
        self._layers: dict[int, int] = {}  # of a router -> its place among the layers
        self._rows: list[list[Picks]] = []
        self._kept: list[RouterWeights] = []  # so that no other object gets their ids

    @classmethod
    def around(cls, inner: Ops) -> tuple["PickRecorder", Ops]:
        """Itself, and itself as a backend."""
        recorder = cls(inner)
        return recorder, cast(Ops, recorder)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def route(self, x: Any, router: RouterWeights, ids: Any) -> Any:
        """The backend's answer, written down."""
        experts, weights = self._inner.route(x, router, ids)
        if len(experts) == 1:
            layer = self._layers.get(id(router))
            if layer is None:
                layer = self._layers[id(router)] = len(self._layers)
                self._kept.append(router)
            if layer == 0:
                self._rows.append([])
            if self._rows:
                self._rows[-1].append(np.array(cast(Any, self._inner).host(experts)[0], np.int32))
        return experts, weights

    @property
    def picks(self) -> Picks:
        """(tokens, layers, experts used) of all whole passes of one row so far."""
        whole = [row for row in self._rows if len(row) == len(self._layers)]
        return np.array(whole, np.int32) if whole else np.zeros((0, 0, 0), np.int32)


@dataclass(frozen=True, slots=True)
class HitRate:
    """Of a cache with slots for this share of all experts."""

    share: float
    slots: int
    hit_rate: float


def hit_rates(picks: Picks, num_experts: int, shares: Sequence[float] = SHARES) -> list[HitRate]:
    """One for each share, over the second half of the tokens; the first half fills the cache.

    An expert's first pick of all is not counted: no cache has it, and in a longer run there would have been one before.
    """
    num_layers, num_used = picks.shape[1:]
    everybody = num_layers * num_experts
    found = []
    for share in shares:
        slots = max(num_used, round(share * everybody))
        hits, needed = _played(ExpertCache(num_experts, [1] * num_layers, {1: slots}), picks)
        found.append(HitRate(share, slots, hits / max(1, needed)))
    return found


def _played(cache: ExpertCache, picks: Picks) -> tuple[int, int]:
    """How often an expert was there in the second half, and how often it was needed again."""
    hits = needed = 0
    for number, row in enumerate(picks):
        for layer, experts in enumerate(row):
            known = cache.picks[layer, experts] > 0
            fetch = cache.fetch(layer, cache.pick(layer, experts))
            cache.release(fetch)
            if number >= len(picks) // 2:
                hits += len(fetch.hits)
                needed += int(known.sum())
    return hits, needed
