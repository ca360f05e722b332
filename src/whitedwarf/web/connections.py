"""How many connections a server keeps, which one goes when there are too many, and a timer for what takes too long."""

import asyncio
import resource
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Protocol

MAX_CONNECTIONS = 1000
MAX_HEAD_BYTES = 64 << 10
_OTHER_FILES = 40  # of the process: libraries, logs, children, sockets that listen
_WANTED_FILES = 4096


class Connection(Protocol):
    """What has to be known of one. `since_s`: when it began."""

    since_s: float
    transport: asyncio.Transport

    @property
    def is_owed_an_answer(self) -> bool:
        """Whether a whole request has come that was not answered yet."""


class Timer:
    """Calls once after a time, unless it is stopped before; starting it while it runs changes nothing."""

    def __init__(self, call: Callable[[], object]) -> None:
        self._call = call
        self._handle: asyncio.TimerHandle | None = None

    def start(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        """From now on."""
        if self._handle is None:
            self._handle = loop.call_later(seconds, self._fire)

    def stop(self) -> None:
        """It may be started again."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _fire(self) -> None:
        self._handle = None
        self._call()


def most_connections() -> int:
    """How many there may be: each may need another file for its answer, and other things need files, too."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return max(1, min(MAX_CONNECTIONS, (limit - _OTHER_FILES) // 2))


def make_room(connections: Iterable[Connection], most: int | None = None) -> None:
    """Where there are too many, drop one: the oldest that is not owed an answer; the new one is among them."""
    live = [one for one in connections if not one.transport.is_closing()]
    if len(live) > (most or most_connections()):
        idle = (one for one in live if not one.is_owed_an_answer)
        oldest = min(idle, key=lambda one: one.since_s, default=None)
        if oldest is not None:
            oldest.transport.abort()


def allow_files() -> None:
    """Let this process have as many files open as it can make use of, where that is its own to say."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED_FILES if hard == resource.RLIM_INFINITY else min(_WANTED_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
