"""What was worked out before, by what it was worked out from, in bounded memory.

Promises: never more than `capacity_bytes` as the caller counts them, the longest unused going first; may be shared
between threads, and nothing is worked out under its lock. Values are shared: whoever gets one must not change it.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, NamedTuple, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

LARGEST_PART = 8  # what would take more than this part of the capacity is not kept: it would drive out the rest
ENTRY_BYTES = 300  # of an entry's own objects and its place in the dictionary


class _Entry(NamedTuple, Generic[Value]):
    value: Value
    size_bytes: int  # as it was counted: that of a text can change when somebody asks for its UTF-8


class BoundedCache(Generic[Key, Value]):
    """Values by key; `size_of` counts the bytes of both, to which ENTRY_BYTES are added."""

    def __init__(self, capacity_bytes: int, size_of: Callable[[Key, Value], int]) -> None:
        self.capacity_bytes = capacity_bytes
        self.size_bytes = 0
        self._size_of = size_of
        self._lock = threading.Lock()
        self._entries: OrderedDict[Key, _Entry[Value]] = OrderedDict()  # the longest unused first

    def __len__(self) -> int:
        return len(self._entries)

    def take(self, keys: Sequence[Key], make: Callable[[list[Key]], Sequence[Value]]) -> dict[Key, Value]:
        """The value of each key; those not known are asked of `make`, all at once."""
        found = self._find(keys)
        if len(found) < len(keys) and (unknown := [key for key in dict.fromkeys(keys) if key not in found]):
            made = make(unknown)
            self._keep(unknown, made)
            found.update(zip(unknown, made, strict=True))
        return found

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()
            self.size_bytes = 0

    def _find(self, keys: Sequence[Key]) -> dict[Key, Value]:
        found: dict[Key, Value] = {}
        get, move_to_end = self._entries.get, self._entries.move_to_end
        with self._lock:
            for key in keys:
                if (entry := get(key)) is not None:
                    move_to_end(key)
                    found[key] = entry.value
        return found

    def _keep(self, keys: list[Key], made: Sequence[Value]) -> None:
        with self._lock:
            for key, value in zip(keys, made, strict=True):
                entry = _Entry(value, self._size_of(key, value) + ENTRY_BYTES)
                if key not in self._entries and entry.size_bytes <= self.capacity_bytes // LARGEST_PART:
                    self._entries[key] = entry
                    self.size_bytes += entry.size_bytes
            while self.size_bytes > self.capacity_bytes:
                _, oldest = self._entries.popitem(last=False)
                self.size_bytes -= oldest.size_bytes
