"""Softmax with sinks over a window and compressed rows, each row key and value at once (2.3).

Keys are taken in blocks of fixed places, and a block that a query sees nothing of changes nothing of its result: so it
does not depend on how many rows are held beyond those it sees, nor on where the buffer of the window begins.
"""

from collections.abc import Iterator

import mlx.core as mx

from whitedwarf.ops.base import RowFormat
from whitedwarf.ops.mlx_twins.rows import decode_rows, turn

QUERIES = 32  # at once
KEYS = 64  # of a block


def attention(
    queries: mx.array,
    window: mx.array,
    first: int,
    compressed: mx.array | None,
    format: RowFormat,
    positions: mx.array,
    length: int,
    counts: mx.array | None,
    picked: mx.array | None,
    sinks: mx.array,
    turns: mx.array,
) -> mx.array:
    """(n, H, d) -> (n, H d), the rotary tail turned back.

    window: stored rows (held, row_bytes) of positions first, first + 1, ..; compressed: (rows, row_bytes); positions
    (n,) of the queries, each of which sees `length` positions up to its own; counts (n,) compressed rows visible;
    picked (n, k) those seen instead, padded with -1; sinks (H,); turns (n, rope/2, 2).
    """
    n, heads, width = queries.shape
    recent = _Rows(window, format, min(n, QUERIES) * length)
    has_pooled = compressed is not None and compressed.shape[0] > 0
    pooled = _Rows(compressed, format, 0 if picked is None else picked.size) if has_pooled else None
    outputs = []
    for start in range(0, n, QUERIES):
        part = slice(start, start + QUERIES)
        state = _Softmax(queries[part] * width**-0.5, sinks)
        own = positions[part]
        for rows, seen in _window_blocks(own, first, length):
            state.add(recent.at(rows), seen)
        if pooled is not None and counts is not None:
            own_picked = None if picked is None else picked[part]
            for keys, seen in _pooled_blocks(pooled, counts[part], own_picked):
                state.add(keys, seen)
        outputs.append(state.result())
        mx.eval(outputs[-1])  # what was decoded for it is not needed any longer
    turned = turn(mx.concatenate(outputs), turns[:, None], sign=-1)
    return turned.reshape(n, heads * width)


class _Softmax:
    """A softmax that sees its keys block by block."""

    def __init__(self, queries: mx.array, sinks: mx.array) -> None:
        self.queries = queries  # (n, H, d), scaled
        self.top = mx.broadcast_to(sinks[:, None], (*queries.shape[:2], 1))  # (n, H, 1)
        self.total = mx.ones_like(self.top)
        self.sum = mx.zeros_like(queries)

    def add(self, keys: mx.array, seen: mx.array) -> None:
        """Keys ([n,] K, d), and which of them each query sees: (n, K)."""
        keys = keys if keys.ndim == 3 else keys[None]
        scores = self.queries @ mx.contiguous(keys.swapaxes(1, 2))
        scores = mx.where(seen[:, None, :], scores, -mx.inf)  # (n, H, K)
        top = mx.maximum(self.top, scores.max(axis=2, keepdims=True))
        kept, shares = mx.exp(self.top - top), mx.exp(scores - top)
        self.sum = self.sum * kept + shares @ keys
        self.total = self.total * kept + shares.sum(axis=2, keepdims=True)
        self.top = top

    def result(self) -> mx.array:
        return self.sum / self.total


class _Rows:
    """Stored rows, decoded all at once if they are fewer than those that will be asked for."""

    def __init__(self, data: mx.array, format: RowFormat, num_asked: int) -> None:
        self.data = data
        self.format = format
        self._decoded = decode_rows(data, format) if data.shape[0] <= num_asked else None

    def at(self, places: mx.array) -> mx.array:
        """Places (..) -> (.., d)."""
        flat = places.reshape(-1)
        rows = decode_rows(self.data[flat], self.format) if self._decoded is None else self._decoded[flat]
        return rows.reshape(*places.shape, -1)

    def between(self, start: int, end: int) -> mx.array:
        """(end - start, d), of zeros where there are no rows."""
        rows = decode_rows(self.data[start:end], self.format) if self._decoded is None else self._decoded[start:end]
        return mx.pad(rows, ((0, end - start - rows.shape[0]), (0, 0)))


def _window_blocks(positions: mx.array, first: int, length: int) -> Iterator[tuple[mx.array, mx.array]]:
    """Rows of the buffer of each query's window, oldest first: (n, KEYS), and which of them there are."""
    for start in range(0, length, KEYS):
        offsets = mx.arange(start, min(start + KEYS, length), dtype=mx.int32)
        absolute = positions[:, None] - (length - 1) + offsets
        yield mx.maximum(absolute - first, 0), absolute >= 0


def _pooled_blocks(rows: _Rows, counts: mx.array, picked: mx.array | None) -> Iterator[tuple[mx.array, mx.array]]:
    """Blocks of compressed rows, ([n,] KEYS, d), and which of them each query sees."""
    if picked is None:
        for start in range(0, rows.data.shape[0], KEYS):
            yield rows.between(start, start + KEYS), start + mx.arange(KEYS, dtype=mx.int32) < counts[:, None]
        return
    for start in range(0, picked.shape[1], KEYS):
        places = picked[:, start : start + KEYS]
        places = mx.pad(places, ((0, 0), (0, KEYS - places.shape[1])), constant_values=-1)
        yield rows.at(mx.maximum(places, 0)), places >= 0
