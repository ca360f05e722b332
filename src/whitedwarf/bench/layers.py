"""Where the time of a pass goes: each layer by its kind, the head; and from these, what the whole model would take.

A file with a few layers of a large model fits where the model does not. Layers of one kind (by compression ratio) cost
the same, so a file that has one of each tells the rest: head + sum over kinds of layers x their median.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import mean, median
from time import perf_counter

import numpy as np

from whitedwarf.bench.traffic import LayerTraffic
from whitedwarf.gguf.hparams import Hyperparameters
from whitedwarf.gguf.synth_shapes import ModelShape, model_shape

KIND_NAMES = {0: "sliding", 4: "CSA", 128: "HCA"}
FULL_SHAPES: tuple[ModelShape, ...] = ("flash", "pro")


@dataclass(frozen=True, slots=True)
class LayerTimes:
    """Median seconds of one pass's parts: one for each layer, and all that is not a layer."""

    layers_s: tuple[float, ...]
    rest_s: float

    def by_kind(self, ratios: Sequence[int]) -> dict[int, float]:
        """Mean of the layers of each compression ratio."""
        pairs = list(zip(ratios, self.layers_s, strict=True))
        return {kind: mean(s for ratio, s in pairs if ratio == kind) for kind in sorted(set(ratios))}


@dataclass(slots=True)
class LayerClock:
    """An observer of passes (model/batch.py) that notes when each layer begins. `begin` and `end` frame a pass."""

    _moments: list[float] = field(default_factory=list)
    _passes: list[list[float]] = field(default_factory=list)

    def begin(self) -> None:
        self._moments = [perf_counter()]

    def __call__(self, name: str, layer: int, rows: np.ndarray) -> None:
        if name == "streams":
            self._moments.append(perf_counter())

    def end(self) -> None:
        self._passes.append([*self._moments, perf_counter()])

    @property
    def times(self) -> LayerTimes:
        """Medians over the passes."""
        steps = np.diff(np.array(self._passes), axis=1)  # embedding, layers ..., head
        layers_s = tuple(float(median(column)) for column in steps[:, 1:-1].T)
        return LayerTimes(layers_s, float(median(steps[:, 0] + steps[:, -1])))


@dataclass(frozen=True, slots=True)
class FullModel:
    """What all layers of the model that this file has some layers of would take and read for one token."""

    name: str
    num_layers: int
    decode_s: float
    weight_bytes: int
    limit_s: float

    @property
    def of_limit(self) -> float:
        """Share of the memory's speed."""
        return self.limit_s / self.decode_s


def full_model(hp: Hyperparameters, times: LayerTimes, traffic: LayerTraffic, bytes_per_s: float) -> FullModel | None:
    """The estimate; None for a whole model, for another shape, and where a kind of layer is missing in the file."""
    for shape in FULL_SHAPES:
        full = model_shape(shape)
        if full.hidden_size != hp.hidden_size or hp.num_layers >= full.num_layers:
            continue
        if not set(full.compress_ratios) <= set(hp.compress_ratios):
            return None
        seconds, sizes = times.by_kind(hp.compress_ratios), traffic.by_kind(hp.compress_ratios)
        decode_s = times.rest_s + sum(seconds[ratio] for ratio in full.compress_ratios)
        weight_bytes = traffic.rest_bytes + round(sum(sizes[ratio] for ratio in full.compress_ratios))
        return FullModel(shape, full.num_layers, decode_s, weight_bytes, weight_bytes / bytes_per_s)
    return None
