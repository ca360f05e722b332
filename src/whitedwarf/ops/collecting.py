"""A backend that looks on: what every weight is multiplied with goes into Moments, and nothing else changes.

Promises: results are the wrapped backend's own, bit for bit. What the backend keeps inside its fused operations - the
middle of the experts - is worked out once more beside it, with the same weights and the same rounding of inputs.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from whitedwarf.ops.base import ExpertWeights, FloatArray, IntArray, Ops, Weight
from whitedwarf.ops.moments import Moments
from whitedwarf.weights.tensors import Tensor

Pairs = npt.NDArray[np.intp]  # token * slots + slot


@dataclass(frozen=True, slots=True)
class Known:
    """A weight with the name it has in files and, where it is one, the tensor with all experts."""

    weight: Weight  # held, so that its id stays its own
    tensor: Tensor
    experts: tuple[Weight, ...]  # each alone


class CollectingOps:
    """Wraps any backend; `moments` is what was seen. `is_dense`: also the weights that are not routed experts.

    Weights that are multiplied with the same rows in one operation share what is noted: it stands under the name of the
    first, as gate's does for gate and up.
    """

    def __init__(self, inner: Ops, *, is_dense: bool = False, threads: int = 1) -> None:
        self.moments = Moments()
        self._inner = inner
        self._is_dense = is_dense
        self._known: dict[int, Known] = {}
        self._workers = ThreadPoolExecutor(threads, "moments")

    @classmethod
    def around(cls, inner: Ops, *, is_dense: bool = False, threads: int = 1) -> tuple["CollectingOps", Ops]:
        """The collector, and itself as a backend."""
        collector = cls(inner, is_dense=is_dense, threads=threads)
        return collector, cast(Ops, collector)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)  # all that is not below is the backend's own

    def weight(self, tensor: Tensor) -> Weight:
        weight = self._inner.weight(tensor)
        singles = tuple(map(self._inner.weight, _experts_of(tensor))) if len(tensor.shape) == 3 else ()
        self._known[id(weight)] = Known(weight, tensor, singles)
        return weight

    def linear(self, x: FloatArray, weight: Weight) -> FloatArray:
        self._note_dense(x, weight)
        return self._inner.linear(x, weight)

    def linears(
        self, x: FloatArray, weights: Sequence[Weight], norm: FloatArray | None = None, epsilon: float = 0.0
    ) -> list[FloatArray]:
        if self._is_dense:
            self._note_dense(x if norm is None else self._inner.rms_norm(x, norm, epsilon), weights[0])
        return self._inner.linears(x, weights, norm, epsilon)

    def grouped_then_linear(self, x: FloatArray, first: Weight, groups: int, second: Weight) -> FloatArray:
        if self._is_dense:
            self._note_dense(x.reshape(len(x) * groups, -1), first)
            self._note_dense(self._inner.grouped_linear(x, first, groups), second)
        return self._inner.grouped_then_linear(x, first, groups, second)

    def experts(
        self,
        x: FloatArray,
        experts: IntArray,
        weights: FloatArray,
        routed: ExpertWeights,
        shared: ExpertWeights | None = None,
    ) -> FloatArray:
        self._note_routed(x, experts, weights, routed)
        if shared is not None and self._is_dense:
            self._note_dense(x, shared.gate)
            gate, up = self._inner.linears(x, (shared.gate, shared.up))
            self._note_dense(swiglu(gate, up, shared.limit), shared.down)
        return self._inner.experts(x, experts, weights, routed, shared)

    def _note_routed(self, x: FloatArray, experts: IntArray, weights: FloatArray, routed: ExpertWeights) -> None:
        gate, up, down = (self._known[id(weight)] for weight in (routed.gate, routed.up, routed.down))
        for known in (gate, down):
            self.moments.declare(known.tensor.name, known.tensor.shape[0], known.tensor.shape[2])
        slots = experts.shape[1]
        flat_weights = np.asarray(weights).reshape(-1)

        def look(expert: int, pairs: Pairs, rows: FloatArray, products: list[FloatArray]) -> None:
            self.moments.add(gate.tensor.name, expert, rows)
            of_gate, of_up = products
            middle = swiglu(of_gate, of_up, routed.limit) * flat_weights[pairs, None]
            self.moments.add(down.tensor.name, expert, middle)

        with self._finished() as work:
            for expert, pairs in by_expert(experts):
                rows = x[pairs // slots]
                products = self._inner.linears(rows, (gate.experts[expert], up.experts[expert]))
                work(look, expert, pairs, rows, products)

    def _note_dense(self, x: FloatArray, weight: Weight) -> None:
        if self._is_dense:
            name = self._known[id(weight)].tensor.name
            self.moments.declare(name, 1, x.shape[1])
            self.moments.add(name, 0, x)

    @contextlib.contextmanager
    def _finished(self) -> Iterator[Callable[..., None]]:
        """A way to hand work to the threads; all of it is done at the end, also when we are interrupted."""
        futures: list[Future[None]] = []
        try:
            yield lambda task, *arguments: futures.append(self._workers.submit(task, *arguments))
        finally:
            wait(futures)
        for future in futures:
            future.result()


def by_expert(experts: IntArray) -> Iterator[tuple[int, Pairs]]:
    """Each expert that was picked with its pairs, ascending; experts (n, k)."""
    flat = experts.reshape(-1)
    order = np.argsort(flat, kind="stable")
    starts = np.flatnonzero(np.diff(flat[order], prepend=-1))
    for pairs in np.split(order, starts[1:]):
        if len(pairs):
            yield int(flat[pairs[0]]), pairs


def swiglu(gate: FloatArray, up: FloatArray, limit: float) -> FloatArray:
    """(n, F) each -> silu(gate) * up, with gate clamped above and up on both sides (2.6)."""
    gate = np.minimum(gate, limit)
    with np.errstate(over="ignore"):  # e^90 is infinite in float32: silu is 0 there
        return np.asarray(gate / (1 + np.exp(-gate)) * np.clip(up, -limit, limit), gate.dtype)


def _experts_of(tensor: Tensor) -> Iterator[Tensor]:
    count, *shape = tensor.shape
    size = len(tensor.data) // count
    for expert in range(count):
        yield replace(tensor, shape=tuple(shape), data=tensor.data[expert * size : (expert + 1) * size])
