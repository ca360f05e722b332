"""Rows of sequences in MLX's memory, which on a Mac is the machine's.

An `mx.array` is a value; assigning to a part of it gives the same Python object a new value, in the old memory where
nobody else holds that. Two handles on one buffer (model/rows.py, AppendedRows.share) hold one Python object, so both
see what either writes, as with numpy. A slice keeps the value it was taken of, unlike numpy's: nothing relies on that.

Threads: what has not been evaluated can only be evaluated in the thread that asked for it. Everything made here is
evaluated at once, and a pass evaluates what it wrote (ops/mlx_ops.py, `passing`).
"""

import mlx.core as mx
import numpy as np
import numpy.typing as npt

from whitedwarf.ops.spans import Array


class MlxMemory:
    """Made once; holds nothing."""

    def empty(self, count: int, width: int, dtype: npt.DTypeLike) -> Array:
        """Zeros: an attention that looks at a block of rows multiplies those not yet written by nothing."""
        return _made(mx.zeros((count, width), mx.uint8 if np.dtype(dtype) == np.uint8 else mx.float32))

    def copy(self, rows: Array) -> Array:
        return _made(mx.add(rows, mx.zeros((1,), rows.dtype)))  # a slice of its own would keep all of the buffer

    def join(self, first: Array, second: Array) -> Array:
        return mx.concatenate([first, second])

    def to_host(self, rows: Array) -> Array:
        return np.array(rows)

    def to_device(self, rows: Array) -> Array:
        return mx.array(np.ascontiguousarray(rows))


MEMORY = MlxMemory()


def _made(rows: mx.array) -> Array:
    mx.eval(rows)
    return rows
