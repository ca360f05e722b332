"""The native backend: a call or two into `whitedwarf._native` per operation, weights used where they lie in the file.

Promises what ops/base.py asks for, in float32, and more: the same bits for every number of threads and at every CPU
level, but for attention over packed rows at the amx level (native/amx/attention.h). Knows no arithmetic itself;
native/level.h and native/row_level.h state it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from whitedwarf._native import Kernels, Matrix, ScatteredMatrix
from whitedwarf.ops.base import (
    ByteArray,
    ExpertWeights,
    FloatArray,
    Groups,
    HyperHeadWeights,
    HyperMix,
    HyperSettings,
    HyperWeights,
    IntArray,
    Pooling,
    RouterWeights,
    RowFormat,
    RowKind,
    Rows,
    Visible,
    Weight,
)
from whitedwarf.ops.buffers import Buffers
from whitedwarf.ops.host_arrays import HostArrays
from whitedwarf.ops.spans import SLACK_ROWS, NewestRows, Pool, PooledStore, SpanRows, Spans, Stores, store_of
from whitedwarf.weights.tensors import Tensor

Newest = tuple[npt.NDArray[Any], int, int]  # buffer, first, keep
Pooled = tuple[Newest, Newest, ByteArray]  # values, gates, rows

FEW_ROWS = 64

ROW_KINDS = {RowKind.F32: 0, RowKind.F16: 1, RowKind.PACKED_KV: 2, RowKind.PACKED_KEY: 3, RowKind.PACKED_KV_F16: 4}


@dataclass(frozen=True, slots=True)
class CpuWeight:
    """A tensor's bytes, in place, as the kernels see them; keeps the mapped file alive."""

    matrix: Matrix
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ScatteredWeight:
    """One of the three stacks of a layer's experts, of which each lies where it was put last, if anywhere."""

    matrix: ScatteredMatrix
    shape: tuple[int, ...]
    placed: dict[int, ByteArray]

    def place(self, expert: int, data: ByteArray) -> None:
        """An expert's matrix is these bytes, which stay as long as the array does."""
        if self.placed.get(expert) is not data:
            self.matrix.put(expert, data)
            self.placed[expert] = data


@dataclass(frozen=True, slots=True)
class Sums:
    """What experts have given to each row so far, in rounds."""

    values: FloatArray  # (n, D)
    is_met: ByteArray  # (n,): whether there is anything yet


@dataclass(frozen=True, slots=True)
class CpuSpans:
    """The spans of a pass, and the kernels' view of them."""

    parts: tuple[SpanRows, ...]
    native: "Kernels.Spans"
    long_parts: tuple[SpanRows, ...]  # of more rows than buffers have slack


