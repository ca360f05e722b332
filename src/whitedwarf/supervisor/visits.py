"""A request's stay at a model that is up, as whoever forwards it sees it: whom to talk to, and what if that dies."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from whitedwarf.supervisor.failures import StartFailedError, UnloadedError
from whitedwarf.supervisor.residence import External, Stay
from whitedwarf.supervisor.running import Running
from whitedwarf.supervisor.schedule import Stage

_EXIT_IS_SEEN_WITHIN_S = 1.0


class Visit:
    """Counted from its making to `end`. `leave` and `admit` are the desk's."""

    def __init__(
        self, stay: Stay, leave: Callable[[Stay, float | None], None], admit: Callable[[], Awaitable[Stay]]
    ) -> None:
        self._stay: Stay | None = stay
        self._leave = leave
        self._admit = admit
        self._is_renewed = False
        self._cut: Callable[[], None] | None = None

    @property
    def running(self) -> Running:
        """The model to talk to."""
        assert self._stay is not None
        assert self._stay.running is not None
        return self._stay.running

    async def renew(self) -> Running:
        """The model went away before a byte of its answer: another one to talk to, once for each visit.

        It may be the same one, where only the connection was lost. StartFailedError where it was renewed before or does
        not come up; UnloadedError where it was stopped by order; the other errors of a visit.
        """
        stay = self._stay
        if self._is_renewed or stay is None:
            raise StartFailedError("the model ended twice before it answered this request", is_permanent=False)
        self._is_renewed = True
        if not await _has_ended(stay):
            return self.running
        if stay.why_stopped is not None:
            raise UnloadedError(f"model {stay.model.key!r} was stopped before it answered: {stay.why_stopped}")
        self._stay = None
        self._forget(stay)
        self._leave(stay, None)
        self._stay = await self._admit()
        self._heed(self._stay)
        return self.running

    @asynccontextmanager
    async def until_stopped(self) -> AsyncIterator[None]:
        """What is done within ends as soon as the model is ordered to stop, with UnloadedError.

        Its server may take its time, or tell the end of an answer in words after which no client asks again.
        """
        loop = asyncio.get_running_loop()
        span = asyncio.timeout(None)
        try:
            async with span:
                self._cut = lambda: span.reschedule(loop.time())
                self._heed(self._stay)
                yield
        except TimeoutError as error:
            if not span.expired():
                raise
            raise UnloadedError(f"the model was stopped before it had answered: {self._why()}") from error
        finally:
            self._forget(self._stay)
            self._cut = None

    def _heed(self, stay: Stay | None) -> None:
        if stay is None or self._cut is None:
            return
        if stay.why_stopped is not None:
            self._cut()
        else:
            stay.when_stopped.add(self._cut)

    def _forget(self, stay: Stay | None) -> None:
        if stay is not None and self._cut is not None:
            stay.when_stopped.discard(self._cut)

    def _why(self) -> str:
        return (self._stay.why_stopped if self._stay is not None else None) or "by order"

    def end(self, keep_alive_s: float | None) -> None:
        """Nothing more is asked; the model stays for so long (None: as configured)."""
        if self._stay is not None:
            self._leave(self._stay, keep_alive_s)
            self._stay = None


async def _has_ended(stay: Stay) -> bool:
    """A connection is cut a moment before its process is seen to have exited."""
    if stay.stage is Stage.STOPPING:
        return True
    try:
        await asyncio.wait_for(stay.end.wait(), _EXIT_IS_SEEN_WITHIN_S)
    except TimeoutError:
        return False
    return True


class ExternalVisit(Visit):
    """Of a server that somebody else runs: nothing to wait for, and only its connection can be renewed."""

    def __init__(self, external: External) -> None:
        self._external = external
        self._stay = self._cut = None

    @property
    def running(self) -> Running:
        return self._external

    async def renew(self) -> Running:
        return self._external
