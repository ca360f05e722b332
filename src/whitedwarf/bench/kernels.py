"""The kernels one by one, in Flash's dimensions: how much they read and compute, and in which time.

A decode step reads each weight once and is bound by memory; many rows share a read and are bound by arithmetic. Weights
are larger than any cache and a call walks through all of them, so that one row really reads memory. Values are random
and valid; what they are does not matter here.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TypeAlias

import numpy as np

from whitedwarf._native import Kernels
from whitedwarf.bench.speed import SEED
from whitedwarf.bench.spread import quartiles
from whitedwarf.gguf.synth_blocks import RandomBlocks
from whitedwarf.gguf.types import GgmlType
from whitedwarf.ops.base import ExpertWeights, FloatArray, IntArray, RowFormat, RowKind, Rows, Visible
from whitedwarf.ops.cpu import ROW_KINDS, CpuOps, CpuWeight
from whitedwarf.weights.tensors import Tensor

Call: TypeAlias = Callable[[CpuOps], object]

LINEAR_TYPES = ("Q8_0", "IQ2_XXS", "Q2_K", "Q4_K", "MXFP4", "F16", "BF16", "F32")
FLOAT_TYPES = ("F16", "BF16", "F32")
EXPERT_TYPES = {"q2": ("IQ2_XXS", "Q2_K"), "q4": ("Q4_K", "Q4_K"), "mxfp4": ("MXFP4", "MXFP4")}
PARTS = ("linear", "experts", "attention", "indexer", "quantise")
MIN_REPEATS = 3


@dataclass(frozen=True, slots=True)
class Sizes:
    """Flash's dimensions, and how much memory the weights of a case take."""

    hidden: int = 4096
    inner: int = 2048
    experts_used: int = 6
    heads: int = 64
    head_dim: int = 512
    rope_dims: int = 64
    window: int = 128
    picked: int = 512
    index_heads: int = 64
    index_dim: int = 128
    keys: int = 4096  # 16k tokens of context
    linear_bytes: int = 128 << 20
    experts: int = 24


@dataclass(frozen=True, slots=True)
class Case:
    """One kernel on so many rows. `arithmetic` says which limit its operations have."""

    part: str
    name: str
    rows: int
    bytes_read: int
    operations: int
    arithmetic: str
    run: Call
    is_cached: bool = False  # what it reads lies in a cache: memory is no limit


@dataclass(frozen=True, slots=True)
class KernelSample:
    """What a case gave at one level."""

    part: str
    name: str
    rows: int
    bytes_read: int
    operations: int
    arithmetic: str
    is_cached: bool
    level: str
    seconds: tuple[float, ...]

    @property
    def median_s(self) -> float:
        return float(np.median(self.seconds))

    @property
    def quartiles_s(self) -> tuple[float, float]:
        return quartiles(self.seconds)


def cases(parts: Sequence[str], rows: Sequence[int], sizes: Sizes) -> Iterator[Case]:
    """One after the other: the memory of each may go before the next is made."""
    rng, blocks = np.random.default_rng(SEED), RandomBlocks(SEED)
    if "linear" in parts:
        for type_name in LINEAR_TYPES:
            yield from _linear(type_name, rows, sizes, rng, blocks)
    if "experts" in parts:
        for name in EXPERT_TYPES:
            yield from _experts(name, rows, sizes, rng, blocks)
    if "attention" in parts:
        yield from (_attention(count, sizes, rng) for count in rows)
    if "indexer" in parts:
        yield from (_indexer(count, sizes, rng) for count in rows)
    if "quantise" in parts:
        yield from (_quantise(count, sizes, rng) for count in rows)


def measure_case(case: Case, ops: Sequence[CpuOps], repeats: int, budget_s: float) -> Iterator[KernelSample]:
    """At each level in turn, `repeats` times, fewer where that takes longer than the budget of each level."""
    seconds: list[list[float]] = [[] for _ in ops]
    for one in ops:
        case.run(one)  # warm-up
    for number in range(repeats):
        for one, found in zip(ops, seconds, strict=True):
            if number >= MIN_REPEATS and sum(found) > budget_s:
                continue
            start = perf_counter()
            case.run(one)
            found.append(perf_counter() - start)
    for one, found in zip(ops, seconds, strict=True):
        counts = case.bytes_read, case.operations, case.arithmetic, case.is_cached
        yield KernelSample(case.part, case.name, case.rows, *counts, one.level, tuple(found))