class CpuOps(HostArrays):
    """The native backend. `quality` keeps activations as floats beside quantised weights: slower, more exact."""

    name = "cpu"

    def __init__(self, threads: int = 0, quality: bool = False, level: str = "auto") -> None:
        self.kernels = Kernels(threads, level)
        self.quality = quality
        self._floats = Buffers().floats
        self._formats: dict[tuple[str, int, int], Kernels.RowFormat] = {}

    @property
    def level(self) -> str:
        """The CPU level in use: scalar, avx2, avx512, amx or neon."""
        return self.kernels.level

    def weight(self, tensor: Tensor) -> Weight:
        return CpuWeight(Matrix(tensor.data, int(tensor.type), tensor.shape), tensor.shape)

    def vector(self, tensor: Tensor) -> FloatArray:
        return np.ascontiguousarray(tensor.floats(), np.float32)

    def embed(self, table: Weight, ids: IntArray) -> FloatArray:
        out = self._floats(len(ids), table.shape[1])
        self.kernels.embed(_matrix(table), ids, out)
        return out

    def linear(self, x: FloatArray, weight: Weight) -> FloatArray:
        out = self._floats(len(x), weight.shape[0])
        self.kernels.linear(x, _matrix(weight), out, self.quality)
        return out

    def grouped_linear(self, x: FloatArray, weight: Weight, groups: int) -> FloatArray:
        out = self._floats(len(x), weight.shape[0])
        self.kernels.grouped_linear(x, _matrix(weight), out, groups, self.quality)
        return out

    def linears(
        self, x: FloatArray, weights: Sequence[Weight], norm: FloatArray | None = None, epsilon: float = 0.0
    ) -> list[FloatArray]:
        outs = [self._floats(len(x), weight.shape[0]) for weight in weights]
        self.kernels.linears(x, norm, epsilon, [_matrix(weight) for weight in weights], outs, self.quality)
        return outs

    def grouped_then_linear(self, x: FloatArray, first: Weight, groups: int, second: Weight) -> FloatArray:
        if len(x) > FEW_ROWS:  # what lies between is large: in memory that is used again
            return self.linear(self.grouped_linear(x, first, groups), second)
        out = self._floats(len(x), second.shape[0])
        self.kernels.grouped_then_linear(x, _matrix(first), groups, _matrix(second), out, self.quality)
        return out

    def rms_norm(self, x: FloatArray, weight: FloatArray, epsilon: float) -> FloatArray:
        out = self._floats(*x.shape)
        self.kernels.rms_norm(x, weight, epsilon, out)
        return out

    def hyper_in(
        self, streams: FloatArray, weights: HyperWeights, settings: HyperSettings
    ) -> tuple[FloatArray, HyperMix]:
        n, num_streams, width = streams.shape
        out = self._floats(n, width)
        mix = HyperMix(self._floats(n, num_streams), self._floats(n, num_streams, num_streams))
        self.kernels.hyper_in(
            streams,
            _matrix(weights.mix),
            weights.base,
            weights.scale,
            weights.norm,
            settings.rms_epsilon,
            settings.epsilon,
            settings.iterations,
            out,
            mix.post,
            mix.combination,
            self.quality,
        )
        return out, mix

    def hyper_out(self, streams: FloatArray, output: FloatArray, mix: HyperMix) -> FloatArray:
        self.kernels.hyper_out(streams, output, mix.post, mix.combination, streams)
        return streams

    def hyper_head(self, streams: FloatArray, weights: HyperHeadWeights, settings: HyperSettings) -> FloatArray:
        out = self._floats(len(streams), streams.shape[2])
        mix, vectors = _matrix(weights.mix), (weights.base, weights.scale, weights.norm)
        self.kernels.hyper_head(streams, mix, *vectors, settings.rms_epsilon, settings.epsilon, out, self.quality)
        return out

    def query(self, x: FloatArray, heads: int, turns: FloatArray, epsilon: float) -> FloatArray:
        out = self._floats(len(x), heads, x.shape[1] // heads)
        self.kernels.query(x, heads, turns, epsilon, out)
        return out

    def kv_rows(
        self, x: FloatArray, norm: FloatArray, turns: FloatArray, epsilon: float, format: RowFormat
    ) -> ByteArray:
        out = np.empty((len(x), format.row_bytes), np.uint8)
        self.kernels.kv_rows(x, norm, turns, epsilon, self._format(format), out)
        return out

    def compress(
        self,
        values: FloatArray,
        gates: FloatArray,
        first: int,
        groups: Groups,
        ape: FloatArray,
        norm: FloatArray,
        turns: FloatArray,
        epsilon: float,
        format: RowFormat,
    ) -> ByteArray:
        out = np.empty((groups.end - groups.first, format.row_bytes), np.uint8)
        span = first, groups.first, groups.end, groups.ratio
        self.kernels.compress(values, gates, *span, ape, norm, turns, epsilon, self._format(format), out)
        return out

    def index_query(self, x: FloatArray, heads: int, turns: FloatArray, format: RowFormat) -> FloatArray:
        out = self._floats(len(x), heads, x.shape[1] // heads)
        self.kernels.index_query(x, heads, turns, format.kind is RowKind.PACKED_KEY, out)
        return out

    def index_pick(self, queries: FloatArray, weights: FloatArray, keys: Rows, counts: IntArray, top: int) -> IntArray:
        out = np.empty((len(queries), top), np.int32)
        self.kernels.index_pick(queries, weights, keys.data, self._format(keys.format), counts, out)
        return out

    def attention(
        self,
        queries: FloatArray,
        window: Rows,
        compressed: Rows | None,
        visible: Visible,
        sinks: FloatArray,
        turns: FloatArray,
    ) -> FloatArray:
        n, heads, width = queries.shape
        out = self._floats(n, heads * width)
        pooled = window if compressed is None else compressed
        self.kernels.attention(
            queries,
            window.data,
            self._format(window.format),
            window.first,
            None if compressed is None else compressed.data,
            self._format(pooled.format),
            pooled.first,
            visible.positions,
            visible.window,
            visible.counts,
            visible.picked,
            sinks,
            turns,
            out,
        )
        return out

    def route(self, x: FloatArray, router: RouterWeights, ids: IntArray) -> tuple[IntArray, FloatArray]:
        logits = self.linear(x, router.gate)
        experts, weights = np.empty((len(x), router.num_used), np.int32), self._floats(len(x), router.num_used)
        choice = router.bias, router.table, ids
        self.kernels.route(logits, *choice, router.scale, router.normalise, experts, weights)
        return experts, weights

    def experts(
        self,
        x: FloatArray,
        experts: IntArray,
        weights: FloatArray,
        routed: ExpertWeights,
        shared: ExpertWeights | None = None,
    ) -> FloatArray:
        out = self._floats(*x.shape)
        always = None if shared is None else _block(shared)
        self.kernels.experts(x, experts, weights, _block(routed), always, out, self.quality)
        return out

    def scattered(self, tensor: Tensor) -> ScatteredWeight:
        """A stack of experts of which none is here yet; of the tensor only type and shape count."""
        return ScatteredWeight(ScatteredMatrix(int(tensor.type), tensor.shape), tensor.shape, {})

    def no_sums(self, x: FloatArray) -> Sums:
        """Before the first round."""
        return Sums(self._floats(*x.shape), np.zeros(len(x), np.uint8))

    def add_experts(
        self,
        sums: Sums,
        x: FloatArray,
        experts: IntArray,
        weights: FloatArray,
        routed: ExpertWeights,
        shared: ExpertWeights | None = None,
    ) -> None:
        """A round of `experts`, over scattered weights: those of the picks that are not -1, which have been placed.

        Rounds whose experts ascend, the last with the shared one, give the bits of a single call. ValueError for a pick
        that is not here.
        """
        block = _scattered(routed.gate), _scattered(routed.up), _scattered(routed.down), routed.limit
        always = None if shared is None else _block(shared)
        self.kernels.add_experts(x, experts, weights, block, always, sums.values, sums.is_met, self.quality)

    def spans(self, parts: Sequence[SpanRows]) -> Spans:
        buffers = [_bound(part.state) for part in parts]
        starts = np.array([part.start for part in parts], np.int32)
        counts = np.array([part.num_tokens for part in parts], np.int32)
        long_parts = tuple(part for part in parts if part.num_tokens > SLACK_ROWS)
        return CpuSpans(tuple(parts), Kernels.Spans(buffers, starts, counts), long_parts)

    def pool(
        self,
        spans: Spans,
        layer: int,
        pool: Pool,
        values: FloatArray,
        gates: FloatArray,
        how: Pooling,
        turns: FloatArray,
    ) -> None:
        format = self._format(how.format)
        norms = how.ratio, how.ape, how.norm, turns, how.epsilon
        own = _own(spans)
        self.kernels.pool(own.native, layer, pool.value, values, gates, *norms, format)
        for part in own.long_parts:
            store = store_of(part.state.layers[layer], pool)
            store.values.replaced(part.start, part.num_tokens)
            store.gates.replaced(part.start, part.num_tokens)

    def pick(
        self,
        spans: Spans,
        layer: int,
        queries: FloatArray,
        weights: FloatArray,
        format: RowFormat,
        counts: IntArray,
        most: int,
        top: int,
    ) -> IntArray | None:
        if most <= top:
            return None
        out = np.empty((len(queries), top), np.int32)
        self.kernels.pick(_own(spans).native, layer, queries, weights, self._format(format), counts, out)
        return out

    def attend(
        self,
        spans: Spans,
        layer: int,
        queries: FloatArray,
        rows: ByteArray,
        format: RowFormat,
        visible: Visible,
        sinks: FloatArray,
        turns: FloatArray,
    ) -> FloatArray:
        n, heads, width = queries.shape
        out = self._floats(n, heads * width)
        seen = visible.positions, visible.window, visible.counts, visible.picked
        own = _own(spans)
        self.kernels.attend(own.native, layer, queries, rows, self._format(format), *seen, sinks, turns, out)
        for part in own.long_parts:
            part.state.layers[layer].window.replaced(part.start, part.num_tokens)
        return out

    def decode_rows(self, rows: Rows) -> FloatArray:
        out = self._floats(len(rows.data), rows.format.dims)
        self.kernels.decode_rows(rows.data, self._format(rows.format), out)
        return out

    def _format(self, format: RowFormat) -> "Kernels.RowFormat":
        key = format.kind.value, format.dims, format.rope_dims  # its own hash takes longer than some kernels
        found = self._formats.get(key)
        if found is None:
            found = Kernels.RowFormat(ROW_KINDS[format.kind], format.dims, format.rope_dims)
            self._formats[key] = found
        return found


def _matrix(weight: Weight) -> Matrix:
    assert isinstance(weight, CpuWeight)
    return weight.matrix


def _scattered(weight: Weight) -> ScatteredMatrix:
    assert isinstance(weight, ScatteredWeight)
    return weight.matrix


def _block(block: ExpertWeights) -> tuple[Matrix, Matrix, Matrix, float]:
    return _matrix(block.gate), _matrix(block.up), _matrix(block.down), block.limit


def _own(spans: Spans) -> CpuSpans:
    assert isinstance(spans, CpuSpans)
    return spans


def _bound(state: Stores) -> "Kernels.Buffers":
    """The kernels' view of a sequence's buffers, made anew when one of them is another or begins elsewhere."""
    if not isinstance(state.bound, Kernels.Buffers):
        layers = [(_newest(layer.window), _pooled(layer.compressor), _pooled(layer.indexer)) for layer in state.layers]
        state.bound = Kernels.Buffers(layers)
    return state.bound


def _newest(rows: NewestRows) -> Newest:
    return rows.buffer, rows.first, rows.keep


def _pooled(store: PooledStore | None) -> Pooled | None:
    return None if store is None else (_newest(store.values), _newest(store.gates), store.rows.buffer)
