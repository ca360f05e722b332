"""The native backend: a call or two into `whitedwarf._native` per operation, weights used where they lie in the file.

Promises what ops/base.py asks for, in float32, and more: the same bits for every number of threads and at every CPU
level, but for attention over packed rows at the amx level (native/amx/attention.h). Knows no arithmetic itself;
native/level.h and native/row_level.h state it.
"""

from dataclasses import dataclass

import numpy as np

from whitedwarf._native import Kernels, Matrix
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
    RouterWeights,
    RowFormat,
    RowKind,
    Rows,
    Visible,
    Weight,
)
from whitedwarf.weights.tensors import Tensor

ROW_KINDS = {RowKind.F32: 0, RowKind.F16: 1, RowKind.PACKED_KV: 2, RowKind.PACKED_KEY: 3, RowKind.PACKED_KV_F16: 4}


@dataclass(frozen=True, slots=True)
class CpuWeight:
    """A tensor's bytes, in place, as the kernels see them; keeps the mapped file alive."""

    matrix: Matrix
    shape: tuple[int, ...]


class CpuOps:
    """The native backend. `quality` keeps activations as floats beside quantised weights: slower, more exact."""

    name = "cpu"

    def __init__(self, threads: int = 0, quality: bool = False, level: str = "auto") -> None:
        self.kernels = Kernels(threads, level)
        self.quality = quality
        self._formats: dict[RowFormat, Kernels.RowFormat] = {}

    @property
    def level(self) -> str:
        """The CPU level in use: scalar, avx2, avx512, amx or neon."""
        return self.kernels.level

    def weight(self, tensor: Tensor) -> Weight:
        return CpuWeight(Matrix(tensor.data, int(tensor.type), tensor.shape), tensor.shape)

    def vector(self, tensor: Tensor) -> FloatArray:
        return np.ascontiguousarray(tensor.floats(), np.float32)

    def embed(self, table: Weight, ids: IntArray) -> FloatArray:
        out = _floats(len(ids), table.shape[1])
        self.kernels.embed(_matrix(table), ids, out)
        return out

    def linear(self, x: FloatArray, weight: Weight) -> FloatArray:
        out = _floats(len(x), weight.shape[0])
        self.kernels.linear(x, _matrix(weight), out, self.quality)
        return out

    def grouped_linear(self, x: FloatArray, weight: Weight, groups: int) -> FloatArray:
        out = _floats(len(x), weight.shape[0])
        self.kernels.grouped_linear(x, _matrix(weight), out, groups, self.quality)
        return out

    def rms_norm(self, x: FloatArray, weight: FloatArray, epsilon: float) -> FloatArray:
        out = np.empty_like(x)
        self.kernels.rms_norm(x, weight, epsilon, out)
        return out

    def hyper_in(
        self, streams: FloatArray, weights: HyperWeights, settings: HyperSettings
    ) -> tuple[FloatArray, HyperMix]:
        n, num_streams, width = streams.shape
        products = self.linear(streams.reshape(n, -1), weights.mix)
        out, mix = _floats(n, width), HyperMix(_floats(n, num_streams), _floats(n, num_streams, num_streams))
        self.kernels.hyper_in(
            streams,
            products,
            weights.base,
            weights.scale,
            weights.norm,
            settings.rms_epsilon,
            settings.epsilon,
            settings.iterations,
            out,
            mix.post,
            mix.combination,
        )
        return out, mix

    def hyper_out(self, streams: FloatArray, output: FloatArray, mix: HyperMix) -> FloatArray:
        out = np.empty_like(streams)
        self.kernels.hyper_out(streams, output, mix.post, mix.combination, out)
        return out

    def hyper_head(self, streams: FloatArray, weights: HyperHeadWeights, settings: HyperSettings) -> FloatArray:
        n, _, width = streams.shape
        products, out = self.linear(streams.reshape(n, -1), weights.mix), _floats(n, width)
        epsilons = settings.rms_epsilon, settings.epsilon
        self.kernels.hyper_head(streams, products, weights.base, weights.scale, weights.norm, *epsilons, out)
        return out

    def query(self, x: FloatArray, heads: int, turns: FloatArray, epsilon: float) -> FloatArray:
        out = _floats(len(x), heads, x.shape[1] // heads)
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
        out = _floats(len(x), heads, x.shape[1] // heads)
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
        out = _floats(n, heads * width)
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
        experts, weights = np.empty((len(x), router.num_used), np.int32), _floats(len(x), router.num_used)
        choice = router.bias, router.table, ids
        self.kernels.route(logits, *choice, router.scale, router.normalise, experts, weights)
        return experts, weights

    def experts(self, x: FloatArray, experts: IntArray, weights: FloatArray, blocks: ExpertWeights) -> FloatArray:
        out = np.empty_like(x)
        self.kernels.experts(x, experts, weights, *_block(blocks), out, self.quality)
        return out

    def swiglu(self, x: FloatArray, block: ExpertWeights) -> FloatArray:
        out = np.empty_like(x)
        self.kernels.swiglu(x, *_block(block), out, self.quality)
        return out

    def decode_rows(self, rows: Rows) -> FloatArray:
        out = _floats(len(rows.data), rows.format.dims)
        self.kernels.decode_rows(rows.data, self._format(rows.format), out)
        return out

    def _format(self, format: RowFormat) -> "Kernels.RowFormat":
        found = self._formats.get(format)
        if found is None:
            found = Kernels.RowFormat(ROW_KINDS[format.kind], format.dims, format.rope_dims)
            self._formats[format] = found
        return found


def _floats(*shape: int) -> FloatArray:
    return np.empty(shape, np.float32)


def _matrix(weight: Weight) -> Matrix:
    assert isinstance(weight, CpuWeight)
    return weight.matrix


def _block(block: ExpertWeights) -> tuple[Matrix, Matrix, Matrix, float]:
    return _matrix(block.gate), _matrix(block.up), _matrix(block.down), block.limit
