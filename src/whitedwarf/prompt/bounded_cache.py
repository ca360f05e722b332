"""What was worked out before, by what it was worked out from, in bounded memory.

Promises: never more than `capacity_bytes` as the caller counts them; what was not asked for since it came goes first.
May be shared between threads, and nothing is worked out under its lock. Values are shared: whoever gets one must not
change it.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

LARGEST_PART = 8  # what would take more than this part of the capacity is not kept: it would drive out the rest
ENTRY_BYTES = 300  # of an entry's own objects and its place in the dictionary


class _Entry(Generic[Value]):
    """`is_used` since it came or was last passed over: that costs less to note than a new place among all entries."""

    __slots__ = ("is_used", "size_bytes", "value")

    def __init__(self, value: Value, size_bytes: int) -> None:
        self.value = value
        self.size_bytes = size_bytes  # as it was counted: that of a text can change when somebody asks for its UTF-8
        self.is_used = False


class BoundedCache(Generic[Key, Value]):
    """Values by key; `size_of` counts the bytes of both, to which ENTRY_BYTES are added."""

    def __init__(self, capacity_bytes: int, size_of: Callable[[Key, Value], int]) -> None:
        self.capacity_bytes = capacity_bytes
        self.size_bytes = 0
        self._size_of = size_of
        self._lock = threading.Lock()
        self._entries: OrderedDict[Key, _Entry[Value]] = OrderedDict()  # the next to be passed over or to go first

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

    def recall(self, key: Key, make: Callable[[], Value]) -> Value:
        """The value of one key, or what `make` gives."""
        with self._lock:
            entry = self._entries.get(key)
        if entry is not None:
            entry.is_used = True
            return entry.value
        made = make()
        self._keep([key], [made])
        return made

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()
            self.size_bytes = 0

    def _find(self, keys: Sequence[Key]) -> dict[Key, Value]:
        found: dict[Key, Value] = {}
        get = self._entries.get
        with self._lock:
            for key in keys:
                if (entry := get(key)) is not None:
                    entry.is_used = True
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
                self._drop_one()

    def _drop_one(self) -> None:
        """Ends: each entry is passed over once at most."""
        while True:
            key, entry = self._entries.popitem(last=False)
            if not entry.is_used:
                self.size_bytes -= entry.size_bytes
                return
            entry.is_used = False
            self._entries[key] = entry
