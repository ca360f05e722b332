"""What SIGTERM, a terminal that is gone and Ctrl+C do to an agent.

Promises: the first SIGTERM or SIGHUP ends it; while it ends, no signal that can be heard keeps it from writing the
session and ending what it started, however many come.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_ENDING = (signal.SIGTERM, signal.SIGHUP) if hasattr(signal, "SIGHUP") else (signal.SIGTERM,)


@contextmanager
def ending_signals() -> Iterator[Callable[[], None]]:
    """While inside, SIGTERM and SIGHUP raise SystemExit with the shell's code for them. Call what is given where the
    closing begins: nothing is raised from then on, Ctrl+C included. For the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return

    def unheard() -> None:
        for number in before:
            signal.signal(number, _nothing)

    def leave(number: int, frame: FrameType | None) -> None:
        unheard()
        raise SystemExit(128 + number)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, *_ENDING)}
    try:
        for number in _ENDING:
            signal.signal(number, leave)
        yield unheard
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _nothing(number: int, frame: FrameType | None) -> None:
    """Heard and left alone; a handler, because what is ignored would be ignored by children, too."""
