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
_OWN_REFERENCES = 3  # the list's, the loop variable's and the argument's of getrefcount


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
        for block in self._blocks:
            if sys.getrefcount(block) <= _OWN_REFERENCES:
                if block.nbytes >= size_bytes:
                    return block
                largest_free = block
        if largest_free is not None:
            self._blocks = [block for block in self._blocks if block is not largest_free]
        made = np.empty(size_bytes, np.uint8)
        self._blocks = sorted([*self._blocks, made], key=lambda block: block.nbytes)
        return made
