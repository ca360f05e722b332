"""Two stores of rows, both addressed by absolute index: the newest few, and all of them.

Neither computes anything, and neither counts: how many rows there are follows from the sequence's position. `extend`
writes over whatever lies at or after the given index, so a rolled-back or failed pass needs no clean-up. `make_room`
promises that the next rows can be written where they belong without anything being moved: a backend may then do that
itself, through `buffer`. The buffers are arrays of the memory they are made in: numpy's, or a device's.
"""

import numpy as np
import numpy.typing as npt

from whitedwarf.ops.spans import HOST, SLACK_ROWS, Array, RowMemory

FIRST_CAPACITY = 64


class SlidingRows:
    """The newest `keep` rows (or more), contiguous: raw KV rows of the window, inputs of open compression windows.

    Row 0 of `buffer` stands for `first`. The rows of a pass follow those before it, unless there are more of them than
    the slack: then only their end is kept, and `replaced` says from where on.
    """

    def __init__(self, keep: int, width: int, dtype: npt.DTypeLike, memory: RowMemory = HOST) -> None:
        self.keep = keep
        self.first = 0
        self.memory = memory
        self.buffer = memory.empty(keep + SLACK_ROWS, width, dtype)
        self._dtype = np.dtype(dtype)

    @classmethod
    def none(cls, width: int, dtype: npt.DTypeLike, memory: RowMemory = HOST) -> "SlidingRows":
        """Where nothing is kept, and nothing can be put."""
        other = cls.__new__(cls)
        other.keep = other.first = 0
        other.memory, other.buffer, other._dtype = memory, memory.empty(0, width, dtype), np.dtype(dtype)
        return other

    @property
    def room_end(self) -> int:
        """Rows before this index fit into the buffer as it is."""
        return self.first + len(self.buffer)

    def make_room(self, index: int, num_rows: int) -> None:
        """Move what must survive to the front where `num_rows` at `index` would not fit. Longer ones never do."""
        if num_rows <= SLACK_ROWS and index + num_rows > self.room_end:
            rows = self.memory.copy(self.newest(index))
            self.buffer[: len(rows)] = rows
            self.first = index - len(rows)

    def extend(self, index: int, rows: Array) -> tuple[Array, int]:
        """Put `rows` at `index`; return a view of everything held from then on, and the index of its first row.

        The view is valid until the next call.
        """
        if len(rows) > SLACK_ROWS:
            return self._replace(index, rows)
        self.make_room(index, len(rows))
        start = self._place(index)
        self.buffer[start : start + len(rows)] = rows
        return self.buffer[: start + len(rows)], self.first

    def replaced(self, index: int, num_rows: int) -> None:
        """More rows than the slack were put at `index`: the newest `keep` of old and new are held now."""
        num_held = min(self.keep, self._place(index))
        self.first = index + num_rows - min(self.keep, num_held + num_rows)

    def newest(self, end: int) -> Array:
        """The rows before `end` that must survive: at most `keep`."""
        held = self._place(end)
        return self.buffer[max(0, held - self.keep) : held]

    def copy(self, end: int) -> "SlidingRows":
        """An independent copy of the newest rows before `end`."""
        other = SlidingRows(self.keep, self.buffer.shape[1], self._dtype, self.memory)
        rows = self.newest(end)
        other.buffer[: len(rows)] = rows
        other.first = end - len(rows)
        return other

    def frozen(self, end: int) -> "SlidingRows":
        """An independent copy without room for more: to be kept, and copied before it is used."""
        other = SlidingRows.__new__(SlidingRows)
        rows = self.newest(end)
        other.keep, other.buffer, other.first = self.keep, self.memory.copy(rows), end - len(rows)
        other.memory, other._dtype = self.memory, self._dtype
        return other

    @property
    def size_bytes(self) -> int:
        return self.buffer.nbytes

    def _place(self, index: int) -> int:
        """Where in the buffer the row of `index` is or would be."""
        if not self.first <= index <= self.room_end:
            raise ValueError(f"rows {self.first}..{self.room_end} may be held; cannot continue at {index}")
        return index - self.first

    def _replace(self, index: int, rows: Array) -> tuple[Array, int]:
        """A chunk longer than the slack: join outside the buffer, then keep only its end."""
        old = self.newest(index)
        joined = self.memory.join(old, rows)
        self.replaced(index, len(rows))
        kept = joined[-self.keep :]
        self.buffer[: len(kept)] = kept
        return joined, index + len(rows) - len(joined)


class AppendedRows:
    """All compressed rows or index keys of a sequence, contiguous, shared between a sequence and its snapshots.

    Only the owner of a buffer writes into it, and only at or after `frozen`; everybody else copies first.
    """

    def __init__(self, row_bytes: int, memory: RowMemory = HOST) -> None:
        self.memory = memory
        self.buffer = memory.empty(FIRST_CAPACITY, row_bytes, np.uint8)
        self._frozen = 0
        self._is_owner = True

    def make_room(self, index: int, num_rows: int) -> None:
        """Have `num_rows` of our own to write into at `index`."""
        end = index + num_rows
        if not self._is_owner or index < self._frozen or end > len(self.buffer):
            self._move(index, max(end, end + end // 4, FIRST_CAPACITY))

    def extend(self, index: int, rows: Array) -> None:
        """Put `rows` at `index`."""
        self.make_room(index, len(rows))
        self.buffer[index : index + len(rows)] = rows

    def upto(self, count: int) -> Array:
        """A view of the first `count` rows."""
        return self.buffer[:count]

    def share(self, count: int) -> "AppendedRows":
        """A second handle on the first `count` rows; neither side will overwrite them."""
        other = AppendedRows.__new__(AppendedRows)
        other.memory, other.buffer, other._frozen, other._is_owner = self.memory, self.buffer, count, False
        self._frozen = max(self._frozen, count)
        return other

    def packed(self, count: int) -> "AppendedRows":
        """The first `count` rows in a buffer just long enough."""
        other = AppendedRows.__new__(AppendedRows)
        other.memory, other._frozen, other._is_owner = self.memory, count, False
        other.buffer = self.memory.copy(self.buffer[:count])
        return other

    @property
    def buffer_bytes(self) -> tuple[int, int]:
        """Identity and size of the buffer."""
        return id(self.buffer), self.buffer.nbytes

    @property
    def size_bytes(self) -> int:
        return self.buffer.nbytes

    def _move(self, count: int, capacity: int) -> None:
        buffer = self.memory.empty(capacity, self.buffer.shape[1], np.uint8)
        buffer[:count] = self.buffer[:count]
        self.buffer, self._frozen, self._is_owner = buffer, 0, True
