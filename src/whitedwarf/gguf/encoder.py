"""Numbers to the bytes of a tensor type, as fast as this machine can: the native searches, or `codecs` without them.

Promises the bytes of `codecs.encode`, whichever encoder it is, and its refusals. An encoder belongs to one thread.
"""

from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from whitedwarf.gguf import codecs
from whitedwarf.gguf.codecs_plain import beyond_float16, not_finite
from whitedwarf.gguf.column_weights import column_energy, prepared
from whitedwarf.gguf.types import GgmlType

if TYPE_CHECKING:
    from whitedwarf._native import Kernels

ENCODING = "encoding 1"  # counts up when numbers encode to other bytes than before: unfinished work then begins anew

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]


class Encoder(Protocol):
    """What encodes; see `codecs.encode` for the arguments and what is refused."""

    def encode(self, values: Floats, type: GgmlType, weights: Floats | None = None) -> Bytes:
        """(..., columns) float32 -> bytes, 1-D."""


class ReferenceEncoder:
    """`codecs.encode`: slow where there is a search."""

    def encode(self, values: Floats, type: GgmlType, weights: Floats | None = None) -> Bytes:
        """See `codecs.encode`."""
        return codecs.encode(values, type, weights)


class NativeEncoder:
    """The native encoders, on all threads of `kernels`."""

    def __init__(self, kernels: "Kernels") -> None:
        self._kernels = kernels

    def encode(self, values: Floats, type: GgmlType, weights: Floats | None = None) -> Bytes:
        """See `codecs.encode`."""
        if type not in codecs.ENCODABLE_TYPES or type is GgmlType.F32 or values.ndim == 0:
            return codecs.encode(values, type, weights)
        type.row_bytes(values.shape[-1])
        if weights is None and type is GgmlType.IQ2_XXS:
            weights = column_energy(values)
        values = np.ascontiguousarray(values, np.float32)
        out = np.empty(values.size // type.block_size * type.block_bytes, np.uint8)
        start = 0
        for matrix, importances in _matrices(values, type, weights):
            end = start + matrix.size // type.block_size * type.block_bytes
            has_infinity, largest = self._kernels.encode(int(type), matrix.reshape(-1), importances, out[start:end])
            if has_infinity:
                raise not_finite()
            if largest:
                raise beyond_float16(largest)
            start = end
        return out


def make_encoder(threads: int = 0) -> Encoder:
    """The fastest encoder there is here; `threads` 0: one a core."""
    try:
        from whitedwarf._native import Kernels
    except ImportError:
        return ReferenceEncoder()
    if not hasattr(Kernels, "encode"):  # an editable install whose native part was not built again
        return ReferenceEncoder()
    return NativeEncoder(Kernels(threads))


def _matrices(values: Floats, type: GgmlType, weights: Floats | None) -> Iterator[tuple[Floats, Floats | None]]:
    """Parts of `values` under the same importances, and those, 1-D: one a column, or one a value."""
    if weights is None:
        yield values, None
        return
    ready = prepared(weights, type.block_size)
    columns = values.shape[-1]
    if ready.ndim >= 2 and ready.shape[-2] != 1:  # one number per value
        yield values, np.ascontiguousarray(np.broadcast_to(ready, values.shape), np.float32).reshape(-1)
        return
    if ready.size == columns:
        yield values, np.ascontiguousarray(ready.reshape(columns))
        return
    rows = values.shape[-2]
    spelt = np.broadcast_to(ready.reshape(*ready.shape[:-2], columns), (*values.shape[:-2], columns))
    importances = np.ascontiguousarray(spelt, np.float32).reshape(prod(values.shape[:-2]), columns)
    yield from zip(values.reshape(-1, rows, columns), importances, strict=True)
