"""The Triton backend: ops/torch_ops.py with a kernel in the place of each of its operations, for CUDA and ROCm devices.

Keeps the promises of ops/base.py, with the tolerances given there: few rows are multiplied in f32, many on tensor cores
in bf16. No operation asks the device for a number, so a decode pass can be recorded (ops/graphs.py) and is then started
as one; a kernel finds the rows of sequences by their addresses (ops/triton/span_table.py).
Without a device it runs in Triton's interpreter, very slowly: for tests.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from whitedwarf.ops.arena import Arena
from whitedwarf.ops.base import (
    ExpertWeights,
    HyperHeadWeights,
    HyperMix,
    HyperSettings,
    HyperWeights,
    P,
    Pooling,
    RouterWeights,
    RowFormat,
    Visible,
    Weight,
)
from whitedwarf.ops.graphs import CudaGraphs, Recorder, bucket, closing_windows
from whitedwarf.ops.spans import SLACK_ROWS, NewestRows, Pool, PooledStore, SpanRows, Spans, Stores, store_of
from whitedwarf.ops.torch_ops import TorchOps, block, mix_of, own_weight
from whitedwarf.ops.triton import hyper, products, rows
from whitedwarf.ops.triton.attend import attend
from whitedwarf.ops.triton.pick import pick
from whitedwarf.ops.triton.pool import pool
from whitedwarf.ops.triton.route import route
from whitedwarf.ops.triton.span_table import KEY_VALUES, NUM_STORES, ROW_VALUES, WINDOW, SpanTable

Addresses = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TritonSpans:
    """The spans of a pass, and where their rows lie."""

    parts: tuple[SpanRows, ...]
    table: SpanTable
    long_parts: tuple[SpanRows, ...]  # of more rows than buffers have slack: stored by the host


class TritonOps(TorchOps):
    """The Triton backend on one device. `records`: whether decode passes are recorded, where the device can."""

    def __init__(self, device: str = "cuda", records: bool = True) -> None:
        super().__init__(device)
        self.arena = Arena(self.device)
        is_gpu = self.device.type == "cuda"
        self.recorder = Recorder(self.arena, CudaGraphs(self.device) if is_gpu and records else None)
        self.name = ("rocm" if torch.version.hip else "cuda") if is_gpu else "triton"

    def arrays(self, *values: npt.NDArray[Any]) -> tuple[Tensor, ...]:
        return self.arena.place("arrays", values, len(values[0]))

    def visible_rows(self, count: int) -> int:
        return bucket(count)

    def closing_windows(self, count: int, num_spans: int, num_rows: int) -> int:
        return closing_windows(count, num_spans, num_rows)

    def passing(self, run: Callable[[P], Any], batch: P) -> Any:
        return super().passing(lambda batch: self.recorder.passing(run, batch), batch)

    def embed(self, table: Weight, ids: Tensor) -> Tensor:
        return products.embed(own_weight(table), ids)

    def linear(self, x: Tensor, weight: Weight) -> Tensor:
        return products.linear(x, own_weight(weight))

    def linears(
        self, x: Tensor, weights: Sequence[Weight], norm: Tensor | None = None, epsilon: float = 0.0
    ) -> list[Tensor]:
        return products.linears(x, [own_weight(weight) for weight in weights], norm, epsilon)

    def grouped_linear(self, x: Tensor, weight: Weight, groups: int) -> Tensor:
        return products.grouped_linear(x, own_weight(weight), groups)

    def hyper_in(self, streams: Tensor, weights: HyperWeights, settings: HyperSettings) -> tuple[Tensor, HyperMix]:
        own = _any(weights)
        numbers = settings.rms_epsilon, settings.epsilon, settings.iterations
        x, *mix = hyper.hyper_in(streams, mix_of(own.mix), own.base, own.scale, own.norm, *numbers)
        return x, HyperMix(*mix)

    def hyper_out(self, streams: Tensor, output: Tensor, mix: HyperMix) -> Tensor:
        own = _any(mix)
        return hyper.hyper_out(streams, output, own.post, own.combination)

    def hyper_out_in(
        self, streams: Tensor, output: Tensor, mix: HyperMix, weights: HyperWeights, settings: HyperSettings
    ) -> tuple[Tensor, Tensor, HyperMix]:
        before, own = _any(mix), _any(weights)
        vectors = mix_of(own.mix), own.base, own.scale, own.norm
        numbers = settings.rms_epsilon, settings.epsilon, settings.iterations
        x, *after = hyper.hyper_out_in(streams, output, before.post, before.combination, *vectors, *numbers)
        return streams, x, HyperMix(*after)

    def hyper_head(self, streams: Tensor, weights: HyperHeadWeights, settings: HyperSettings) -> Tensor:
        own = _any(weights)
        numbers = settings.rms_epsilon, settings.epsilon
        return hyper.hyper_head(streams, mix_of(own.mix), own.base, own.scale, own.norm, *numbers)

    def query(self, x: Tensor, heads: int, turns: Tensor, epsilon: float) -> Tensor:
        return rows.query(x, heads, turns, epsilon)

    def kv_rows(self, x: Tensor, norm: Tensor, turns: Tensor, epsilon: float, format: RowFormat) -> Tensor:
        return rows.kv_rows(x, norm, turns, epsilon, format)

    def index_query(self, x: Tensor, heads: int, turns: Tensor, format: RowFormat) -> Tensor:
        return rows.index_query(x, heads, turns, format)

    def route(self, x: Tensor, router: RouterWeights, ids: Tensor) -> tuple[Tensor, Tensor]:
        own: Any = router
        numbers = own.num_used, own.scale, own.normalise
        return route(x, mix_of(own.gate), own.bias, own.table, ids, *numbers)

    def experts(
        self, x: Tensor, picked: Tensor, shares: Tensor, routed: ExpertWeights, shared: ExpertWeights | None = None
    ) -> Tensor:
        return products.experts(x, picked, shares, block(routed), None if shared is None else block(shared))

    def spans(self, parts: Sequence[SpanRows]) -> Spans:
        long_parts = tuple(part for part in parts if part.num_tokens > SLACK_ROWS)
        return TritonSpans(tuple(parts), self._table(parts), long_parts)

    def pool(
        self, spans: Spans, layer: int, which: Pool, values: Tensor, gates: Tensor, how: Pooling, turns: Tensor
    ) -> None:
        own, how_so = _own(spans), _any(how)
        first = ROW_VALUES if which is Pool.ROWS else KEY_VALUES
        vectors = how_so.ape, how_so.norm, turns
        pool(own.table, layer, first, values, gates, *vectors, how.epsilon, how.ratio, how.format)
        for part in own.long_parts:
            store = store_of(part.state.layers[layer], which)
            store.values.extend(part.start, _any(values[part.rows]))
            store.gates.extend(part.start, _any(gates[part.rows]))

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
        return pick(_own(spans).table, layer, queries, weights, format, counts, most, top) if most > top else None

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
        own, seen = _own(spans), _any(visible)
        visibles = seen.positions, seen.window, seen.counts, seen.picked, seen.most
        out = attend(own.table, layer, queries, new_rows, format, *visibles, sinks, turns)
        for part in own.long_parts:
            part.state.layers[layer].window.extend(part.start, _any(new_rows[part.rows]))
        return out

    def _table(self, parts: Sequence[SpanRows]) -> SpanTable:
        starts = np.array([part.start for part in parts], np.int32)
        lengths = np.array([part.num_tokens for part in parts], np.int32)
        row_starts = np.concatenate([np.zeros(1, np.int32), np.cumsum(lengths, dtype=np.int32)])
        span_of_row = np.repeat(np.arange(len(parts), dtype=np.int32), lengths)
        ratios = sorted({ratio for ratio in parts[0].state.ratios if ratio})
        closed = [_closed_before(starts, lengths, ratio) for ratio in ratios]
        fresh = np.where(lengths > SLACK_ROWS, starts, starts + lengths)
        bases = np.stack([_addresses(part.state) for part in parts], axis=-1)
        num_rows = int(row_starts[-1])
        numbers = starts, row_starts, span_of_row, bases, fresh
        tables = self.arena.place("spans", (*numbers, *closed), num_rows)
        return SpanTable(
            starts=tables[0],
            row_starts=tables[1],
            span_of_row=tables[2],
            bases=tables[3],
            fresh=tables[4],
            closed=dict(zip(ratios, tables[5:], strict=True)),
            num_spans=len(parts),
            num_rows=num_rows,
            is_decode=num_rows == len(parts),
            longest=int(lengths.max()),
        )


def _own(spans: Spans) -> TritonSpans:
    assert isinstance(spans, TritonSpans)
    return spans


def _any(value: Any) -> Any:
    """What the protocol calls numpy's arrays are tensors here."""
    return value


