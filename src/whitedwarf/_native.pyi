"""Types of the native module (native/bindings*.cpp). Arrays are C-contiguous and never converted; `out` is written."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from whitedwarf.prompt.segments import Segment, Text
from whitedwarf.prompt.special import SpecialToken

_Floats = npt.NDArray[np.floating]  # float32, or TypeError
_Ints = npt.NDArray[np.int32]
_Bytes = npt.NDArray[np.uint8]

_Newest = tuple[npt.NDArray[Any], int, int]  # buffer, first, keep
_Pooled = tuple[_Newest, _Newest, _Bytes]  # values, gates, rows

class BytePairs:
    def __init__(self, ids: dict[str, int], alphabet: list[str], merges: Sequence[tuple[str, str]]) -> None: ...
    def encode(self, texts: list[str]) -> list[list[int]]: ...

def segment_parts(
    segments: Iterable[Segment],
    text_type: type[Text],
    special_ids: Mapping[SpecialToken, int],
    longest: int,
    cut: Callable[[str], list[str]],
) -> list[str | int]: ...
def joined_ids(parts: list[str | int], known: Mapping[str, list[int]]) -> list[int]: ...

class Matrix:
    def __init__(self, data: _Bytes, type: int, shape: tuple[int, ...]) -> None: ...
    @property
    def type(self) -> int: ...
    @property
    def shape(self) -> tuple[int, ...]: ...

class ScatteredMatrix:
    def __init__(self, type: int, shape: tuple[int, ...]) -> None: ...
    def put(self, expert: int, bytes: _Bytes) -> None: ...
    def clear(self, expert: int) -> None: ...
    @property
    def type(self) -> int: ...
    @property
    def shape(self) -> tuple[int, ...]: ...

class Kernels:
    class RowFormat:
        def __init__(self, kind: int, dims: int, rope_dims: int) -> None: ...
        @property
        def row_bytes(self) -> int: ...

    class Buffers:
        def __init__(self, layers: Sequence[tuple[_Newest, _Pooled | None, _Pooled | None]]) -> None: ...

    class Spans:
        def __init__(self, buffers: list[Kernels.Buffers], starts: _Ints, counts: _Ints) -> None: ...

    def __init__(self, threads: int = 0, level: str = "auto") -> None: ...
    @staticmethod
    def available_levels() -> list[str]: ...
    @property
    def level(self) -> str: ...
    @property
    def threads(self) -> int: ...

    # The processor itself (bindings_peaks.cpp)
    @staticmethod
    def peaks() -> list[str]: ...
    def run_peak(self, level: str, arithmetic: str, rounds: int) -> int: ...

    # Weight matrices (bindings.cpp)
    def linear(self, x: _Floats, w: Matrix, out: _Floats, quality: bool) -> None: ...
    def grouped_linear(self, x: _Floats, w: Matrix, out: _Floats, groups: int, quality: bool) -> None: ...
    def read_all(self, bytes: _Bytes) -> int: ...

    # Experts (bindings_experts.cpp)
    def experts(
        self,
        x: _Floats,
        ids: _Ints,
        weights: _Floats,
        routed: tuple[Matrix, Matrix, Matrix, float],
        shared: tuple[Matrix, Matrix, Matrix, float] | None,
        out: _Floats,
        quality: bool,
    ) -> None: ...
    def add_experts(
        self,
        x: _Floats,
        ids: _Ints,
        weights: _Floats,
        routed: tuple[ScatteredMatrix, ScatteredMatrix, ScatteredMatrix, float],
        shared: tuple[Matrix, Matrix, Matrix, float] | None,
        out: _Floats,
        is_met: _Bytes,
        quality: bool,
    ) -> None: ...

    # Encoders (bindings_quantize.cpp)
    def encode(self, type: int, values: _Floats, importances: _Floats | None, out: _Bytes) -> tuple[bool, float]: ...
    def embed(self, w: Matrix, ids: _Ints, out: _Floats) -> None: ...
    def dequantize(self, w: Matrix, out: _Floats) -> None: ...
    def quantize_activations(self, x: _Floats, q: npt.NDArray[np.int8], scales: _Floats) -> None: ...

    # Everything else of a layer (bindings_attention.cpp)
    def rms_norm(self, x: _Floats, weight: _Floats, epsilon: float, out: _Floats) -> None: ...
    def hyper_in(
        self,
        streams: _Floats,
        mix: Matrix,
        base: _Floats,
        scale: _Floats,
        norm: _Floats,
        rms_epsilon: float,
        epsilon: float,
        iterations: int,
        out: _Floats,
        post: _Floats,
        combination: _Floats,
        quality: bool,
    ) -> None: ...
    def hyper_out(
        self, streams: _Floats, output: _Floats, post: _Floats, combination: _Floats, out: _Floats
    ) -> None: ...
    def hyper_head(
        self,
        streams: _Floats,
        mix: Matrix,
        base: _Floats,
        scale: _Floats,
        norm: _Floats,
        rms_epsilon: float,
        epsilon: float,
        out: _Floats,
        quality: bool,
    ) -> None: ...
    def query(self, x: _Floats, heads: int, turns: _Floats, epsilon: float, out: _Floats) -> None: ...
    def kv_rows(
        self, x: _Floats, norm: _Floats, turns: _Floats, epsilon: float, format: RowFormat, out: _Bytes
    ) -> None: ...
    def encode_rows(self, x: _Floats, format: RowFormat, out: _Bytes) -> None: ...
    def decode_rows(self, data: _Bytes, format: RowFormat, out: _Floats) -> None: ...
    def compress(
        self,
        values: _Floats,
        gates: _Floats,
        first: int,
        first_group: int,
        end_group: int,
        ratio: int,
        ape: _Floats,
        norm: _Floats,
        turns: _Floats,
        epsilon: float,
        format: RowFormat,
        out: _Bytes,
    ) -> None: ...
    def index_query(self, x: _Floats, heads: int, turns: _Floats, is_packed: bool, out: _Floats) -> None: ...
    def index_pick(
        self, queries: _Floats, weights: _Floats, keys: _Bytes, format: RowFormat, counts: _Ints, out: _Ints
    ) -> None: ...
    def attention(
        self,
        queries: _Floats,
        window: _Bytes,
        window_format: RowFormat,
        window_first: int,
        compressed: _Bytes | None,
        compressed_format: RowFormat,
        compressed_first: int,
        positions: _Ints,
        window_length: int,
        counts: _Ints | None,
        picked: _Ints | None,
        sinks: _Floats,
        turns: _Floats,
        out: _Floats,
    ) -> None: ...
    def route(
        self,
        logits: _Floats,
        bias: _Floats | None,
        table: _Ints | None,
        ids: _Ints,
        scale: float,
        normalise: bool,
        experts: _Ints,
        weights: _Floats,
    ) -> None: ...

    # Over all spans of a pass (bindings_spans.cpp)
    def pool(
        self,
        spans: Spans,
        layer: int,
        pool: int,
        values: _Floats,
        gates: _Floats,
        ratio: int,
        ape: _Floats,
        norm: _Floats,
        turns: _Floats,
        epsilon: float,
        format: RowFormat,
    ) -> None: ...
    def pick(
        self, spans: Spans, layer: int, queries: _Floats, weights: _Floats, format: RowFormat, counts: _Ints, out: _Ints
    ) -> None: ...
    def attend(
        self,
        spans: Spans,
        layer: int,
        queries: _Floats,
        rows: _Bytes,
        format: RowFormat,
        positions: _Ints,
        window_length: int,
        counts: _Ints | None,
        picked: _Ints | None,
        sinks: _Floats,
        turns: _Floats,
        out: _Floats,
    ) -> None: ...

    # Several operations in one call (bindings_fused.cpp)
    def linears(
        self,
        x: _Floats,
        norm: _Floats | None,
        epsilon: float,
        weights: list[Matrix],
        outs: list[_Floats],
        quality: bool,
    ) -> None: ...
    def grouped_then_linear(
        self, x: _Floats, first: Matrix, groups: int, second: Matrix, out: _Floats, quality: bool
    ) -> None: ...
