"""Who may go over the soft limit once: a client that was told to shorten its conversation, with its summary of it.

The first request over the limit is refused and opens a window for its conversation; a request of the same one over
the limit passes while it is open; one below the limit that passes closes it (spec/supervisor.md 2.9, 2.10). Pure, but
for what it remembers. Promises: conversations do not open or close each other's windows; memory is bounded; only
starting is bounded in time, so a slow summary is never cut. Does not know texts, only digests.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

_SEEN_PER_WINDOW = 8


@dataclass(frozen=True, slots=True)
class Conversation:
    """Digests. `anchor`: system message and tools; `thread`: these and the first message of the user.

    A summary has both of what it summarises. What follows it has the anchor only: the summary is its first message.
    """

    anchor: bytes
    thread: bytes


@dataclass(slots=True)
class _Window:
    anchor: bytes
    ends_s: float
    is_used: bool = False


class GraceBook:
    """The open windows of one model, at most `most`; `grace_s` 0 opens none."""

    def __init__(self, grace_s: float, clock: Callable[[], float], most: int = 48) -> None:
        self.grace_s = grace_s
        self._clock = clock
        self._most = most
        self._windows: OrderedDict[bytes, _Window] = OrderedDict()
        self._seen: OrderedDict[bytes, None] = OrderedDict()

    def __len__(self) -> int:
        self._expire()
        return len(self._windows)

    def admits(self, conversation: Conversation) -> bool:
        """A request is over the limit: whether it passes. Where not, the next one of the conversation will."""
        self._expire()
        self._remember(conversation.thread)
        if (window := self._windows.get(conversation.thread)) is not None:
            window.is_used = True
            return True
        if self.grace_s > 0:
            self._windows[conversation.thread] = _Window(conversation.anchor, self._clock() + self.grace_s)
        if len(self._windows) > self._most:
            self._windows.popitem(last=False)
        return False

    def passed(self, conversation: Conversation) -> None:
        """A request below the limit passes: it closes the window that it belongs to, and no other."""
        self._expire()
        is_new = conversation.thread not in self._seen
        self._remember(conversation.thread)
        if self._windows.pop(conversation.thread, None) is None and is_new:
            self._close_for_successor(conversation.anchor)

    def _close_for_successor(self, anchor: bytes) -> None:
        """A conversation begins that has the same system message: perhaps what was shortened, if a summary was made.

        Another conversation that begins just then closes a window whose summary has been written, which harms nobody.
        """
        for thread, window in self._windows.items():
            if window.anchor == anchor and window.is_used:
                del self._windows[thread]
                return

    def _expire(self) -> None:
        now_s = self._clock()
        for thread in [thread for thread, window in self._windows.items() if window.ends_s <= now_s]:
            del self._windows[thread]

    def _remember(self, thread: bytes) -> None:
        self._seen[thread] = None
        self._seen.move_to_end(thread)
        if len(self._seen) > self._most * _SEEN_PER_WINDOW:
            self._seen.popitem(last=False)
