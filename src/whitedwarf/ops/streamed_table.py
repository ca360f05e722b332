"""The embedding of a model that is streamed: its rows are read as they are needed, the newest ones are kept.

Promises the bytes of the file, in the order that was asked for. Knows nothing of what is in them.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from whitedwarf.gguf.types import GgmlType
from whitedwarf.ops.base import ByteArray, IntArray
from whitedwarf.weights.direct_reader import DirectReader, room_bytes
from whitedwarf.weights.expert_extents import Extent
from whitedwarf.weights.locked_memory import AnonymousMemory

KEPT_ROWS = 2048
ROWS_AT_A_TIME = 32


@dataclass(frozen=True, slots=True)
class StreamedTable:
    """A (V, D) tensor on the disk."""

    type: GgmlType
    shape: tuple[int, ...]
    extent: Extent
    reader: DirectReader
    kept: OrderedDict[int, ByteArray] = field(default_factory=OrderedDict)  # the one used last is last

    def rows(self, ids: IntArray) -> ByteArray:
        """(n, row_bytes). ModelReadError."""
        wanted = ids.tolist()
        if len(wanted) == 1 and (row := self.kept.get(wanted[0])) is not None:
            self.kept.move_to_end(wanted[0])
            return row[None]
        found = {row: self.kept[row] for row in set(wanted) & self.kept.keys()}
        missing = sorted(set(wanted) - found.keys())
        for first in range(0, len(missing), ROWS_AT_A_TIME):
            found.update(self._read(missing[first : first + ROWS_AT_A_TIME]))
        self._keep(found)
        return np.stack([found[row] for row in wanted])

    def _read(self, rows: Sequence[int]) -> dict[int, ByteArray]:
        """Side by side."""
        extents = [self.extent.part(row, self.shape[0]) for row in rows]
        room = room_bytes(extents[0].size_bytes)
        memory = AnonymousMemory(room * len(rows))
        places = [memory.view(number * room, room) for number in range(len(rows))]
        readings = [self.reader.begin(extent, place) for extent, place in zip(extents, places, strict=True)]
        for reading in readings:
            reading.settle()  # all of them, before the memory may go
        return {row: reading.wait().copy() for row, reading in zip(rows, readings, strict=True)}

    def _keep(self, used: dict[int, ByteArray]) -> None:
        for row, data in used.items():
            self.kept[row] = data
            self.kept.move_to_end(row)
        while len(self.kept) > KEPT_ROWS:
            self.kept.popitem(last=False)
