"""The Apple backend: every operation on mx.array, with Metal kernels where there is Metal and MLX twins elsewhere.

Promises what ops/base.py asks for, in f32: activations stay floats, weights stay in the blocks of their file.
MLX computes when it must. Here it is asked to twice a layer, without waiting (`hyper_out`), and for everything that a
pass has written at its end (`passing`): so no graph outlives its pass.
Not yet run on a Mac: see docs/gpu.md.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from whitedwarf.ops.base import (
    A,
    ByteArray,
    ExpertWeights,
    FloatArray,
    Groups,
    HyperHeadWeights,
    HyperMix,
    HyperSettings,
    HyperWeights,
    IntArray,
    P,
    Pooling,
    RouterWeights,
    RowFormat,
    Rows,
    Visible,
    Weight,
)
from whitedwarf.ops.metal import choice
from whitedwarf.ops.mlx_memory import MlxMemory
from whitedwarf.ops.mlx_twins import rows as row_twins
from whitedwarf.ops.mlx_twins.blocks import MlxWeight, weight_of
from whitedwarf.ops.spans import Pool, RowMemory, SpanRows, Spans, store_of
from whitedwarf.weights.tensors import Tensor


@dataclass(frozen=True, slots=True)
class MlxSpans:
    """The spans of a pass as they are."""

    parts: tuple[SpanRows, ...]


class MlxOps:
    """The MLX backend. `kernels`: what computes the operations that have a kernel; None = as the machine is."""

    name = "mlx"

    def __init__(self, kernels: choice.Kernels | None = None) -> None:
        self.kernels = kernels or choice.here()
        self._memory = MlxMemory()

    def weight(self, tensor: Tensor) -> Weight:
        return weight_of(tensor)

    def vector(self, tensor: Tensor) -> FloatArray:
        return self.parameter(tensor.floats())

    def parameter(self, values: A) -> A:
        is_float = np.issubdtype(values.dtype, np.floating)
        return mx.array(np.ascontiguousarray(values, np.float32 if is_float else np.int32))

    def memory(self, layer: int) -> RowMemory:
        return self._memory

    def arrays(self, *values: npt.NDArray[np.generic]) -> tuple[Any, ...]:
        return tuple(mx.array(np.ascontiguousarray(value)) for value in values)

    def host(self, x: FloatArray) -> FloatArray:
        return np.array(x)

    def visible_rows(self, count: int) -> int:
        return count

    def closing_windows(self, count: int, num_spans: int, num_rows: int) -> int:
        return count

    def passing(self, run: Callable[[P], FloatArray], batch: P) -> FloatArray:
        with self._memory.passing():
            out = run(batch)
            mx.async_eval(out)
        return out

    def embed(self, table: Weight, ids: IntArray) -> FloatArray:
        return self.kernels.embed(_own(table), ids)

    def spread(self, x: FloatArray, streams: int) -> FloatArray:
        return mx.repeat(x[:, None, :], streams, axis=1)

    def take_rows(self, x: FloatArray, rows: Sequence[int]) -> FloatArray:
        return x[mx.array(list(rows), mx.int32)]

    def steer(self, y: FloatArray, direction: FloatArray, scale: float) -> FloatArray:
        return y - scale * (y * direction).sum(axis=-1, keepdims=True) * direction

    def linear(self, x: FloatArray, weight: Weight) -> FloatArray:
        return self.kernels.linear(x, _own(weight))

    def linears(
        self, x: FloatArray, weights: Sequence[Weight], norm: FloatArray | None = None, epsilon: float = 0.0
    ) -> list[FloatArray]:
        inputs = x if norm is None else self.rms_norm(x, norm, epsilon)
        return [self.linear(inputs, weight) for weight in weights]

    def grouped_linear(self, x: FloatArray, weight: Weight, groups: int) -> FloatArray:
        return self.kernels.grouped_linear(x, _own(weight), groups)

    def grouped_then_linear(self, x: FloatArray, first: Weight, groups: int, second: Weight) -> FloatArray:
        return self.linear(self.grouped_linear(x, first, groups), second)

    def rms_norm(self, x: FloatArray, weight: FloatArray, epsilon: float) -> FloatArray:
        return self.kernels.rms_norm(x, weight, epsilon)

    def hyper_in(
        self, streams: FloatArray, weights: HyperWeights, settings: HyperSettings
    ) -> tuple[FloatArray, HyperMix]:
        vectors = weights.base, weights.scale, weights.norm
        out, post, combination = self.kernels.hyper_in(streams, _own(weights.mix), *vectors, settings)
        return out, HyperMix(post, combination)

    def hyper_out(self, streams: FloatArray, output: FloatArray, mix: HyperMix) -> FloatArray:
        out = self.kernels.hyper_out(streams, output, mix.post, mix.combination)
        mx.async_eval(out)
        return out

    def hyper_out_in(
        self, streams: FloatArray, output: FloatArray, mix: HyperMix, weights: HyperWeights, settings: HyperSettings
    ) -> tuple[FloatArray, FloatArray, HyperMix]:
        after = self.hyper_out(streams, output, mix)
        return after, *self.hyper_in(after, weights, settings)

    def hyper_head(self, streams: FloatArray, weights: HyperHeadWeights, settings: HyperSettings) -> FloatArray:
        return self.kernels.hyper_head(streams, _own(weights.mix), weights.base, weights.scale, weights.norm, settings)

    def query(self, x: FloatArray, heads: int, turns: FloatArray, epsilon: float) -> FloatArray:
        return self.kernels.query(x, heads, turns, epsilon)

    def kv_rows(
        self, x: FloatArray, norm: FloatArray, turns: FloatArray, epsilon: float, format: RowFormat
    ) -> ByteArray:
        return self.kernels.kv_rows(x, norm, turns, epsilon, format)

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
        return self.kernels.compress(values, gates, first, groups, ape, norm, turns, epsilon, format)

    def index_query(self, x: FloatArray, heads: int, turns: FloatArray, format: RowFormat) -> FloatArray:
        return self.kernels.index_query(x, heads, turns, format)

    def index_pick(self, queries: FloatArray, weights: FloatArray, keys: Rows, counts: IntArray, top: int) -> IntArray:
        return self.kernels.index_pick(queries, weights, keys.data, keys.format, counts, top)

    def attention(
        self,
        queries: FloatArray,
        window: Rows,
        compressed: Rows | None,
        visible: Visible,
        sinks: FloatArray,
        turns: FloatArray,
    ) -> FloatArray:
        return self.kernels.attention(
            queries,
            window.data,
            window.first,
            None if compressed is None else compressed.data,
            window.format,
            visible.positions,
            visible.window,
            visible.counts,
            visible.picked,
            sinks,
            turns,
        )

    def route(self, x: FloatArray, router: RouterWeights, ids: IntArray) -> tuple[IntArray, FloatArray]:
        logits = self.linear(x, router.gate)
        return self.kernels.route(
            logits, router.bias, router.table, ids, router.num_used, router.scale, router.normalise
        )

    def experts(
        self,
        x: FloatArray,
        experts: IntArray,
        weights: FloatArray,
        routed: ExpertWeights,
        shared: ExpertWeights | None = None,
    ) -> FloatArray:
        total = self.kernels.routed_experts(x, experts, weights, *_block(routed))
        return total if shared is None else total + self.kernels.shared_expert(x, *_block(shared))

    def spans(self, parts: Sequence[SpanRows]) -> Spans:
        return MlxSpans(tuple(parts))

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
        done = 0
        for part in spans.parts:
            store = store_of(part.state.layers[layer], pool)
            held_values, first = store.values.extend(part.start, values[part.rows])
            held_gates, _ = store.gates.extend(part.start, gates[part.rows])
            groups = Groups(part.start // how.ratio, part.end // how.ratio, how.ratio)
            if (count := groups.end - groups.first) > 0:
                own = held_values, held_gates, first, groups, how.ape, how.norm, turns[done : done + count]
                store.rows.extend(groups.first, self.compress(*own, how.epsilon, how.format))
                done += count

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
        picked = []
        for part in spans.parts:
            store = store_of(part.state.layers[layer], Pool.KEYS)
            keys = Rows(format, store.rows.upto(most), 0)
            picked.append(self.index_pick(queries[part.rows], weights[part.rows], keys, counts[part.rows], top))
        return mx.concatenate(picked)

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
        outputs = []
        for part in spans.parts:
            held = part.state.layers[layer]
            data, first = held.window.extend(part.start, rows[part.rows])
            window, own, compressed = Rows(format, data, first), visible.of(part.rows), None
            if own.counts is not None:
                compressed = Rows(format, store_of(held, Pool.ROWS).rows.upto(own.most), 0)
            outputs.append(self.attention(queries[part.rows], window, compressed, own, sinks, turns[part.rows]))
        return mx.concatenate(outputs)

    def decode_rows(self, rows: Rows) -> FloatArray:
        return row_twins.decode_rows(rows.data, rows.format)


def described() -> tuple[str, str]:
    """For `whitedwarf doctor`: why this backend can be used, and what of the machine it uses."""
    version = f"MLX {mx.__version__}"
    if mx.metal.is_available():
        return f"{version} on Metal; its kernels have not yet run on a Mac", "metal"
    return f"{version} without Metal: plain MLX, slow, for tests; its kernels have not yet run on a Mac", "cpu"


def _own(weight: Weight) -> MlxWeight:
    assert isinstance(weight, MlxWeight)
    return weight


def _block(block: ExpertWeights) -> tuple[MlxWeight, MlxWeight, MlxWeight, float]:
    return _own(block.gate), _own(block.up), _own(block.down), block.limit
