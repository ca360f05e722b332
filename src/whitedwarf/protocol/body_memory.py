"""Histories of earlier bodies: an agent sends its whole history again with every turn, and something more.

A history is the array `messages` or `input` of a body. As far as its text is that of an earlier one, to the byte, its
items are the same values, and what readers make of them is the same too. Promises: bounded; may be shared between
threads. Values are shared: nobody may change them. Does not read: see history_reader.py.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from whitedwarf.conversation.json_value import Json

DEFAULT_CAPACITY_BYTES = 64 << 20  # some forty histories of 100,000 tokens
LARGEST_PART = 8  # what would take more than this part of the capacity is not kept
MOST_HISTORIES = 128  # every one is compared with each body
# What a history takes, its items and what readers made of them included; one made to be costly may take six times that.
_TIMES_ITS_TEXT = 5
_ITEM_BYTES = 500


@dataclass(frozen=True, slots=True, eq=False)
class KnownHistory:
    """The text from the first item to the last, where in it each item ends, the items, and what readers made of them.

    Each item is an object, whose text ends where the object does whatever follows.
    """

    text: bytes
    ends: list[int]
    items: list[Json]
    readings: dict[Callable[[Any], Any], list[Any]] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        """About what it takes in memory."""
        return _TIMES_ITS_TEXT * len(self.text) + _ITEM_BYTES * len(self.items)

    def items_in(self, body: bytes, start: int) -> int:
        """How many items stand in the body from that place on as they do here."""
        if body.startswith(self.text, start):
            return len(self.items)
        begin = 0
        for count, end in enumerate(self.ends):
            if not body.startswith(self.text[begin:end], start + begin):
                return count
            begin = end
        return len(self.items)

    def beginning(self, count: int) -> "KnownHistory":
        """Its first items alone, without their text."""
        readings = dict(self.readings)  # at once, for another thread may be adding to it
        readings = {reader: results[:count] for reader, results in readings.items()}
        return KnownHistory(b"", self.ends[:count], self.items[:count], readings)


class History(list[Any]):
    """The items of a history in a body. What a reader makes of each is remembered."""

    __slots__ = ("_known",)

    def __init__(self, known: KnownHistory) -> None:
        super().__init__(known.items)
        self._known = known

    def read_each(self, read_item: Callable[[Any], Any]) -> list[Any]:
        """What the reader makes of each item; it has to be a pure function that lives as long as the program."""
        readings = self._known.readings
        earlier = readings.get(read_item, [])
        if len(earlier) < len(self):
            earlier = [*earlier, *map(read_item, self[len(earlier) :])]
            readings[read_item] = earlier
        return earlier.copy()


class BodyMemory:
    """Earlier histories."""

    def __init__(self, capacity_bytes: int = DEFAULT_CAPACITY_BYTES) -> None:
        self.capacity_bytes = capacity_bytes
        self.size_bytes = 0
        self._lock = threading.Lock()
        self._histories: OrderedDict[KnownHistory, None] = OrderedDict()  # the longest unused first

    def __len__(self) -> int:
        return len(self._histories)

    def clear(self) -> None:
        """Forget everything, as after a start."""
        with self._lock:
            self._histories.clear()
            self.size_bytes = 0

    def closest(self, body: bytes, start: int) -> tuple[KnownHistory, int] | None:
        """The earlier history of which the body, from that place on, has the most items, and how many."""
        with self._lock:
            histories = list(self._histories)
        counted = [(known.items_in(body, start), place) for place, known in enumerate(histories)]
        count, place = max(counted, default=(0, 0))
        return (histories[place], count) if count else None

    def keep(self, known: KnownHistory, beginning: KnownHistory | None) -> None:
        """Remember a history instead of the one that was its beginning."""
        with self._lock:
            self._drop(beginning)
            self._drop(known)
            if known.size_bytes <= self.capacity_bytes // LARGEST_PART:
                self._histories[known] = None
                self.size_bytes += known.size_bytes
            while self.size_bytes > self.capacity_bytes or len(self._histories) > MOST_HISTORIES:
                self._drop(next(iter(self._histories)))

    def _drop(self, known: KnownHistory | None) -> None:
        if known is not None and known in self._histories:
            del self._histories[known]
            self.size_bytes -= known.size_bytes
