"""The PyTorch backend: weights in their blocks and the rows of sequences on a device, arithmetic in plain torch.

Runs wherever torch does, so it is the truth beside which ops/triton_ops.py, its fast form, is tested on any machine; by
itself it is slow. Keeps the promises of ops/base.py in f32. It asks the device for numbers in the middle of a pass.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from whitedwarf.errors import OutOfMemoryError
from whitedwarf.ops.base import (
    ExpertWeights,
    Groups,
    HyperHeadWeights,
    HyperMix,
    HyperSettings,
    HyperWeights,
    P,
    Pooling,
    RouterWeights,
    RowFormat,
    Rows,
    Visible,
    Weight,
)
from whitedwarf.ops.spans import Pool, SpanRows, Spans, store_of
from whitedwarf.ops.twins import attention, hyper, index, pool, products, route, rows
from whitedwarf.ops.twins.planes import TorchWeight, decode, take_in
from whitedwarf.ops.twins.rows import TorchRows
from whitedwarf.weights.tensors import Tensor as FileTensor

_DTYPES = {np.dtype(np.uint8): torch.uint8, np.dtype(np.float32): torch.float32}


@dataclass(frozen=True, slots=True)
class TorchMemory:
    """Rows as tensors on a device. See ops/spans.py, RowMemory."""

    device: torch.device

    def empty(self, count: int, width: int, dtype: npt.DTypeLike) -> Tensor:
        return torch.empty((count, width), dtype=_DTYPES[np.dtype(dtype)], device=self.device)

    def copy(self, held: Tensor) -> Tensor:
        return held.clone()

    def join(self, first: Tensor, second: Tensor) -> Tensor:
        return torch.cat([first, second])

    def to_host(self, held: Tensor) -> npt.NDArray[Any]:
        if held.device.type == "cuda":  # from pinned memory, which torch keeps for the next time
            pinned = torch.empty(held.shape, dtype=held.dtype, pin_memory=True)
            pinned.copy_(held, non_blocking=True)
            torch.cuda.current_stream(held.device).synchronize()
            held = pinned
        array: npt.NDArray[Any] = held.numpy()
        return array

    def to_device(self, held: npt.NDArray[Any]) -> Tensor:
        return torch.tensor(held, device=self.device)


@dataclass(frozen=True, slots=True)
class TorchSpans:
    """The spans of a pass as they are."""

    parts: tuple[SpanRows, ...]


class TorchOps:
    """The plain torch backend on one device."""

    name = "torch"

    def __init__(self, device: str = "cpu") -> None:
        self.device = torch.device(device)
        self._memory = TorchMemory(self.device)

    def weight(self, tensor: FileTensor) -> Weight:
        with memory_told(self.device, "the weights"):
            return take_in(tensor, self.device)

    def vector(self, tensor: FileTensor) -> Tensor:
        return self.parameter(tensor.floats().astype(np.float32, copy=False))

    def parameter(self, values: npt.NDArray[Any]) -> Tensor:
        return torch.tensor(values, device=self.device)

    def memory(self, layer: int) -> TorchMemory:
        return self._memory

    def arrays(self, *values: npt.NDArray[Any]) -> tuple[Tensor, ...]:
        return tuple(torch.tensor(value, device=self.device) for value in values)

    def host(self, x: Any) -> npt.NDArray[Any]:
        return x if isinstance(x, np.ndarray) else self._memory.to_host(x)

    def visible_rows(self, count: int) -> int:
        return count

    def closing_windows(self, count: int, num_spans: int, num_rows: int) -> int:
        return count

    def passing(self, run: Callable[[P], Any], batch: P) -> Any:
        with memory_told(self.device, "this pass"), current(self.device):
            return run(batch)

    def embed(self, table: Weight, ids: Tensor) -> Tensor:
        return products.embed(own_weight(table), ids)

    def spread(self, x: Tensor, streams: int) -> Tensor:
        return hyper.spread(x, streams)

    def take_rows(self, x: Tensor, chosen: Sequence[int]) -> Tensor:
        return x[torch.tensor(list(chosen), device=x.device)]

    def steer(self, y: Tensor, direction: Tensor, scale: float) -> Tensor:
        return y - scale * (y * direction).sum(dim=1, keepdim=True) * direction

    def linear(self, x: Tensor, weight: Weight) -> Tensor:
        return products.linear(x, own_weight(weight))

    def linears(
        self, x: Tensor, weights: Sequence[Weight], norm: Tensor | None = None, epsilon: float = 0.0
    ) -> list[Tensor]:
        return products.linears(x, [own_weight(weight) for weight in weights], norm, epsilon)

    def grouped_linear(self, x: Tensor, weight: Weight, groups: int) -> Tensor:
        return products.grouped_linear(x, own_weight(weight), groups)

    def grouped_then_linear(self, x: Tensor, first: Weight, groups: int, second: Weight) -> Tensor:
        return self.linear(self.grouped_linear(x, first, groups), second)

    def rms_norm(self, x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        return rows.rms_norm(x, weight, epsilon)

    def hyper_in(self, streams: Tensor, weights: HyperWeights, settings: HyperSettings) -> tuple[Tensor, HyperMix]:
        mixes = hyper.mix_rows(streams, mix_of(weights.mix), settings.rms_epsilon)
        own: Any = weights
        numbers = settings.rms_epsilon, settings.epsilon, settings.iterations
        x, *mix = hyper.hyper_in(streams, mixes, own.base, own.scale, own.norm, *numbers)
        return x, HyperMix(*mix)

    def hyper_out(self, streams: Tensor, output: Tensor, mix: HyperMix) -> Tensor:
        own: Any = mix
        return hyper.hyper_out(streams, output, own.post, own.combination)

    def hyper_out_in(
        self, streams: Tensor, output: Tensor, mix: HyperMix, weights: HyperWeights, settings: HyperSettings
    ) -> tuple[Tensor, Tensor, HyperMix]:
        after = self.hyper_out(streams, output, mix)
        return after, *self.hyper_in(after, weights, settings)

    def hyper_head(self, streams: Tensor, weights: HyperHeadWeights, settings: HyperSettings) -> Tensor:
        mixes = hyper.mix_rows(streams, mix_of(weights.mix), settings.rms_epsilon)
        own: Any = weights
        numbers = settings.rms_epsilon, settings.epsilon
        return hyper.hyper_head(streams, mixes, own.base, own.scale, own.norm, *numbers)

    def query(self, x: Tensor, heads: int, turns: Tensor, epsilon: float) -> Tensor:
        return rows.query(x, heads, turns, epsilon)

    def kv_rows(self, x: Tensor, norm: Tensor, turns: Tensor, epsilon: float, format: RowFormat) -> Tensor:
        return rows.kv_rows(x, norm, turns, epsilon, format)

    def compress(
        self,
        values: Tensor,
        gates: Tensor,
        first: int,
        groups: Groups,
        ape: Tensor,
        norm: Tensor,
        turns: Tensor,
        epsilon: float,
        format: RowFormat,
    ) -> Tensor:
        return pool.compress(values, gates, first, groups, ape, norm, turns, epsilon, format)

    def index_query(self, x: Tensor, heads: int, turns: Tensor, format: RowFormat) -> Tensor:
        return rows.index_query(x, heads, turns, format)

    def index_pick(self, queries: Tensor, weights: Tensor, keys: Rows, counts: Tensor, top: int) -> Tensor:
        return index.index_pick(queries, weights, _rows(keys), counts, top)

    def attention(
        self,
        queries: Tensor,
        window: Rows,
        compressed: Rows | None,
        visible: Visible,
        sinks: Tensor,
        turns: Tensor,
    ) -> Tensor:
        own: Any = visible
        seen = own.positions, own.window, own.counts, own.picked
        pooled = None if compressed is None else _rows(compressed)
        return attention.attention(queries, _rows(window), pooled, *seen, sinks, turns)

    def route(self, x: Tensor, router: RouterWeights, ids: Tensor) -> tuple[Tensor, Tensor]:
        own: Any = router
        numbers = own.num_used, own.scale, own.normalise
        return route.route(self.linear(x, own.gate), own.bias, own.table, ids, *numbers)

    def experts(
        self, x: Tensor, picked: Tensor, shares: Tensor, routed: ExpertWeights, shared: ExpertWeights | None = None
    ) -> Tensor:
        return products.experts(x, picked, shares, block(routed), None if shared is None else block(shared))

    def spans(self, parts: Sequence[SpanRows]) -> Spans:
        return TorchSpans(tuple(parts))

    def pool(
        self, spans: Spans, layer: int, pool: Pool, values: Tensor, gates: Tensor, how: Pooling, turns: Tensor
    ) -> None:
        done = 0
        for part in spans.parts:
            store: Any = store_of(part.state.layers[layer], pool)
            held_values, first = store.values.extend(part.start, values[part.rows])
            held_gates, _ = store.gates.extend(part.start, gates[part.rows])
            groups = Groups(part.start // how.ratio, part.end // how.ratio, how.ratio)
            if (count := groups.end - groups.first) > 0:
                ape: Any = how.ape
                norm: Any = how.norm
                own = ape, norm, turns[done : done + count], how.epsilon, how.format
                store.rows.extend(groups.first, self.compress(held_values, held_gates, first, groups, *own))
                done += count

    def pick(
        self,
        spans: Spans,
        layer: int,
        queries: Tensor,
        weights: Tensor,
        format: RowFormat,
        counts: Tensor,
        most: int,
        top: int,
    ) -> Tensor | None:
        if most <= top:
            return None
        picked = []
        for part in spans.parts:
            store: Any = store_of(part.state.layers[layer], Pool.KEYS)
            seen = counts[part.rows]
            keys = TorchRows(format, store.rows.upto(int(seen.max())))
            picked.append(index.index_pick(queries[part.rows], weights[part.rows], keys, seen, top))
        return torch.cat(picked)

    def attend(
        self,
        spans: Spans,
        layer: int,
        queries: Tensor,
        new_rows: Tensor,
        format: RowFormat,
        visible: Visible,
        sinks: Tensor,
        turns: Tensor,
    ) -> Tensor:
        outputs = []
        for part in spans.parts:
            held: Any = part.state.layers[layer]
            data, first = held.window.extend(part.start, new_rows[part.rows])
            own, pooled = visible.of(part.rows), None
            if own.counts is not None:
                store: Any = store_of(held, Pool.ROWS)
                pooled = Rows(format, store.rows.upto(int(own.counts.max())), 0)
            window = Rows(format, data, first)
            outputs.append(self.attention(queries[part.rows], window, pooled, own, sinks, turns[part.rows]))
        return torch.cat(outputs)

    def decode_rows(self, held: Rows) -> Tensor:
        return rows.decode_rows(_rows(held).data, held.format)


def current(device: torch.device) -> AbstractContextManager[Any]:
    """While it is entered, kernels of this thread are started on this device: each thread begins with the first one."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


@contextmanager
def memory_told(device: torch.device, what: str) -> Iterator[None]:
    """A device that has too little memory for something says so, and what to do."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise OutOfMemoryError(
            f"the memory of {device} does not hold {what}: use a smaller --prefill-chunk, --ctx or --parallel, or stop "
            f"other programs that use the device ({str(error).splitlines()[0]})"
        ) from error


def own_weight(weight: Weight) -> TorchWeight:
    """A weight that this backend made."""
    assert isinstance(weight, TorchWeight)
    return weight


def mix_of(weight: Weight) -> Tensor:
    """The few numbers of a hyper-connection, as they are stored where they are floats."""
    own = own_weight(weight)
    return own.planes[0] if len(own.planes) == 1 else decode(own)


def block(weights: ExpertWeights) -> products.Block:
    """The same as the products take it."""
    return products.Block(own_weight(weights.gate), own_weight(weights.up), own_weight(weights.down), weights.limit)


def _rows(held: Rows) -> TorchRows:
    data: Any = held.data
    return TorchRows(held.format, data, held.first)
