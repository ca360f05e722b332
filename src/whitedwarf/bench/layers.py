"""Where the time of a pass goes: each layer by its kind, the head; and from these, what the whole model would take.

A file with a few layers of a large model fits where the model does not. Layers of one kind (by compression ratio) cost
the same, so a file that has one of each tells the rest: head + sum over kinds of layers x their median.
"""

from collections.abc import Callable, Sequence
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
    """Seconds of one pass's parts: one for each layer, and all that is not a layer."""

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
    def passes(self) -> list[LayerTimes]:
        """One for each pass."""
        steps = np.diff(np.array(self._passes), axis=1).tolist()  # embedding, layers ..., head
        return [LayerTimes(tuple(layers), first + last) for first, *layers, last in steps]


def medians(times: Sequence[LayerTimes]) -> LayerTimes:
    """Part by part."""
    return _combined(median, times)


def totals(times: Sequence[LayerTimes]) -> LayerTimes:
    """Part by part, as the chunks of one prompt add up."""
    return _combined(sum, times)


def scaled(times: LayerTimes, factor: float) -> LayerTimes:
    """Every part of it by a factor, as from a prompt to a token."""
    return LayerTimes(tuple(seconds * factor for seconds in times.layers_s), times.rest_s * factor)


def _combined(how: Callable[[Sequence[float]], float], times: Sequence[LayerTimes]) -> LayerTimes:
    columns = zip(*(one.layers_s for one in times), strict=True)
    return LayerTimes(tuple(how(column) for column in columns), how([one.rest_s for one in times]))


@dataclass(frozen=True, slots=True)
class FullModel:
    """What all layers of the model that this file has some layers of would take and read for one token."""

    name: str
    num_layers: int
    decode_s: float
    prefill_s: float  # for each token of the prompt
    weight_bytes: int
    limit_s: float  # of decode

    @property
    def of_limit(self) -> float:
        """Share of the memory's speed that decode reaches."""
        return self.limit_s / self.decode_s


def full_model(
    hp: Hyperparameters, decode: LayerTimes, prefill: LayerTimes, traffic: LayerTraffic, bytes_per_s: float
) -> FullModel | None:
    """The estimate from times of one token; None for a whole model, another shape, or a file that lacks a kind."""
    for shape in FULL_SHAPES:
        full = model_shape(shape)
        if full.hidden_size != hp.hidden_size or hp.num_layers >= full.num_layers:
            continue
        if not set(full.compress_ratios) <= set(hp.compress_ratios):
            return None
        decode_s, prefill_s = (_all_layers(times, hp, full) for times in (decode, prefill))
        sizes = traffic.by_kind(hp.compress_ratios)
        weight_bytes = traffic.rest_bytes + round(sum(sizes[ratio] for ratio in full.compress_ratios))
        return FullModel(shape, full.num_layers, decode_s, prefill_s, weight_bytes, weight_bytes / bytes_per_s)
    return None


def _all_layers(times: LayerTimes, hp: Hyperparameters, full: Hyperparameters) -> float:
    seconds = times.by_kind(hp.compress_ratios)
    return times.rest_s + sum(seconds[ratio] for ratio in full.compress_ratios)
