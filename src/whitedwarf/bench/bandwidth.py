"""The measuring stick: how fast this machine reads memory with the threads that the model uses."""

from collections.abc import Callable
from statistics import median
from time import perf_counter

import numpy as np

from whitedwarf.ops.base import ByteArray

SIZE_BYTES = 1 << 30  # far beyond any cache
REPEATS = 7


def read_bandwidth(read_all: Callable[[ByteArray], int], size_bytes: int = SIZE_BYTES) -> float:
    """Bytes per second: the median of several passes over memory that fits no cache."""
    buffer = np.ones(size_bytes, np.uint8)
    read_all(buffer)
    return size_bytes / median(_time(read_all, buffer) for _ in range(REPEATS))


def _time(read_all: Callable[[ByteArray], int], buffer: ByteArray) -> float:
    start = perf_counter()
    read_all(buffer)
    return perf_counter() - start
