"""A generation's events for whoever lives on an event loop, such as the server and the exams."""

import asyncio
import contextlib

from whitedwarf.engine.generation import Generation
from whitedwarf.engine.request import Event, Finished

MAX_AT_ONCE = 32
"""Events told before others have their turn on the event loop: a few milliseconds' work."""


class EventFeed:
    """The engine's events on the event loop, without a thread of their own: made and read on one loop."""

    def __init__(self, generation: Generation) -> None:
        self._generation = generation
        self._loop = asyncio.get_running_loop()
        self._is_woken = asyncio.Event()
        generation.notify(self._wake)

    async def next(self, timeout_s: float | None = None) -> list[Event]:
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

    def _come(self) -> list[Event]:
        self._is_woken.clear()
        events: list[Event] = []
        while len(events) < MAX_AT_ONCE and (event := self._generation.next_event(0)) is not None:
            events.append(event)
            if isinstance(event, Finished):  # it would be given again and again
                break
        return events

    def _wake(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._is_woken.set)
