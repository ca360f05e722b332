"""A route's way through one member: work comes in from before, is computed, and goes straight on to the next member.

The coordinator keeps a Link of its own to every member of its route. Through it the member hears at once when the
coordinator is gone, and tells when a neighbour is; the last member's results go back through it, and the first one's
work comes in. Promises: work is computed in the order of its numbers, one at a time, while the next arrives and the
one before leaves; when the passage ends, for whatever reason, all its connections are closed.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any, Protocol

from whitedwarf.cluster.boundary import Bytes
from whitedwarf.cluster.link import Link, LinkLostError, Message
from whitedwarf.cluster.patience import Patience
from whitedwarf.cluster.wire import Failure, Passing, Result
from whitedwarf.cluster.work import Done, Hop, Work
from whitedwarf.errors import WhitedwarfError

_LOG = logging.getLogger("whitedwarf.cluster")
_MICRO = 1_000_000


class Works(Protocol):
    """A stage, as far as work goes."""

    def work(self, work: Work) -> Done: ...


RunInThread = Callable[[Callable[[], Any]], "asyncio.Future[Any]"]  # in the one thread that owns the model


class Passage:
    """One route on one member."""

    def __init__(self, stage: Works, run_in_thread: RunInThread, patience: Patience) -> None:
        self._stage = stage
        self._patience = patience
        self._run_in_thread = run_in_thread
        self._inbox: asyncio.Queue[tuple[Passing, int]] = asyncio.Queue()  # bounded by the coordinator's window
        self._upstream: asyncio.Future[Link] = asyncio.get_running_loop().create_future()
        self._over = asyncio.Event()
        self._next_number: int | None = None
        self._sent_s = 0.0

    async def run(self, coordinator: Link, onward: Callable[[], Awaitable[Link]] | None, *, is_first: bool) -> None:
        """Until the coordinator or a neighbour is lost. `onward` connects to the next member, if there is one."""
        links = [coordinator]
        try:
            next_link = None
            if onward is not None:
                links.append(next_link := await onward())
            await coordinator.send({"do": "ready"})
            await self._pass_on(coordinator, next_link, is_first=is_first)
        except LinkLostError as error:
            await self._tell(coordinator, str(error))
        finally:
            self._over.set()
            if self._upstream.done() and not self._upstream.cancelled():
                links.append(self._upstream.result())
            self._upstream.cancel()
            for link in links:
                await link.close()

    async def enter(self, upstream: Link) -> None:
        """A neighbour's connection: work comes in through it until the passage is over."""
        if self._upstream.done():
            await upstream.close()
            return
        self._upstream.set_result(upstream)
        await self._over.wait()

    async def _tell(self, coordinator: Link, why: str) -> None:
        """What was lost; the coordinator hangs up when it has heard, and to hang up first might swallow the words."""
        with contextlib.suppress(LinkLostError, TimeoutError):
            async with asyncio.timeout(self._patience.silence_s):
                await coordinator.send({"do": "broken", "why": why})
                await _hear(coordinator)

    async def _pass_on(self, coordinator: Link, next_link: Link | None, *, is_first: bool) -> None:
        readers = [self._read(coordinator)]
        if not is_first:
            readers.append(self._read_upstream())
        if next_link is not None:
            readers.append(_hear(next_link))
        tasks = [asyncio.create_task(one) for one in (*readers, self._compute(coordinator, next_link))]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _read_upstream(self) -> None:
        await self._read(await self._upstream)

    async def _read(self, link: Link) -> None:
        while True:
            message, array = await link.receive()
            if message.get("do") == "work":
                size = 0 if array is None else len(array)
                self._inbox.put_nowait((Passing.read(message, array), size))

    async def _compute(self, coordinator: Link, next_link: Link | None) -> None:
        while True:
            since = perf_counter()
            passing, bytes_in = await self._inbox.get()
            self._check_number(passing.work.number)
            clock = _Clock(perf_counter() - since, self._sent_s, bytes_in)
            computed = await self._run_in_thread(partial(self._computed, passing))
            await self._send(next_link or coordinator, computed.message(clock, is_last=next_link is None))

    async def _send(self, link: Link, told: tuple[Message, Bytes | None]) -> None:
        since = perf_counter()
        await link.send(*told)
        self._sent_s = perf_counter() - since

    def _check_number(self, number: int) -> None:
        if self._next_number not in (None, number):
            raise LinkLostError(f"expected work number {self._next_number}, got {number}: work was lost on the way")
        self._next_number = number + 1

    def _computed(self, passing: Passing) -> "_Computed":
        """In the model's thread. After a failure before us only the orders are carried out."""
        work, failure = passing.work, passing.failure
        if failure is not None:
            work = replace(work, spans=(), streams=None, is_ack_only=True)
        try:
            return _Computed(passing, self._stage.work(work), failure)
        except Exception as error:
            if not isinstance(error, WhitedwarfError):  # a bug of ours, or no memory: this work fails, the line goes on
                _LOG.exception("a stage failed")
            return _Computed(passing, Done(work.number), failure or Failure.of(error))


@dataclass(frozen=True, slots=True)
class _Clock:
    """Of one piece of work on one member; `sent_s` is how long it took to hand on the piece before it."""

    waited_s: float
    sent_s: float
    bytes_in: int

    def hop(self, hop: Hop, bytes_out: int) -> Hop:
        """The stage's own record, with what only the line knows."""
        return replace(
            hop,
            wait_us=round(self.waited_s * _MICRO),
            send_us=round(self.sent_s * _MICRO),
            bytes_in=self.bytes_in,
            bytes_out=bytes_out,
        )


@dataclass(frozen=True, slots=True)
class _Computed:
    """What came of a piece of work here."""

    passing: Passing
    done: Done
    failure: Failure | None

    def message(self, clock: _Clock, *, is_last: bool) -> tuple[Message, Bytes | None]:
        """For the next member, or for the coordinator."""
        done, passing = self.done, self.passing
        sent_bytes = sum(array.nbytes for array in (done.streams, done.logits) if array is not None)
        hops = passing.hops + tuple(clock.hop(hop, sent_bytes) for hop in done.hops)
        if is_last:
            return Result(replace(done, hops=hops), self.failure).message()
        return Passing(replace(passing.work, streams=done.streams), hops, self.failure).message()


async def _hear(link: Link) -> None:
    """Nothing comes this way but signs of life, until they stop."""
    while True:
        await link.receive()
