"""Tool calls as prompts write them, remembered: an agent's history is full of them, and each comes back every turn.

Promises: the same segments as without it, for an entry is found by the very call and the dialect of DSML.
"""

import sys
from collections.abc import Iterable, Iterator

from whitedwarf.conversation.tools import ToolCall
from whitedwarf.prompt.bounded_cache import BoundedCache
from whitedwarf.prompt.dsml import Dialect, call_segments
from whitedwarf.prompt.segments import Segment, Text

DEFAULT_CAPACITY_BYTES = 16 << 20
_SEGMENT_BYTES = 56  # of the object itself; control segments are shared

_Key = tuple[ToolCall, Dialect]


class CallMemory:
    """Segments by call; may be shared between threads."""

    def __init__(self, capacity_bytes: int = DEFAULT_CAPACITY_BYTES) -> None:
        self.cache: BoundedCache[_Key, tuple[Segment, ...]] = BoundedCache(capacity_bytes, _size_bytes)

    def segments(self, calls: Iterable[ToolCall], dialect: Dialect) -> Iterator[Segment]:
        """What `call_segments` gives for each call, one after the other."""
        keys = [(call, dialect) for call in calls]
        known = self.cache.take(keys, _make)
        for key in keys:
            yield from known[key]


def _make(keys: list[_Key]) -> list[tuple[Segment, ...]]:
    return [tuple(call_segments(call, dialect)) for call, dialect in keys]


def _size_bytes(key: _Key, segments: tuple[Segment, ...]) -> int:
    texts = [key[0].id, key[0].name, key[0].arguments, *(part.text for part in segments if isinstance(part, Text))]
    return sum(map(sys.getsizeof, texts)) + sys.getsizeof(segments) + _SEGMENT_BYTES * len(segments)
