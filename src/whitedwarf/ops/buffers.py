"""Memory for the results of operations, used again as soon as nobody holds them.

A prefill chunk makes arrays of tens of megabytes by the dozen. The C library gives such memory back to the system each
time it is freed and gets it again as zeroed pages, which was measured to cost some 7 % of a prefill. Here it stays: as
much as was needed at one time.
Knows arrays, not what is in them. Whether somebody holds an array or a view of it is what its reference count says.
"""

import math
import sys
import threading

import numpy as np
import numpy.typing as npt

from whitedwarf.ops.base import FloatArray

SMALLEST_BYTES = 1 << 20  # less than this the C library keeps itself
ALIGNMENT = 64  # of the first value: a cache line


class Buffers:
    """Blocks of memory, each lent as one array at a time."""

    def __init__(self) -> None:
        self._blocks: list[npt.NDArray[np.uint8]] = []  # smallest first
        self._lock = threading.Lock()

    @property
    def size_bytes(self) -> int:
        """All that is kept, lent or not."""
        return sum(block.nbytes for block in self._blocks)

    def floats(self, *shape: int) -> FloatArray:
        """An array of undefined float32 values."""
        size_bytes = 4 * math.prod(shape)
        if size_bytes < SMALLEST_BYTES:
            return np.empty(shape, np.float32)
        with self._lock:
            block = self._block(size_bytes + ALIGNMENT)
            start = -block.__array_interface__["data"][0] % ALIGNMENT
            return block[start : start + size_bytes].view(np.float32).reshape(shape)

    def _block(self, size_bytes: int) -> npt.NDArray[np.uint8]:
        """The smallest free block that is large enough; else a new one in the place of the largest free one."""
        largest_free = None
        for place in range(len(self._blocks)):
            if _references(self._blocks, place) == _REFERENCES_OF_FREE:
                if self._blocks[place].nbytes >= size_bytes:
                    return self._blocks[place]
                largest_free = place
        if largest_free is not None:
            del self._blocks[largest_free]
        made = np.empty(size_bytes, np.uint8)
        self._blocks = sorted([*self._blocks, made], key=lambda block: block.nbytes)
        return made


def _references(blocks: list[npt.NDArray[np.uint8]], place: int) -> int:
    return sys.getrefcount(blocks[place])


# Counted, not known: how many references a call itself holds differs between versions of Python.
_REFERENCES_OF_FREE = _references([np.empty(1, np.uint8)], 0)
