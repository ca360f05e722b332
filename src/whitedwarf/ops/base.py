"""The operations a backend must provide, and what each one means.

The model (model/) is written once in terms of these; a backend (ops/reference.py, ops/cpu.py, ...) does the
arithmetic. Arrays are C-contiguous. n = rows of the batch, D = hidden size, S = 4 streams, H = heads, d = head_dim,
G = output groups.

Promises every backend keeps:
* a row's result does not depend on the other rows of the call, on their number, or on the number of threads; where a
  device multiplies many rows otherwise than few (ops/triton/), that holds among few and among many;
* float tolerance against ops/reference.py in float64: 1e-5 of the result's norm where the weights are used as floats,
  6e-3 where the inputs of a product are rounded to bf16;
* stored rows (`RowFormat`) decode to the same numbers in every backend.

The arrays are numpy's, or what a backend has in their place: the model only hands them on, asks for their shape and
`len`, cuts rows and multiplies by numbers.

Sections in parentheses are those of the fact sheet of the network: the paper's equations in plain numbers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from whitedwarf.ops.spans import Pool, RowMemory, SpanRows, Spans
from whitedwarf.weights.tensors import Tensor

FloatArray = npt.NDArray[np.floating]
IntArray = npt.NDArray[np.int32]
ByteArray = npt.NDArray[np.uint8]


class RowKind(Enum):
    """How a KV row or an index key lies in memory."""

    F32 = "f32"
    F16 = "f16"
    PACKED_KV = "packed-kv"  # e4m3 in blocks of 64 with e8m0 scales, then the rotary tail untouched as f32 (2.7)
    PACKED_KV_F16 = "packed-kv-f16"  # the same with the rotary tail rounded to f16
    PACKED_KEY = "packed-key"  # Hadamard-rotated e2m1 in blocks of 32 with e8m0 scales (2.7)


KV_BLOCK = 64
KEY_BLOCK = 32


@dataclass(frozen=True, slots=True)
class RowFormat:
    """Layout of one stored row of `dims` values whose last `rope_dims` are rotary."""

    kind: RowKind
    dims: int
    rope_dims: int

    @property
    def row_bytes(self) -> int:
        """Bytes of one row: 711 for a packed row of 512 (583 with f16 tail), 68 for a packed key of 128."""
        match self.kind:
            case RowKind.F32:
                return 4 * self.dims
            case RowKind.F16:
                return 2 * self.dims
            case RowKind.PACKED_KV | RowKind.PACKED_KV_F16:
                plain = self.dims - self.rope_dims
                tail_bytes = 4 if self.kind is RowKind.PACKED_KV else 2
                return plain + -(-plain // KV_BLOCK) + tail_bytes * self.rope_dims
            case RowKind.PACKED_KEY:
                return self.dims // 2 + -(-self.dims // KEY_BLOCK)


@dataclass(frozen=True, slots=True)
class Rows:
    """Stored rows of one sequence: row i stands for position (or compressed row) `first + i`."""

    format: RowFormat
    data: ByteArray  # (count, row_bytes)
    first: int


class Weight(Protocol):
    """A backend's own handle on one tensor."""

    @property
    def shape(self) -> tuple[int, ...]: ...


@dataclass(frozen=True, slots=True)
class HyperWeights:
    """Parameters of one hyper-connection around a sub-layer (2.2)."""

    mix: Weight  # (24, 4 D)
    base: FloatArray  # (24,)
    scale: FloatArray  # (3,): pre, post, combination
    norm: FloatArray  # (D,): the sub-layer's own RMSNorm, applied to its input


@dataclass(frozen=True, slots=True)
class HyperHeadWeights:
    """Parameters of the final mix of the streams (2.8)."""

    mix: Weight  # (4, 4 D)
    base: FloatArray  # (4,)
    scale: FloatArray  # (1,)
    norm: FloatArray  # (D,)


@dataclass(frozen=True, slots=True)
class HyperSettings:
    """Numbers shared by all hyper-connections of a model."""

    rms_epsilon: float
    epsilon: float
    iterations: int


@dataclass(frozen=True, slots=True)
class HyperMix:
    """What `hyper_in` hands to `hyper_out`: how the sub-layer's output goes back into the streams."""

    post: FloatArray  # (n, S)
    combination: FloatArray  # (n, S, S): [source, destination]


@dataclass(frozen=True, slots=True)
class RouterWeights:
    """Parameters of one router: exactly one of `bias` and `table` is used; neither means plain top scores."""

    gate: Weight  # (E, D)
    bias: FloatArray | None  # (E,) selects, never weighs
    table: IntArray | None  # (V, k) experts by token id
    num_used: int
    scale: float
    normalise: bool


