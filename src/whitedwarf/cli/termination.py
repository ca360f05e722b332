"""Signals for commands that write large files: SIGTERM as an exception, and moments in which none comes.

What is half-written is taken away before we go.
"""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

TERMINATED = 128 + signal.SIGTERM
_HELD: tuple[int, ...] = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def tidy_termination() -> Iterator[None]:
    """While inside, SIGTERM raises SystemExit with the shell's code for it. Does nothing outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def held_signals() -> Iterator[None]:
    """While inside, Ctrl+C and SIGTERM wait: for what must not be left half done. Only for moments."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {number: signal.signal(number, lambda number, _: came.append(number)) for number in _HELD}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for caught in dict.fromkeys(came):
            signal.raise_signal(caught)


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(TERMINATED)
