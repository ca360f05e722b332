"""Tool calls as prompts write them, remembered: an agent's history is full of them, and each comes back every turn.

Promises: the same segments as without it, for an entry is found by the very calls and the version of DSML.
"""

import sys
from collections.abc import Callable, Sequence

from whitedwarf.conversation.tools import ToolCall
from whitedwarf.prompt.bounded_cache import BoundedCache
from whitedwarf.prompt.segments import Segment, Text

DEFAULT_CAPACITY_BYTES = 16 << 20
_SEGMENT_BYTES = 56  # of the object itself; control segments are shared

_Key = tuple[str | ToolCall, ...]


class CallMemory:
    """Blocks of calls; may be shared between threads."""

    def __init__(self, capacity_bytes: int = DEFAULT_CAPACITY_BYTES) -> None:
        self.cache: BoundedCache[_Key, tuple[Segment, ...]] = BoundedCache(capacity_bytes, _size_bytes)

    def block(
        self, calls: Sequence[ToolCall], dialect: str, make: Callable[[], tuple[Segment, ...]]
    ) -> tuple[Segment, ...]:
        """The segments that `make` gives for these calls in the dialect of that name."""
        key: _Key = (dialect, *calls)
        return self.cache.take([key], lambda _: (make(),))[key]


def _size_bytes(key: _Key, segments: tuple[Segment, ...]) -> int:
    calls = (call for call in key if isinstance(call, ToolCall))
    texts = [text for call in calls for text in (call.id, call.name, call.arguments)]
    texts += [part.text for part in segments if isinstance(part, Text)]
    return sum(map(sys.getsizeof, texts)) + sys.getsizeof(segments) + _SEGMENT_BYTES * len(segments)