def _linear(
    type_name: str, rows: Sequence[int], sizes: Sizes, rng: np.random.Generator, blocks: RandomBlocks
) -> Iterator[Case]:
    type_ = GgmlType[type_name]
    out = max(sizes.linear_bytes // type_.row_bytes(sizes.hidden), 1)
    weight = _weight(type_, (out, sizes.hidden), rng, blocks)
    arithmetic = "f32" if type_name in FLOAT_TYPES else "int8"
    for count in rows:
        # Many rows compute long enough with a part of the weights.
        used = weight if count < 64 else _first_rows(weight, min(out, 2048))
        x, shape = _floats(rng, count, sizes.hidden), used.tensor.shape
        operations = 2 * count * shape[0] * shape[1]
        yield Case(
            "linear",
            type_name,
            count,
            used.tensor.data.nbytes,
            operations,
            arithmetic,
            _product(x, used.weight),
        )


def _experts(
    name: str, rows: Sequence[int], sizes: Sizes, rng: np.random.Generator, blocks: RandomBlocks
) -> Iterator[Case]:
    up_type, down_type = (GgmlType[type_name] for type_name in EXPERT_TYPES[name])
    up_shape = (sizes.experts, sizes.inner, sizes.hidden)
    gate, up = (_weight(up_type, up_shape, rng, blocks) for _ in range(2))
    down = _weight(down_type, (sizes.experts, sizes.hidden, sizes.inner), rng, blocks)
    block = ExpertWeights(gate.weight, up.weight, down.weight, 10.0)
    expert_bytes = sum(part.tensor.data.nbytes for part in (gate, up, down)) // sizes.experts
    used = min(sizes.experts_used, sizes.experts)
    for count in rows:
        x, weights = _floats(rng, count, sizes.hidden), np.full((count, used), 1 / used, np.float32)
        turns = [_picks(rng, count, used, sizes.experts) for _ in range(4)]  # calls differ: no expert stays in a cache
        distinct = float(np.mean([len(np.unique(picks)) for picks in turns]))
        operations = 2 * 3 * count * used * sizes.inner * sizes.hidden
        yield Case(
            "experts",
            name,
            count,
            round(distinct * expert_bytes),
            operations,
            "int8",
            _InTurns([_routed(x, picks, weights, block) for picks in turns]),
        )


def _product(x: FloatArray, weight: CpuWeight) -> Call:
    return lambda ops: ops.linear(x, weight)


def _routed(x: FloatArray, picks: IntArray, weights: FloatArray, block: ExpertWeights) -> Call:
    return lambda ops: ops.experts(x, picks, weights, block)


class _InTurns:
    """Calls that take turns."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self._calls = calls
        self._next = 0

    def __call__(self, ops: CpuOps) -> object:
        self._next += 1
        return self._calls[self._next % len(self._calls)](ops)


def _attention(count: int, sizes: Sizes, rng: np.random.Generator) -> Case:
    """A CSA layer: the window, and `picked` of `keys` compressed rows."""
    format = RowFormat(RowKind.PACKED_KV, sizes.head_dim, sizes.rope_dims)
    first = sizes.keys * 4 - count
    positions = np.arange(first, first + count, dtype=np.int32)
    window = _rows(format, sizes.window + count - 1, first - sizes.window + 1, rng)
    compressed = _rows(format, sizes.keys, 0, rng)
    picked = np.sort(np.stack([rng.permutation(sizes.keys)[: sizes.picked] for _ in range(count)]), axis=1)
    counts = np.full(count, sizes.keys, np.int32)
    visible = Visible(positions, sizes.window, counts, np.ascontiguousarray(picked, np.int32))
    queries = _floats(rng, count, sizes.heads, sizes.head_dim)
    turns, sinks = _floats(rng, count, sizes.rope_dims // 2, 2), _floats(rng, sizes.heads)
    keys_seen = sizes.window + min(sizes.picked, sizes.keys)
    operations = 2 * 2 * count * sizes.heads * sizes.head_dim * keys_seen
    return Case(
        "attention",
        f"{keys_seen} keys",
        count,
        count * keys_seen * format.row_bytes,
        operations,
        "f32",
        lambda ops: ops.attention(queries, window, compressed, visible, sinks, turns),
        is_cached=True,
    )


def _indexer(count: int, sizes: Sizes, rng: np.random.Generator) -> Case:
    format = RowFormat(RowKind.PACKED_KEY, sizes.index_dim, sizes.rope_dims)
    keys = _rows(format, sizes.keys, 0, rng)
    counts = np.full(count, sizes.keys, np.int32)
    weights = _floats(rng, count, sizes.index_heads)
    plain, turns = (
        _floats(rng, count, sizes.index_heads * sizes.index_dim),
        _floats(rng, count, sizes.rope_dims // 2, 2),
    )
    queries = CpuOps(1, level="scalar").index_query(plain, sizes.index_heads, turns, format)
    operations = 2 * count * sizes.index_heads * sizes.index_dim * sizes.keys
    return Case(
        "indexer",
        f"{sizes.keys} keys",
        count,
        keys.data.nbytes,
        operations,
        "int8",
        lambda ops: ops.index_pick(queries, weights, keys, counts, sizes.picked),
        is_cached=True,
    )


def _quantise(count: int, sizes: Sizes, rng: np.random.Generator) -> Case:
    x, q = _floats(rng, count, sizes.hidden), np.empty((count, sizes.hidden), np.int8)
    scales = np.empty((count, sizes.hidden // 32), np.float32)
    # Per value: the largest, a product, a rounding. They fit the cache, as in a layer.
    return Case(
        "quantise",
        "int8",
        count,
        x.nbytes,
        3 * x.size,
        "f32",
        lambda ops: ops.kernels.quantize_activations(x, q, scales),
        is_cached=True,
    )


@dataclass(frozen=True, slots=True)
class _Loaded:
    tensor: Tensor
    weight: CpuWeight


def _weight(type_: GgmlType, shape: tuple[int, ...], rng: np.random.Generator, blocks: RandomBlocks) -> _Loaded:
    count = int(np.prod(shape))
    pieces = list(blocks.pieces(type_, count, shape[-1] ** -0.5, rng))
    return _loaded(Tensor("bench", type_, shape, np.concatenate([piece.reshape(-1) for piece in pieces])))


def _loaded(tensor: Tensor) -> _Loaded:
    weight = CpuOps(1, level="scalar").weight(tensor)
    assert isinstance(weight, CpuWeight)
    return _Loaded(tensor, weight)


def _first_rows(loaded: _Loaded, count: int) -> _Loaded:
    tensor = loaded.tensor
    row_bytes = tensor.data.nbytes // tensor.shape[0]
    return _loaded(Tensor("bench", tensor.type, (count, *tensor.shape[1:]), tensor.data[: count * row_bytes]))


def _rows(format: RowFormat, count: int, first: int, rng: np.random.Generator) -> Rows:
    """Stored rows of random values, encoded as the model's are."""
    data = np.empty((count, format.row_bytes), np.uint8)
    stored = Kernels.RowFormat(ROW_KINDS[format.kind], format.dims, format.rope_dims)
    Kernels(1, "scalar").encode_rows(_floats(rng, count, format.dims), stored, data)
    return Rows(format, data, first)


def _picks(rng: np.random.Generator, count: int, used: int, experts: int) -> IntArray:
    picks = np.stack([rng.permutation(experts)[:used] for _ in range(count)])
    return np.ascontiguousarray(picks, np.int32)


def _floats(rng: np.random.Generator, *shape: int) -> FloatArray:
    return rng.standard_normal(shape, np.float32)
