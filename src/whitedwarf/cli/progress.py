"""How far something is, on stderr: a terminal gets one line that is written over, anything else one line per step."""

import os
import sys
import time
from collections.abc import Mapping
from typing import TextIO

from whitedwarf.engine.memory import size_text
from whitedwarf.engine.request import Finished, Prefilled

_GB = 1e9
_ERASE_LINE = "\r\033[K"


class ProgressLine:
    """Shows steps until `clear`; on a terminal that can erase a line nothing of it remains."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self.is_terminal = self._stream.isatty() and os.environ.get("TERM") != "dumb"
        self._is_shown = False

    def show(self, text: str) -> None:
        """The newest state."""
        self._stream.write(f"{_ERASE_LINE}{text}" if self.is_terminal else f"{text}\n")
        self._stream.flush()
        self._is_shown = True

    def clear(self) -> None:
        """Take the line away, so that output can follow."""
        if self._is_shown and self.is_terminal:
            self._stream.write(_ERASE_LINE)
            self._stream.flush()
        self._is_shown = False


def prefill_text(event: Prefilled) -> str:
    """How much of the prompt has been read."""
    return f"reading {event.processed}/{event.total} tokens ({100 * event.processed / event.total:.1f}%)"


def speeds_text(finished: Finished) -> str:
    """The last line on stderr: what was read and written, and how fast."""
    read = finished.prompt_tokens - finished.reused_tokens
    return (
        f"prefill: {_per_second(read, finished.prefill_s):.2f} t/s, "
        f"generation: {_per_second(finished.generated_tokens, finished.decode_s):.2f} t/s "
        f"({read} and {finished.generated_tokens} tokens)"
    )


def experts_text(before: Mapping[str, float], now: Mapping[str, float]) -> str:
    """Where experts came from between two looks: behind the speeds, empty where nobody had to look for any."""
    hits, misses, read_bytes = (now.get(name, 0) - before.get(name, 0) for name in ("hits", "misses", "read_bytes"))
    if not hits + misses:
        return ""
    found = f", experts: {hits / (hits + misses):.1%} found"
    return f"{found}, {read_bytes / _GB:.2f} GB read" if "read_bytes" in now else found


def _per_second(count: int, seconds: float) -> float:
    return count / seconds if seconds > 0 else 0.0


class ByteProgress:
    """Bytes of a long walk over a file: at most ten steps a second on a terminal, ten in all elsewhere."""

    def __init__(self, doing: str) -> None:
        self._doing = doing
        self._line = ProgressLine()
        self._next_s = 0.0
        self._next_share = 0.1

    def show(self, done_bytes: int, total_bytes: int) -> None:
        """Tell how far it is, if it is time to."""
        share = done_bytes / total_bytes if total_bytes else 1.0
        if self._is_due(share):
            self._line.show(f"{self._doing} {share:.0%} of {size_text(total_bytes)}")

    def finish(self) -> None:
        """The walk is over."""
        self._line.clear()

    def _is_due(self, share: float) -> bool:
        if self._line.is_terminal:
            now_s = time.monotonic()
            is_due = now_s >= self._next_s
            self._next_s = now_s + 0.1 if is_due else self._next_s
            return is_due
        is_due = share >= self._next_share
        while share >= self._next_share:
            self._next_share += 0.1
        return is_due