def _closed_before(starts: npt.NDArray[np.int32], lengths: npt.NDArray[np.int32], ratio: int) -> npt.NDArray[np.int32]:
    """(spans + 1,): windows that close in the pass, before each span's own."""
    closing = (starts + lengths) // ratio - starts // ratio
    return np.concatenate([np.zeros(1, np.int32), np.cumsum(closing, dtype=np.int32)])


def _addresses(state: Stores) -> Addresses:
    """(layers, 7) of a sequence, made anew when one of its buffers is another or begins elsewhere."""
    if not isinstance(state.bound, np.ndarray):
        addresses = np.zeros((len(state.layers), NUM_STORES), np.int64)
        for layer, store in enumerate(state.layers):
            addresses[layer, WINDOW] = _first_row(store.window)
            addresses[layer, ROW_VALUES : ROW_VALUES + 3] = _pooled(store.compressor)
            addresses[layer, KEY_VALUES : KEY_VALUES + 3] = _pooled(store.indexer)
        state.bound = addresses
    return state.bound


def _pooled(store: PooledStore | None) -> tuple[int, int, int]:
    if store is None:
        return 0, 0, 0
    return _first_row(store.values), _first_row(store.gates), _any(store.rows.buffer).data_ptr()


def _first_row(held: NewestRows) -> int:
    """Address that row 0 would have."""
    buffer = _any(held.buffer)
    address: int = buffer.data_ptr() - held.first * buffer.shape[1] * buffer.element_size()
    return address
