"""Where the numbers of a pass lie on a device: at the same addresses whenever a pass has the same shapes.

A recorded pass (ops/graphs.py) reads from the addresses it was recorded with, so a small pass fills memory that is kept
for its signature, with one copy for all arrays of a slot. What was handed out is good until the next pass fills the
same slot. A large pass, which nobody records, gets memory of its own.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

MOST_ROWS = 64  # of a pass that may be recorded
MOST_BUFFERS = 256
ALIGNMENT_BYTES = 256  # as fresh memory of a device: kernels are made for pointers with as many zeros
_DTYPES = {
    np.dtype(np.int32): torch.int32,
    np.dtype(np.int64): torch.int64,
    np.dtype(np.float32): torch.float32,
    np.dtype(np.uint8): torch.uint8,
}

Array: TypeAlias = npt.NDArray[Any]
Signature: TypeAlias = tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class Kept:
    """Memory for the arrays of one slot and signature, and the views on it that are handed out."""

    buffer: Tensor  # (bytes,) uint8
    views: tuple[Tensor, ...]


class Arena:
    """Device memory for the arrays of passes. A slot is what is handed out together: "arrays", "spans"."""

    def __init__(self, device: torch.device, most_rows: int = MOST_ROWS, most_buffers: int = MOST_BUFFERS) -> None:
        self.device = device
        self.most_rows = most_rows
        self.most_buffers = most_buffers
        self._kept: OrderedDict[tuple[str, Signature], Kept] = OrderedDict()  # the one used last is at the end
        self._current: dict[str, Kept | None] = {}  # by slot; None = memory of its own

    def place(self, slot: str, values: Sequence[Array], rows: int) -> tuple[Tensor, ...]:
        """The arrays (int32, int64, float32 or uint8) of a pass of so many rows on the device."""
        arrays = [np.ascontiguousarray(value) for value in values]
        kept = self._memory(slot, arrays) if rows <= self.most_rows else self._fresh(arrays)
        self._current[slot] = kept if rows <= self.most_rows else None
        self._fill(kept, arrays)
        return kept.views

    @property
    def stamp(self) -> tuple[int, ...] | None:
        """Where the arrays of the newest pass lie; None if any of them is in memory of its own, or there are none."""
        current = self.current
        return None if current is None else tuple(buffer.data_ptr() for buffer in current)

    @property
    def current(self) -> tuple[Tensor, ...] | None:
        """The memory of the newest pass: whoever records its addresses must hold it. None as above."""
        held = [kept.buffer for _, kept in sorted(self._current.items()) if kept is not None]
        return tuple(held) if held and len(held) == len(self._current) else None

    def _memory(self, slot: str, arrays: Sequence[Array]) -> Kept:
        key = slot, _signature(arrays)
        kept = self._kept.get(key)
        if kept is None:
            kept = self._kept[key] = self._fresh(arrays)
            if len(self._kept) > self.most_buffers:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return kept

    def _fresh(self, arrays: Sequence[Array]) -> Kept:
        size = _places(arrays)[-1]
        buffer = torch.empty(size, dtype=torch.uint8, device=self.device)
        return Kept(buffer, tuple(_views(buffer, arrays)))

    def _fill(self, kept: Kept, arrays: Sequence[Array]) -> None:
        """One copy. Pinned memory comes from torch's pool, which gives it to nobody else before the copy is done."""
        staged = torch.empty(kept.buffer.numel(), dtype=torch.uint8, pin_memory=self.device.type == "cuda")
        host: Array = staged.numpy()
        for array, first in zip(arrays, _places(arrays), strict=False):
            host[first : first + array.nbytes] = array.reshape(-1).view(np.uint8)
        kept.buffer.copy_(staged, non_blocking=True)


def _signature(arrays: Sequence[Array]) -> Signature:
    return tuple((array.dtype.str, array.shape) for array in arrays)


def _places(arrays: Sequence[Array]) -> list[int]:
    """First byte of each array, and the bytes of all."""
    places = [0]
    for array in arrays:
        places.append(places[-1] + -(-max(array.nbytes, 1) // ALIGNMENT_BYTES) * ALIGNMENT_BYTES)
    return places


def _views(buffer: Tensor, arrays: Sequence[Array]) -> list[Tensor]:
    """ValueError for an array of another type than those named in `place`."""
    views = []
    for array, first in zip(arrays, _places(arrays), strict=False):
        if array.dtype not in _DTYPES:
            names = ", ".join(str(dtype) for dtype in _DTYPES)
            raise ValueError(f"an array of {array.dtype} has no place on the device: expected {names}")
        flat = buffer[first : first + array.nbytes].view(_DTYPES[array.dtype])
        views.append(flat.view(array.shape))
    return views
