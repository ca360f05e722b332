"""Two stores of rows, both addressed by absolute index: the newest few, and all of them.

Neither computes anything. `extend` first forgets everything at or after the given index, so a rolled-back or failed
pass needs no clean-up: the next one simply writes over it.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
SLACK_ROWS = 64
FIRST_CAPACITY = 64


class SlidingRows:
    """The newest `keep` rows (or more), contiguous: raw KV rows of the window, inputs of open compression windows."""

    def __init__(self, keep: int, width: int, dtype: npt.DTypeLike) -> None:
        self.keep = keep
        self.first = 0
        self.end = 0
        self._buffer = np.empty((keep + SLACK_ROWS, width), dtype)

    def extend(self, index: int, rows: Array) -> tuple[Array, int]:
        """Put `rows` at `index`; return a view of everything held from then on, and the index of its first row.

        The view is valid until the next call.
        """
        self._forget_from(index)
        if len(rows) > SLACK_ROWS:
            return self._replace(rows)
        if self.end - self.first + len(rows) > len(self._buffer):
            self._shift()
        start = self.end - self.first
        self._buffer[start : start + len(rows)] = rows
        self.end += len(rows)
        return self._buffer[: start + len(rows)], self.first

    def newest(self) -> Array:
        """The rows that must survive: at most `keep`."""
        held = self.end - self.first
        return self._buffer[max(0, held - self.keep) : held]

    def copy(self) -> "SlidingRows":
        """An independent copy of the newest rows."""
        other = SlidingRows(self.keep, self._buffer.shape[1], self._buffer.dtype)
        rows = self.newest()
        other._buffer[: len(rows)] = rows
        other.first, other.end = self.end - len(rows), self.end
        return other

    def frozen(self) -> "SlidingRows":
        """An independent copy without room for more: to be kept, and copied before it is used."""
        other = SlidingRows.__new__(SlidingRows)
        rows = self.newest()
        other.keep, other._buffer = self.keep, rows.copy()
        other.first, other.end = self.end - len(rows), self.end
        return other

    @property
    def size_bytes(self) -> int:
        return self._buffer.nbytes

    def _forget_from(self, index: int) -> None:
        if not self.first <= index <= self.end:
            raise ValueError(f"rows {self.first}..{self.end} are held; cannot continue at {index}")
        self.end = index

    def _replace(self, rows: Array) -> tuple[Array, int]:
        """A chunk longer than the slack: join outside the buffer, then keep only its end."""
        joined = np.concatenate([self.newest(), rows])
        end = self.end + len(rows)
        kept = joined[-self.keep :]
        self._buffer[: len(kept)] = kept
        self.first, self.end = end - len(kept), end
        return joined, end - len(joined)

    def _shift(self) -> None:
        rows = self.newest().copy()
        self._buffer[: len(rows)] = rows
        self.first = self.end - len(rows)


class AppendedRows:
    """All compressed rows or index keys of a sequence, contiguous, shared between a sequence and its snapshots.

    Only the owner of a buffer writes into it, and only at or after `frozen`; everybody else copies first.
    """

    def __init__(self, row_bytes: int) -> None:
        self._buffer = np.empty((FIRST_CAPACITY, row_bytes), np.uint8)
        self._frozen = 0
        self._is_owner = True

    def extend(self, index: int, rows: Array) -> None:
        """Put `rows` at `index`."""
        end = index + len(rows)
        if not self._is_owner or index < self._frozen or end > len(self._buffer):
            self._move(index, max(end, end + end // 4, FIRST_CAPACITY))
        self._buffer[index:end] = rows

    def upto(self, count: int) -> Array:
        """A view of the first `count` rows."""
        return self._buffer[:count]

    def share(self, count: int) -> "AppendedRows":
        """A second handle on the first `count` rows; neither side will overwrite them."""
        other = AppendedRows.__new__(AppendedRows)
        other._buffer, other._frozen, other._is_owner = self._buffer, count, False
        self._frozen = max(self._frozen, count)
        return other

    def packed(self, count: int) -> "AppendedRows":
        """The first `count` rows in a buffer just long enough."""
        other = AppendedRows.__new__(AppendedRows)
        other._buffer, other._frozen, other._is_owner = self._buffer[:count].copy(), count, False
        return other

    @property
    def buffer_bytes(self) -> tuple[int, int]:
        """Identity and size of the buffer."""
        return id(self._buffer), self._buffer.nbytes

    @property
    def size_bytes(self) -> int:
        return self._buffer.nbytes

    def _move(self, count: int, capacity: int) -> None:
        buffer = np.empty((capacity, self._buffer.shape[1]), np.uint8)
        buffer[:count] = self._buffer[:count]
        self._buffer, self._frozen, self._is_owner = buffer, 0, True
