"""Rows of sequences in MLX's memory, which on a Mac is the machine's.

An `mx.array` is a value; assigning to a part of it gives the same Python object a new value, in the old memory where
nobody else holds that. A slice keeps the value it was taken of, unlike numpy's: nothing relies on either.

MLX computes when it must, and what one thread asked for and has not computed no other thread can. So what is written
here is computed at once, but within a pass: a pass computes everything it wrote when it ends.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from whitedwarf.ops.spans import Array


class MlxRows:
    """A buffer (count, width). Its handles (model/rows.py, AppendedRows.share) all see what any of them writes."""

    __slots__ = ("_memory", "array")

    def __init__(self, array: mx.array, memory: "MlxMemory") -> None:
        self.array = array
        self._memory = memory

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    @property
    def nbytes(self) -> int:
        return int(self.array.nbytes)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> mx.array:
        return self.array[key]

    def __setitem__(self, key: Any, rows: Any) -> None:
        self.array[key] = rows.array if isinstance(rows, MlxRows) else rows
        self._memory.has_written(self)


class MlxMemory(threading.local):
    """Of each thread, which buffers the pass it is in has written."""

    def __init__(self) -> None:
        self._written: dict[int, MlxRows] | None = None  # by identity; None outside a pass

    @contextmanager
    def passing(self) -> Iterator[None]:
        """What is written within is computed at the end."""
        self._written = {}
        try:
            yield
            mx.eval([rows.array for rows in self._written.values()])
        finally:
            self._written = None

    def has_written(self, rows: MlxRows) -> None:
        if self._written is None:
            mx.eval(rows.array)
        else:
            self._written[id(rows)] = rows

    def empty(self, count: int, width: int, dtype: npt.DTypeLike) -> Any:
        """Zeros: an attention that looks at a block of rows multiplies those not yet written by nothing."""
        return self._made(mx.zeros((count, width), mx.uint8 if np.dtype(dtype) == np.uint8 else mx.float32))

    def copy(self, rows: Array) -> Any:
        return self._made(mx.add(rows, mx.zeros((1,), rows.dtype)))  # a slice would keep the whole buffer

    def join(self, first: Array, second: Array) -> Array:
        return mx.concatenate([first, second])

    def to_host(self, rows: Array) -> Array:
        return np.array(rows)

    def to_device(self, rows: Array) -> Array:
        return mx.array(np.ascontiguousarray(rows))

    def _made(self, array: mx.array) -> MlxRows:
        mx.eval(array)
        return MlxRows(array, self)
