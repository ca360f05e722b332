"""Sums of squares by tensor: how strongly each column of a weight is driven (model.md 8.5).

Promises the same bits however rows are cut into pieces: float64, a row after another. Knows no model.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


class Moments:
    """Sums of squares (matrices, columns) and counts of rows (matrices,) by the names of tensors."""

    def __init__(self) -> None:
        self.sums: dict[str, Doubles] = {}
        self.counts: dict[str, Counts] = {}

    def declare(self, name: str, matrices: int, columns: int) -> None:
        """Make room for a tensor, before any thread adds to it."""
        if name not in self.sums:
            self.sums[name] = np.zeros((matrices, columns))
            self.counts[name] = np.zeros(matrices, np.int64)

    def add(self, name: str, matrix: int, rows: npt.NDArray[Any]) -> None:
        """Rows (n, columns) that one matrix was multiplied with. Different matrices may be added to at once."""
        if not len(rows):
            return
        squares = np.square(rows, dtype=np.float64)
        total = self.sums[name][matrix]
        squares[0] += total
        np.add.reduce(squares, axis=0, out=total)
        self.counts[name][matrix] += len(rows)

    def take(self, other: "Moments") -> None:
        """Add what another has gathered, which is then empty."""
        for name in other.sums:
            self.declare(name, *other.sums[name].shape)
            seen = np.flatnonzero(other.counts[name])
            self.sums[name][seen] += other.sums[name][seen]
            self.counts[name][seen] += other.counts[name][seen]
        other.clear()

    def clear(self) -> None:
        """Zero everywhere."""
        for name, counts in self.counts.items():
            self.sums[name][np.flatnonzero(counts)] = 0
            counts[:] = 0

    def broken(self) -> Iterator[str]:
        """Names of tensors with a sum that is no finite number."""
        for name, sums in self.sums.items():
            if not np.isfinite(sums[np.flatnonzero(self.counts[name])]).all():
                yield name
