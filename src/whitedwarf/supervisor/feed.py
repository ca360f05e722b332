"""Events for whoever listens. Promises: telling never waits; memory is bounded, a slow listener loses the oldest."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from whitedwarf.supervisor.status import Event

_MOST_UNREAD = 256


class _Listener:
    def __init__(self) -> None:
        self.unread: deque[Event] = deque(maxlen=_MOST_UNREAD)
        self.news = asyncio.Event()


class Feed:
    """All listeners of one desk."""

    def __init__(self) -> None:
        self._listeners: set[_Listener] = set()
        self._is_closed = False

    def tell(self, event: Event) -> None:
        """To all who listen now."""
        for listener in self._listeners:
            listener.unread.append(event)
            listener.news.set()

    def close(self) -> None:
        """Nothing more will come; listeners end with what they have not read."""
        self._is_closed = True
        for listener in self._listeners:
            listener.news.set()

    async def listen(self) -> AsyncIterator[Event]:
        """What is told from the first step of the iteration on."""
        listener = _Listener()
        self._listeners.add(listener)
        try:
            while listener.unread or not self._is_closed:
                while listener.unread:
                    yield listener.unread.popleft()
                if not self._is_closed:
                    listener.news.clear()
                    await listener.news.wait()
        finally:
            self._listeners.discard(listener)