@dataclass(frozen=True, slots=True)
class ExpertWeights:
    """A SwiGLU block; of routed experts stacked on the first axis, or of the shared one."""

    gate: Weight  # ([E,] F, D)
    up: Weight  # ([E,] F, D)
    down: Weight  # ([E,] D, F)
    limit: float  # clamp of gate (above) and up (both sides); inf = none


@dataclass(frozen=True, slots=True)
class Groups:
    """Compressed rows to make: indices first .. end-1, each over `ratio` positions."""

    first: int
    end: int
    ratio: int


@dataclass(frozen=True, slots=True)
class Pooling:
    """How windows of `ratio` tokens become stored rows (2.4)."""

    ratio: int
    ape: FloatArray  # (ratio, c d): added to the gates by position in the window
    norm: FloatArray  # (d,)
    epsilon: float
    format: RowFormat


@dataclass(frozen=True, slots=True)
class Visible:
    """What each query may see: its window, and compressed rows below its count or those picked for it."""

    positions: IntArray  # (n,) of the queries
    window: int
    counts: IntArray | None = None  # (n,) compressed rows visible
    picked: IntArray | None = None  # (n, k) ascending compressed rows, padded with -1; None = all below counts
    most: int = 0  # no count is larger

    def of(self, rows: slice) -> "Visible":
        """The same of some queries."""
        counts = None if self.counts is None else self.counts[rows]
        picked = None if self.picked is None else self.picked[rows]
        return Visible(self.positions[rows], self.window, counts, picked, self.most)


class Pass(Protocol):
    """What a backend may know of a pass as a whole."""

    @property
    def is_decode(self) -> bool:
        """One new token of every sequence, whose logits are wanted, and nobody looks on."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers that decide its shapes beside the number of sequences."""


P = TypeVar("P", bound=Pass)
A = TypeVar("A", bound=npt.NDArray[Any])


