"""How far a download is, on stderr: share, rate and the time that is left.

A terminal gets one line that is written over; anything else a line at each twentieth, and at least one a minute.
"""

import time
from collections import deque
from collections.abc import Callable

from whitedwarf.cli.loading import note
from whitedwarf.cli.progress import ProgressLine
from whitedwarf.weights.fetch import gigabytes

_WINDOW_S = 15.0  # of the rate: long enough to be calm, short enough to notice a slow line
_REDRAW_S = 0.2
_SILENCE_S = 60.0
_STEP = 0.05


class TransferRate:
    """Bytes per second over the last moments."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, int]] = deque()

    def add(self, now_s: float, done_bytes: int) -> None:
        """`done_bytes` in all at this time. Going back (a file begun anew) forgets the past."""
        if self._points and done_bytes < self._points[-1][1]:
            self._points.clear()
        self._points.append((now_s, done_bytes))
        while len(self._points) > 2 and now_s - self._points[0][0] > _WINDOW_S:
            self._points.popleft()

    @property
    def bytes_per_s(self) -> float:
        """0 while nothing can be said."""
        if len(self._points) < 2:
            return 0.0
        (first_s, first), (last_s, last) = self._points[0], self._points[-1]
        return (last - first) / (last_s - first_s) if last_s > first_s else 0.0


class TransferProgress:
    """Several files as one piece of work of `total_bytes`."""

    def __init__(self, total_bytes: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._total = total_bytes
        self._clock = clock
        self._line = ProgressLine()
        self._rate = TransferRate()
        self._doing = ""
        self._next_s = 0.0
        self._next_share = _STEP

    def show(self, doing: str, done_bytes: int) -> None:
        """`done_bytes` of all files together are there, or checked."""
        if doing != self._doing:
            self._doing, self._rate = doing, TransferRate()
        now_s = self._clock()
        if not self._is_due(now_s, done_bytes):
            return
        self._rate.add(now_s, done_bytes)
        self._line.show(progress_text(doing, done_bytes, self._total, self._rate.bytes_per_s))

    def say(self, text: str) -> None:
        """A line that stays."""
        self._line.clear()
        note(text)

    def finish(self) -> None:
        """Nothing more will come."""
        self._line.clear()

    def _is_due(self, now_s: float, done_bytes: int) -> bool:
        share = done_bytes / self._total if self._total else 1.0
        if now_s < self._next_s and (self._line.is_terminal or share < self._next_share):
            return False
        self._next_s = now_s + (_REDRAW_S if self._line.is_terminal else _SILENCE_S)
        self._next_share = share - share % _STEP + _STEP
        return True


def progress_text(doing: str, done_bytes: int, total_bytes: int, bytes_per_s: float) -> str:
    """'fetching 12 % of 80.8 GB, 95.1 MB/s, 12 min left'."""
    share = done_bytes / total_bytes if total_bytes else 1.0
    text = f"{doing} {share:.0%} of {gigabytes(total_bytes)}"
    if bytes_per_s <= 0:
        return text
    return f"{text}, {gigabytes(int(bytes_per_s))}/s, {time_text((total_bytes - done_bytes) / bytes_per_s)} left"


def time_text(seconds: float) -> str:
    """A span for people: 40 s, 12 min, 3 h 05 min."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02} min"
