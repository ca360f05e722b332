"""The coordinator's way through all remote stages: actors for what is asked of one stage, a stream for the work.

Work goes to the first member, from member to member, and the last one answers; the coordinator relays nothing. It has
a Link to each of them, so that it hears at once when one is gone. Promises: work arrives in the order in which it was
sent; every piece sent is answered or fails; after the first failure of the transport everything fails with
RouteBroken, at once and for good: then the route has to be built again.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from time import monotonic
from typing import Any

from distributed.actor import Actor

from whitedwarf.cluster.link import Link, LinkLostError
from whitedwarf.cluster.loop_thread import LoopThread
from whitedwarf.cluster.patience import Patience
from whitedwarf.cluster.wire import Passing, Result
from whitedwarf.cluster.work import Done, RouteBroken, Work


@dataclass(frozen=True, slots=True)
class RemoteStage:
    """One member's part of a route."""

    name: str
    layers: range
    actor: Actor
    link: Link


class DaskRoute:
    """A whole route; made by Coordinator. `send` and `call` are for the engine's thread."""

    def __init__(
        self,
        generation: int,
        parts: Sequence[RemoteStage],
        thread: LoopThread,
        patience: Patience,
        heard: Callable[[Done], None],
    ) -> None:
        self.generation = generation
        self._heard = heard
        self.stages = tuple(part.layers for part in parts)
        self._parts = tuple(parts)
        self._thread = thread
        self._patience = patience
        self._outbox: asyncio.Queue[Work] = asyncio.Queue()
        self._pending: dict[int, Future[Done]] = {}
        self._moved_at = monotonic()  # the last time that an answer came, or that there was none to wait for
        self._broken = ""
        self._tasks = [
            thread.loop.create_task(one) for one in (*map(self._hear, parts), self._send_all(), self._watch())
        ]

    @property
    def names(self) -> tuple[str, ...]:
        """Of the members, in the order of `stages`."""
        return tuple(part.name for part in self._parts)

    @property
    def is_broken(self) -> bool:
        """For good."""
        return bool(self._broken)

    def send(self, work: Work) -> "Future[Done]":
        """Begin, after all that was sent before; the future has the last stage's answer, or its error."""
        future: Future[Done] = Future()
        self._thread.loop.call_soon_threadsafe(self._enqueue, work, future)
        return future

    def call(self, stage: int, method: str, *args: Any) -> Any:
        """Ask one stage, beside the stream, in the thread that computes there; its errors come through."""
        return self._thread.run(self._call(self._parts[stage], method, args))

    async def close(self) -> None:
        """On the loop's thread: end all connections; what is pending fails."""
        self._fail("the route was closed")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(part.link.close() for part in self._parts), return_exceptions=True)

    def _enqueue(self, work: Work, future: "Future[Done]") -> None:
        if self._broken:
            future.set_exception(RouteBroken(self._broken))
            return
        if not self._pending:
            self._moved_at = monotonic()
        self._pending[work.number] = future
        self._outbox.put_nowait(work)

    async def _send_all(self) -> None:
        while True:
            work = await self._outbox.get()
            with contextlib.suppress(LinkLostError):  # `_hear` tells it
                await self._parts[0].link.send(*Passing(work).message())

    async def _hear(self, part: RemoteStage) -> None:
        try:
            while True:
                message, array = await part.link.receive()
                if message["do"] == "done":
                    self._answer(Result.read(message, array))
                elif message["do"] == "broken":
                    self._fail(f"{part.name} says: {message['why']}")
                    part.link.abort()
        except LinkLostError as error:
            self._fail(f"lost {part.name}: {error}")

    def _answer(self, result: Result) -> None:
        self._moved_at = monotonic()
        future = self._pending.pop(result.done.number, None)
        if future is None:
            self._fail(f"got an answer to work number {result.done.number}, which is not under way")
        elif result.failure is not None:
            future.set_exception(result.failure.error())
        else:
            future.set_result(result.done)
            self._heard(result.done)

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._patience.pulse_s)
            if self._pending and monotonic() - self._moved_at > self._patience.work_s:
                self._fail(f"no answer to work number {min(self._pending)} within {self._patience.work_s:g} s")

    def _fail(self, why: str) -> None:
        self._broken = self._broken or why
        pending, self._pending = self._pending, {}
        for future in pending.values():
            future.set_exception(RouteBroken(self._broken))

    async def _call(self, part: RemoteStage, method: str, args: tuple[Any, ...]) -> Any:
        if self._broken:
            raise RouteBroken(self._broken)
        try:
            return await asyncio.wait_for(part.actor.call(method, args), self._patience.work_s)
        except (OSError, TimeoutError, FutureTimeoutError) as error:
            self._fail(f"{part.name} did not answer: {error}")
            raise RouteBroken(self._broken) from error
