"""A generation's events for whoever lives on an event loop, such as the server and the exams."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from whitedwarf.engine.request import Finished

EventT = TypeVar("EventT")
EventT_co = TypeVar("EventT_co", covariant=True)

MAX_AT_ONCE = 32
"""Events told before others have their turn on the event loop: a few milliseconds' work."""


class Source(Protocol[EventT_co]):
    """A generation, or a chorus of them."""

    def notify(self, wake: Callable[[], None]) -> None: ...

    def next_event(self, timeout_s: float | None = ...) -> EventT_co | None: ...


class EventFeed(Generic[EventT]):
    """The engine's events on the event loop, without a thread of their own: made and read on one loop."""

    def __init__(self, generation: Source[EventT]) -> None:
        self._generation = generation
        self._loop = asyncio.get_running_loop()
        self._is_woken = asyncio.Event()
        generation.notify(self._wake)

    async def next(self, timeout_s: float | None = None) -> list[EventT]:
        """Events that have come, at least one; none where none came in time. Others had their turn meanwhile."""
        if events := self._come():
            await asyncio.sleep(0)
            return events
        await self._wait(timeout_s)
        return self._come()

    async def _wait(self, timeout_s: float | None) -> None:
        """Until woken. Once a token: a timer that wakes us costs a fifth of what a cancel scope does."""
        timer = None if timeout_s is None else self._loop.call_later(timeout_s, self._is_woken.set)
        try:
            await self._is_woken.wait()
        finally:
            if timer is not None:
                timer.cancel()

    def _come(self) -> list[EventT]:
        self._is_woken.clear()
        events: list[EventT] = []
        while len(events) < MAX_AT_ONCE and (event := self._generation.next_event(0)) is not None:
            events.append(event)
            if isinstance(event, Finished):  # it would be given again and again
                break
        return events

    def _wake(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._is_woken.set)
