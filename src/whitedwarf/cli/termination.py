"""SIGTERM as an exception, for commands that write large files: what is half-written is taken away before we go."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

TERMINATED = 128 + signal.SIGTERM


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


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(TERMINATED)
