"""The caller's end of one request: events come out, a cancel goes in.

It promises to end, always with exactly one `Finished`, whatever happens to the request or to the engine. Any thread may
use it; the events go to whoever takes them first, `result` is there for everybody.
"""

import threading
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Self

from whitedwarf.engine.request import Completion, Event, Finished, Token


class Generation:
    def __init__(self) -> None:
        self._events: SimpleQueue[Event] = SimpleQueue()
        self._tokens: list[Token] = []
        self._finished: Finished | None = None
        self._end = threading.Event()
        self._cancelled = threading.Event()
        self._wake: Callable[[], None] | None = None

    def notify(self, wake: Callable[[], None]) -> None:
        """Call `wake` on the engine's thread after each event from now on; it has to be quick and must not raise.

        For readers that cannot block, such as an event loop: look with `next_event(0)` first, then wait to be woken.
        """
        self._wake = wake

    def __iter__(self) -> Iterator[Event]:
        """Block for every event up to `Finished`; after one with an error, raise it, so that nobody overlooks it."""
        while not isinstance(event := self._take(None), Finished):
            yield event
        yield event
        if event.error is not None:
            raise event.error

    def next_event(self, timeout_s: float | None = None) -> Event | None:
        """The next event, or None when none came in time. After the end: `Finished`, again and again. Never raises."""
        try:
            return self._take(timeout_s)
        except Empty:
            return None

    def cancel(self) -> None:
        """Ask the engine to end this request after the forward pass it is in; returns at once, harmless if late."""
        self._cancelled.set()

    def result(self, timeout_s: float | None = None) -> Completion:
        """Wait for the end -> all tokens; raises the error of a failed request, TimeoutError after `timeout_s`.

        A cancelled request is no failure: it returns what it had. Takes no events from an iterating reader.
        """
        if not self._end.wait(timeout_s):
            raise TimeoutError(f"the request did not end within {timeout_s} s")
        assert self._finished is not None
        if self._finished.error is not None:
            raise self._finished.error
        return Completion(tuple(self._tokens), self._finished)

    @property
    def is_cancelled(self) -> bool:
        return self._cancelled.is_set()

    def has_been_cancelled(self) -> bool:
        """The same, to be handed on."""
        return self.is_cancelled

    @property
    def is_finished(self) -> bool:
        return self._end.is_set()

    def put(self, event: Event) -> None:
        """The engine's side."""
        if isinstance(event, Token):
            self._tokens.append(event)
        self._events.put(event)
        if isinstance(event, Finished):
            self._finished = event
            self._end.set()
        if self._wake is not None:
            self._wake()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leaving early cancels; either way the engine is done with the request (and its session) afterwards."""
        self.cancel()
        self._end.wait()

    def _take(self, timeout_s: float | None) -> Event:
        event = self._events.get(timeout=timeout_s)
        if isinstance(event, Finished):
            self._events.put(event)  # so that no later or other reader waits for ever
        return event
