"""A backend that hears which operations a pass calls, so that each can be timed alone with the arguments it had."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from whitedwarf.gguf.hparams import Hyperparameters
from whitedwarf.ops.base import ExpertWeights, HyperHeadWeights, HyperWeights, RouterWeights
from whitedwarf.ops.twins.planes import TorchWeight

_HEARD = """
    embed spread linear linears grouped_linear grouped_then_linear rms_norm hyper_in hyper_out hyper_out_in
    hyper_head query kv_rows index_query route experts pool pick attend
"""
HEARD = frozenset(_HEARD.split())
IN_LAYERS = frozenset({"pool", "pick", "attend"})  # (spans, layer, ...)


@dataclass(frozen=True)
class Call:
    """One operation of a pass."""

    name: str
    operation: Any
    arguments: tuple[Any, ...]
    named: dict[str, Any]
    firsts: tuple[tuple[Any, int], ...] = ()  # sliding rows it puts something into, and where they began before it

    @classmethod
    def of(cls, name: str, operation: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> "Call":
        return cls(name, operation, arguments, named, tuple(_firsts(arguments)) if name in IN_LAYERS else ())

    def __call__(self) -> Any:
        for rows, first in self.firsts:
            rows.first = first  # as if what it puts there had not come yet
        return self.operation(*self.arguments, **self.named)

    def label(self, hp: Hyperparameters) -> str:
        """What is alike: the operation, and the shapes of its weights or the kind of its layer."""
        if self.name in IN_LAYERS:
            pool = f" {self.arguments[2].name.lower()}" if self.name == "pool" else ""
            return f"{self.name}{pool} ratio {hp.compress_ratios[self.arguments[1]]}"
        shapes = [f"{w.type.name} {'x'.join(map(str, w.shape))}" for w in self.weights]
        return " ".join([self.name, *(shapes if len(shapes) < 3 else [*shapes[:1], f"and {len(shapes) - 1} more"])])

    @property
    def weights(self) -> list[TorchWeight]:
        return list(_weights([*self.arguments, *self.named.values()]))

    @property
    def rows(self) -> int:
        return max((len(x) for x in self.arguments if isinstance(x, torch.Tensor) and x.dim() > 1), default=0)

    def weight_bytes(self) -> int:
        """Of the weights it must read: of routed experts those that are picked, of the embedding the rows."""
        if self.name == "embed":
            table = self.arguments[0]
            return table.size_bytes // table.shape[0] * len(self.arguments[1])
        total = 0
        for weight in self.weights:
            is_stack = len(weight.shape) == 3
            used = len(torch.unique(self.arguments[1])) / weight.shape[0] if is_stack else 1
            total += round(weight.size_bytes * used)
        return total

    def array_bytes(self, hp: Hyperparameters) -> int:
        """Of the arrays it is given, and of each stored row that it must look at, once."""
        given = sum(x.nbytes for x in self.arguments if isinstance(x, torch.Tensor))
        return given + (self._stored_bytes(hp) if self.name in ("pick", "attend") else 0)

    def _stored_bytes(self, hp: Hyperparameters) -> int:
        ratio, format = hp.compress_ratios[self.arguments[1]], self.arguments[4]
        total = 0
        for part in self.arguments[0].parts:
            count = part.end // ratio if ratio else 0
            if self.name == "attend":
                picked = self.arguments[5].picked
                count = count if picked is None or part.num_tokens > 1 else min(count, picked.shape[1])
                count += min(part.end, hp.sliding_window + part.num_tokens)
            total += count * format.row_bytes
        return total

    def operations(self) -> int:
        """Multiplications and additions with weights."""
        total = 0
        for weight in self.weights:
            each = weight.shape[-1] * weight.shape[-2]
            total += 2 * each * (self.arguments[1].numel() if len(weight.shape) == 3 else self.rows)
        return 0 if self.name == "embed" else total


@dataclass
class Heard:
    """What was heard: some calls of each label, and how many there were."""

    hp: Hyperparameters
    most: int
    calls: dict[str, list[Call]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def add(self, call: Call) -> None:
        label = call.label(self.hp)
        self.counts[label] = self.counts.get(label, 0) + 1
        if len(kept := self.calls.setdefault(label, [])) < self.most:
            kept.append(call)


class ListeningOps:
    """Wraps a backend. Silent, it is the backend itself but for one look-up."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._heard: Heard | None = None

    def __getattr__(self, name: str) -> Any:
        operation = getattr(self._inner, name)
        if self._heard is None or name not in HEARD:
            return operation
        return lambda *arguments, **named: self._hear(Call.of(name, operation, arguments, named))

    def passing(self, run: Any, batch: Any) -> Any:
        """While it is listened to, no pass is a recording."""
        return self._inner.passing(run, batch) if self._heard is None else run(batch)

    @contextmanager
    def listen(self, hp: Hyperparameters, most: int) -> Iterator[Heard]:
        """At most so many calls of each label are kept, with their arguments."""
        heard = self._heard = Heard(hp, most)
        try:
            yield heard
        finally:
            self._heard = None

    def _hear(self, call: Call) -> Any:
        assert self._heard is not None
        self._heard.add(call)
        return call()


def _firsts(arguments: tuple[Any, ...]) -> Iterator[tuple[Any, int]]:
    for part in arguments[0].parts:
        layer = part.state.layers[arguments[1]]
        for store in (layer.compressor, layer.indexer):
            if store is not None:
                yield store.values, store.values.first
                yield store.gates, store.gates.first
        yield layer.window, layer.window.first


def _weights(values: Any) -> Iterator[TorchWeight]:
    for value in values:
        match value:
            case TorchWeight():
                yield value
            case HyperWeights() | HyperHeadWeights():
                yield from _weights([value.mix])
            case RouterWeights():
                yield from _weights([value.gate])
            case ExpertWeights():
                yield from _weights([value.gate, value.up, value.down])
            case list() | tuple():
                yield from _weights(value)
