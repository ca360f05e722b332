"""The truth: every operation in plain numpy, one row at a time where that is clearer.

Works in the float type it is made with (float64 by default). Nothing here is fast; everything here is meant to be read
beside the fact sheet's section 2. Other backends are tested against it, operation by operation.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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
    Rows,
    Visible,
    Weight,
)
from whitedwarf.ops.host_arrays import HostArrays
from whitedwarf.ops.rows import decode_rows, encode_rows, round_like_keys
from whitedwarf.ops.spans import Pool, SpanRows, Spans, store_of
from whitedwarf.weights.tensors import Tensor

WEIGHT_SUM_FLOOR = 2.0**-14  # the smallest normal f16: floor of the routing weights' sum (2.6)


@dataclass(frozen=True, slots=True)
class ReferenceWeight:
    """A tensor decoded to floats."""

    values: FloatArray

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape


@dataclass(frozen=True, slots=True)
class ReferenceSpans:
    """The spans of a pass as they are."""

    parts: tuple[SpanRows, ...]


class ReferenceOps(HostArrays):
    """The numpy backend."""

    name = "reference"

    def __init__(self, dtype: npt.DTypeLike = np.float64) -> None:
        self.dtype = np.dtype(dtype)

    def weight(self, tensor: Tensor) -> Weight:
        return ReferenceWeight(tensor.floats().astype(self.dtype))

    def vector(self, tensor: Tensor) -> FloatArray:
        return tensor.floats().astype(self.dtype)

    def embed(self, table: Weight, ids: IntArray) -> FloatArray:
        return _values(table)[ids]

    def linear(self, x: FloatArray, weight: Weight) -> FloatArray:
        # one matrix-vector product per row: BLAS sums a row of a bigger product in another order
        return np.stack([_values(weight) @ row for row in x])

    def grouped_linear(self, x: FloatArray, weight: Weight, groups: int) -> FloatArray:
        parts = np.split(x, groups, axis=1)
        matrices = np.split(_values(weight), groups, axis=0)
        products = [self.linear(part, ReferenceWeight(m)) for part, m in zip(parts, matrices, strict=True)]
        return np.concatenate(products, axis=1)

    def linears(
        self, x: FloatArray, weights: Sequence[Weight], norm: FloatArray | None = None, epsilon: float = 0.0
    ) -> list[FloatArray]:
        inputs = x if norm is None else self.rms_norm(x, norm, epsilon)
        return [self.linear(inputs, weight) for weight in weights]

    def grouped_then_linear(self, x: FloatArray, first: Weight, groups: int, second: Weight) -> FloatArray:
        return self.linear(self.grouped_linear(x, first, groups), second)

    def rms_norm(self, x: FloatArray, weight: FloatArray, epsilon: float) -> FloatArray:
        return x * _inverse_rms(x, epsilon) * weight

    def hyper_in(
        self, streams: FloatArray, weights: HyperWeights, settings: HyperSettings
    ) -> tuple[FloatArray, HyperMix]:
        n, num_streams, _ = streams.shape
        mixes = self._stream_mixes(streams, weights.mix, settings)
        scale = np.repeat(weights.scale, [num_streams, num_streams, num_streams**2])
        logits = mixes * scale + weights.base
        pre = _sigmoid(logits[:, :num_streams]) + settings.epsilon
        post = 2 * _sigmoid(logits[:, num_streams : 2 * num_streams])
        square = logits[:, 2 * num_streams :].reshape(n, num_streams, num_streams)
        mixed = np.einsum("ns,nsd->nd", pre, streams)
        combination = _sinkhorn(square, settings)
        return self.rms_norm(mixed, weights.norm, settings.rms_epsilon), HyperMix(post, combination)

    def hyper_out(self, streams: FloatArray, output: FloatArray, mix: HyperMix) -> FloatArray:
        carried: FloatArray = np.einsum("njk,njd->nkd", mix.combination, streams)
        return mix.post[:, :, None] * output[:, None, :] + carried

    def hyper_head(self, streams: FloatArray, weights: HyperHeadWeights, settings: HyperSettings) -> FloatArray:
        mixes = self._stream_mixes(streams, weights.mix, settings)
        pre = _sigmoid(mixes * weights.scale + weights.base) + settings.epsilon
        return self.rms_norm(np.einsum("ns,nsd->nd", pre, streams), weights.norm, settings.rms_epsilon)

    def _stream_mixes(self, streams: FloatArray, mix: Weight, settings: HyperSettings) -> FloatArray:
        flat = streams.reshape(len(streams), -1)
        return self.linear(flat * _inverse_rms(flat, settings.rms_epsilon), mix)

    def query(self, x: FloatArray, heads: int, turns: FloatArray, epsilon: float) -> FloatArray:
        q = x.reshape(len(x), heads, -1)
        return turn(q * _inverse_rms(q, epsilon), turns[:, None])

    def kv_rows(
        self, x: FloatArray, norm: FloatArray, turns: FloatArray, epsilon: float, format: RowFormat
    ) -> ByteArray:
        return encode_rows(turn(self.rms_norm(x, norm, epsilon), turns), format)

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
        pooled = [_pool(values, gates, first, group, groups.ratio, ape) for group in range(groups.first, groups.end)]
        return encode_rows(turn(self.rms_norm(np.stack(pooled), norm, epsilon), turns), format)

    def index_query(self, x: FloatArray, heads: int, turns: FloatArray, format: RowFormat) -> FloatArray:
        return round_like_keys(turn(x.reshape(len(x), heads, -1), turns[:, None]), format)

    def index_pick(self, queries: FloatArray, weights: FloatArray, keys: Rows, counts: IntArray, top: int) -> IntArray:
        table = self.decode_rows(keys)
        picked = np.full((len(queries), top), -1, np.int32)
        for i, count in enumerate(counts):
            scores = weights[i] @ np.maximum(queries[i] @ table[:count].T, 0)
            best = np.sort(np.argsort(-scores, kind="stable")[:top])
            picked[i, : len(best)] = best
        return picked

    def attention(
        self,
        queries: FloatArray,
        window: Rows,
        compressed: Rows | None,
        visible: Visible,
        sinks: FloatArray,
        turns: FloatArray,
    ) -> FloatArray:
        recent = self.decode_rows(window)
        pooled = None if compressed is None else self.decode_rows(compressed)
        outputs = np.empty_like(queries)
        for i, position in enumerate(visible.positions):
            oldest = max(0, int(position) - visible.window + 1) - window.first
            keys = recent[oldest : int(position) + 1 - window.first]
            if pooled is not None:
                keys = np.concatenate([keys, pooled[_seen(visible, i)]])
            outputs[i] = _attend(queries[i], keys, sinks)
        return turn(outputs, turns[:, None], sign=-1).reshape(len(queries), -1)

    def route(self, x: FloatArray, router: RouterWeights, ids: IntArray) -> tuple[IntArray, FloatArray]:
        logits = self.linear(x, router.gate)
        scores = np.sqrt(np.logaddexp(0, logits))
        if router.table is not None:
            experts = router.table[ids]
        else:
            ranked = scores if router.bias is None else scores + router.bias
            experts = np.argsort(-ranked, axis=1, kind="stable")[:, : router.num_used].astype(np.int32)
        weights = np.take_along_axis(scores, experts, axis=1)
        if router.normalise:
            weights = weights / np.maximum(weights.sum(axis=1, keepdims=True), WEIGHT_SUM_FLOOR)
        return np.ascontiguousarray(experts), weights * router.scale

    def experts(
        self,
        x: FloatArray,
        experts: IntArray,
        weights: FloatArray,
        routed: ExpertWeights,
        shared: ExpertWeights | None = None,
    ) -> FloatArray:
        gate, up, down = _values(routed.gate), _values(routed.up), _values(routed.down)
        total = np.zeros_like(x)
        for i, row in enumerate(x):
            for expert, weight in zip(experts[i], weights[i], strict=True):
                total[i] += down[expert] @ (_swiglu(gate[expert] @ row, up[expert] @ row, routed.limit) * weight)
        if shared is None:
            return total
        hidden = _swiglu(self.linear(x, shared.gate), self.linear(x, shared.up), shared.limit)
        return total + self.linear(hidden, shared.down)

    def spans(self, parts: Sequence[SpanRows]) -> Spans:
        return ReferenceSpans(tuple(parts))

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
            keys = Rows(format, store.rows.upto(int(counts[part.rows].max())), 0)
            picked.append(self.index_pick(queries[part.rows], weights[part.rows], keys, counts[part.rows], top))
        return np.concatenate(picked)

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
                store = store_of(held, Pool.ROWS)
                compressed = Rows(format, store.rows.upto(int(own.counts.max())), 0)
            outputs.append(self.attention(queries[part.rows], window, compressed, own, sinks, turns[part.rows]))
        return np.concatenate(outputs)

    def decode_rows(self, rows: Rows) -> FloatArray:
        return decode_rows(rows.data, rows.format, self.dtype)


def turn(x: FloatArray, turns: FloatArray, sign: int = 1) -> FloatArray:
    """Rotate adjacent pairs of the tail of the last axis by turns (..., rope/2, 2) = (cos, sin); sign -1 turns back."""
    half = turns.shape[-2]
    head, tail = x[..., : x.shape[-1] - 2 * half], x[..., x.shape[-1] - 2 * half :]
    pairs = tail.reshape(*tail.shape[:-1], half, 2)
    cos, sin = turns[..., 0], sign * turns[..., 1]
    first = pairs[..., 0] * cos - pairs[..., 1] * sin
    second = pairs[..., 0] * sin + pairs[..., 1] * cos
    turned = np.stack([first, second], axis=-1).reshape(tail.shape)
    return np.concatenate([head, turned], axis=-1).astype(x.dtype)


def _values(weight: Weight) -> FloatArray:
    assert isinstance(weight, ReferenceWeight)
    return weight.values


def _inverse_rms(x: FloatArray, epsilon: float) -> FloatArray:
    mean_square = np.mean(x * x, axis=-1, keepdims=True)
    inverse: FloatArray = 1 / np.sqrt(mean_square + epsilon)
    return inverse


def _sigmoid(x: FloatArray) -> FloatArray:
    return np.exp(-np.logaddexp(0, -x))


def _sinkhorn(logits: FloatArray, settings: HyperSettings) -> FloatArray:
    """(n, source, destination) -> nearly doubly stochastic, by alternating row and column sums."""
    exps: FloatArray = np.exp(logits - logits.max(axis=2, keepdims=True))
    c: FloatArray = exps / exps.sum(axis=2, keepdims=True) + settings.epsilon
    c = c / (c.sum(axis=1, keepdims=True) + settings.epsilon)
    for _ in range(settings.iterations - 1):
        c = c / (c.sum(axis=2, keepdims=True) + settings.epsilon)
        c = c / (c.sum(axis=1, keepdims=True) + settings.epsilon)
    return c


def _pool(values: FloatArray, gates: FloatArray, first: int, group: int, ratio: int, ape: FloatArray) -> FloatArray:
    """One compressed row before its norm: gated average over a window, per channel."""
    start = group * ratio
    own = slice(start - first, start + ratio - first)
    width = values.shape[1]
    if ape.shape[0] != ratio or width == 0:
        raise ValueError(f"ape must have {ratio} rows, got {ape.shape}")
    v, g = values[own], gates[own] + ape
    if is_overlapping(ratio):
        half = width // 2
        v, g = v[:, half:], g[:, half:]
        if group > 0:
            before = slice(start - ratio - first, start - first)
            v = np.concatenate([values[before, :half], v])
            g = np.concatenate([gates[before, :half] + ape[:, :half], g])
    shares = np.exp(g - g.max(axis=0))
    pooled: FloatArray = (shares / shares.sum(axis=0) * v).sum(axis=0)
    return pooled


def is_overlapping(ratio: int) -> bool:
    """Ratio-4 windows also pool the window before them (2.4)."""
    return ratio == 4


def _seen(visible: Visible, i: int) -> IntArray:
    """Compressed rows that query i attends to, ascending."""
    if visible.picked is not None:
        picked: IntArray = visible.picked[i]
        return picked[picked >= 0]
    assert visible.counts is not None
    return np.arange(visible.counts[i], dtype=np.int32)


def _attend(query: FloatArray, keys: FloatArray, sinks: FloatArray) -> FloatArray:
    """(H, d) over (k, d): the key is also the value; the sink takes part in the denominator only."""
    scores = query @ keys.T / np.sqrt(query.dtype.type(keys.shape[1]))
    top = np.maximum(scores.max(axis=1), sinks)[:, None]
    shares = np.exp(scores - top)
    total = shares.sum(axis=1, keepdims=True) + np.exp(sinks[:, None] - top)
    output: FloatArray = (shares / total) @ keys
    return output


def _swiglu(gate: FloatArray, up: FloatArray, limit: float) -> FloatArray:
    gate = np.minimum(gate, limit)
    return gate * _sigmoid(gate) * np.clip(up, -limit, limit)