class Ops(Protocol):
    """A backend. See the module docstring for the promises."""

    @property
    def name(self) -> str: ...

    def weight(self, tensor: Tensor) -> Weight:
        """Take a tensor in, in place where the backend can."""

    def vector(self, tensor: Tensor) -> FloatArray:
        """Decode a small parameter to a float array of the backend's working precision."""

    def parameter(self, values: A) -> A:
        """Numbers that stay, such as a direction to steer along, as an array of the backend."""

    def memory(self, layer: int) -> RowMemory:
        """Where this layer's rows of a sequence lie."""

    def arrays(self, *values: npt.NDArray[np.generic]) -> tuple[npt.NDArray[np.generic], ...]:
        """Numbers of a pass as arrays of the backend, which are good until the next pass begins."""

    def host(self, x: FloatArray) -> FloatArray:
        """Numbers of the backend as numpy's; may be the same memory."""

    def visible_rows(self, count: int) -> int:
        """For how many compressed rows a pass should be made that looks at `count`: as many, or a few more."""

    def closing_windows(self, count: int, num_spans: int, num_rows: int) -> int:
        """Likewise for `count` windows that close in a pass of so many spans and rows."""

    def passing(self, run: Callable[[P], FloatArray], batch: P) -> FloatArray:
        """run(batch), or what comes to the same: a recording of it with the numbers of this pass."""

    def embed(self, table: Weight, ids: IntArray) -> FloatArray:
        """Rows `ids` of the (V, D) table -> (n, D)."""

    def spread(self, x: FloatArray, streams: int) -> FloatArray:
        """(n, D) -> (n, S, D), the same in every stream."""

    def take_rows(self, x: FloatArray, rows: Sequence[int]) -> FloatArray:
        """x[rows]."""

    def steer(self, y: FloatArray, direction: FloatArray, scale: float) -> FloatArray:
        """y - scale * v * (v . y) for every row (n, D), a new array."""

    def linear(self, x: FloatArray, weight: Weight) -> FloatArray:
        """(n, in) by (out, in) -> (n, out)."""

    def linears(
        self, x: FloatArray, weights: Sequence[Weight], norm: FloatArray | None = None, epsilon: float = 0.0
    ) -> list[FloatArray]:
        """`linear` with each of the weights: of x, or, with `norm`, of rms_norm(x, norm, epsilon)."""

    def grouped_then_linear(self, x: FloatArray, first: Weight, groups: int, second: Weight) -> FloatArray:
        """linear(grouped_linear(x, first, groups), second)."""

    def grouped_linear(self, x: FloatArray, weight: Weight, groups: int) -> FloatArray:
        """(n, G in) by (G out, in) -> (n, G out): group g of the outputs reads group g of the inputs (2.3)."""

    def rms_norm(self, x: FloatArray, weight: FloatArray, epsilon: float) -> FloatArray:
        """x / sqrt(mean(x^2) + epsilon) * weight over the last axis."""

    def hyper_in(
        self, streams: FloatArray, weights: HyperWeights, settings: HyperSettings
    ) -> tuple[FloatArray, HyperMix]:
        """(n, S, D) -> the sub-layer's normed input (n, D), and the mix for `hyper_out` (2.2, steps 1-5)."""

    def hyper_out(self, streams: FloatArray, output: FloatArray, mix: HyperMix) -> FloatArray:
        """Put the sub-layer's output (n, D) back: post_k y + sum_j C[j, k] X[j] -> (n, S, D) (2.2, step 6).

        The result may be in the memory of `streams`, which the caller gives up.
        """

    def hyper_out_in(
        self, streams: FloatArray, output: FloatArray, mix: HyperMix, weights: HyperWeights, settings: HyperSettings
    ) -> tuple[FloatArray, FloatArray, HyperMix]:
        """`hyper_out`, then `hyper_in` of the next sub-layer -> new streams, its input and its mix."""

    def hyper_head(self, streams: FloatArray, weights: HyperHeadWeights, settings: HyperSettings) -> FloatArray:
        """Mix the streams into one normed vector (n, D) for the head (2.8)."""

    def query(self, x: FloatArray, heads: int, turns: FloatArray, epsilon: float) -> FloatArray:
        """(n, H d) -> (n, H, d): weightless RMS norm per head, then the rotary tail turned (2.3)."""

    def kv_rows(
        self, x: FloatArray, norm: FloatArray, turns: FloatArray, epsilon: float, format: RowFormat
    ) -> ByteArray:
        """(n, d) -> stored rows (n, row_bytes): RMSNorm, rotary tail turned, rounded as the format says (2.3, 2.7)."""

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
        """Pool the windows of `groups` into stored rows (groups, row_bytes) (2.4).

        values, gates: (m, c d) of positions first .. first+m-1, gates without ape. c = 2 overlaps the previous window;
        positions below 0 count as gate -inf. turns: (groups, rope/2, 2) at each window's first position.
        """

    def index_query(self, x: FloatArray, heads: int, turns: FloatArray, format: RowFormat) -> FloatArray:
        """(n, heads d) -> (n, heads, d): rotary tail turned; Hadamard and FP4 rounding if the keys are packed (2.5)."""

    def index_pick(self, queries: FloatArray, weights: FloatArray, keys: Rows, counts: IntArray, top: int) -> IntArray:
        """The `top` best keys below each count -> (n, top) ascending, padded with -1; ties go to the lowest row (2.5).

        queries (n, heads, d), weights (n, heads) already scaled.
        """

    def attention(
        self,
        queries: FloatArray,
        window: Rows,
        compressed: Rows | None,
        visible: Visible,
        sinks: FloatArray,
        turns: FloatArray,
    ) -> FloatArray:
        """(n, H, d) -> (n, H d): softmax with sinks over window and compressed rows, rotary tail turned back (2.3)."""

    def route(self, x: FloatArray, router: RouterWeights, ids: IntArray) -> tuple[IntArray, FloatArray]:
        """(n, D) -> experts (n, k) and their weights (n, k) (2.6)."""

    def experts(
        self,
        x: FloatArray,
        experts: IntArray,
        weights: FloatArray,
        routed: ExpertWeights,
        shared: ExpertWeights | None = None,
    ) -> FloatArray:
        """Sum of the routed experts' outputs (n, D), then the shared one's if there is one (2.6).

        A weight goes in before `down`.
        """

    def spans(self, parts: Sequence[SpanRows]) -> Spans:
        """Take in the spans of a pass, whose stores have room for it. The next three operations work on all of them."""

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
        """Put every span's values and gates (n, c d) behind its earlier ones, and append a row for each closed window.

        `compress` span by span; turns: (closing_windows, rope/2, 2) at the first positions of the windows, span after
        span.
        """

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
        """`index_pick` span by span, no count above `most`; None = everybody may see all that is visible to it."""

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
        """Put every span's new rows (n, row_bytes) into its window, then `attention` span by span.

        `visible` is of all queries; with counts, its layer keeps compressed rows in the format of the window's.
        """

    def decode_rows(self, rows: Rows) -> FloatArray:
        """Stored rows back to floats (count, dims): for snapshots, tests and tools."""
