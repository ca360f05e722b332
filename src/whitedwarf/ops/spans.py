"""What the operations over all spans of a pass see: where each sequence keeps its rows, and where a span's rows lie.

The stores themselves are the model's (model/rows.py, model/state.py); before a pass they have room for what it adds.
"""

from collections.abc import Sequence
from enum import Enum
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
SLACK_ROWS = 64  # more rows at once are joined with the newest outside their buffer


class RowMemory(Protocol):
    """Where the rows of sequences lie: here, or on a device. Its arrays are sliced and assigned to like numpy's."""

    def empty(self, count: int, width: int, dtype: npt.DTypeLike) -> Array:
        """Undefined rows (count, width) of uint8 or float32."""

    def copy(self, rows: Array) -> Array:
        """The same rows in memory of their own."""

    def join(self, first: Array, second: Array) -> Array:
        """Both, one after the other."""

    def to_host(self, rows: Array) -> Array:
        """As numpy's; may be a view."""

    def to_device(self, rows: Array) -> Array:
        """Numpy's rows as those of this memory; may be a view."""


class HostMemory:
    """Numpy's own."""

    def empty(self, count: int, width: int, dtype: npt.DTypeLike) -> Array:
        return np.empty((count, width), dtype)

    def copy(self, rows: Array) -> Array:
        return rows.copy()

    def join(self, first: Array, second: Array) -> Array:
        return np.concatenate([first, second])

    def to_host(self, rows: Array) -> Array:
        return rows

    def to_device(self, rows: Array) -> Array:
        return rows


HOST = HostMemory()


class NewestRows(Protocol):
    """The newest rows of a sequence: see model/rows.py, SlidingRows."""

    keep: int
    first: int
    buffer: Array

    def extend(self, index: int, rows: Array) -> tuple[Array, int]: ...
    def replaced(self, index: int, num_rows: int) -> None: ...


class AllRows(Protocol):
    """Rows that are only appended: see model/rows.py, AppendedRows."""

    buffer: Array

    def extend(self, index: int, rows: Array) -> None: ...
    def upto(self, count: int) -> Array: ...


class PooledStore(Protocol):
    """Rows made of closed windows, and what open ones are made of."""

    @property
    def values(self) -> NewestRows: ...
    @property
    def gates(self) -> NewestRows: ...
    @property
    def rows(self) -> AllRows: ...


class LayerStore(Protocol):
    """One layer of one sequence."""

    @property
    def window(self) -> NewestRows: ...
    @property
    def compressor(self) -> PooledStore | None: ...
    @property
    def indexer(self) -> PooledStore | None: ...


class Stores(Protocol):
    """A sequence. `bound` is a backend's own view of its buffers; whoever replaces one of them drops it."""

    bound: object | None

    @property
    def ratios(self) -> Sequence[int]:
        """How many positions make a pooled row, layer by layer; 0 = it keeps none."""

    @property
    def layers(self) -> Sequence[LayerStore]: ...


class SpanRows(Protocol):
    """One span of a pass: rows of the batch, and the position of the first of them in its sequence."""

    @property
    def state(self) -> Stores: ...
    @property
    def rows(self) -> slice: ...
    @property
    def start(self) -> int: ...
    @property
    def num_tokens(self) -> int: ...
    @property
    def end(self) -> int: ...


class Spans(Protocol):
    """A backend's own handle on all spans of a pass."""

    @property
    def parts(self) -> Sequence[SpanRows]: ...


class Pool(Enum):
    """Which of a layer's two pooled stores."""

    ROWS = 0  # what attention reads
    KEYS = 1  # what the indexer scores


def store_of(layer: LayerStore, pool: Pool) -> PooledStore:
    """The store that a layer of this kind must have."""
    store = layer.compressor if pool is Pool.ROWS else layer.indexer
    if store is None:
        raise ValueError(f"this layer keeps no pooled {pool.name.lower()}")
    return store


def closed_windows(parts: Sequence[SpanRows], ratio: int) -> npt.NDArray[np.int32]:
    """First positions of the windows that close in this pass, span after span."""
    groups = ((part.start // ratio, part.end // ratio) for part in parts)
    closed = [np.arange(first, end, dtype=np.int32) for first, end in groups if first < end]
    return np.concatenate(closed) * np.int32(ratio) if closed else np.empty(0, np.int32)
