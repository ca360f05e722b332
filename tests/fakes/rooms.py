"""A desk that runs over fake launches and a fake clock, and guests: requests that stay until they are told to go."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from fakes.launches import FakeClock, FakeLaunches, config_of
from whitedwarf.supervisor.config import ExternalModel, ManagedModel
from whitedwarf.supervisor.desk import Desk
from whitedwarf.supervisor.status import ModelStatus
from whitedwarf.supervisor.visits import Visit

Result = TypeVar("Result")


class Room:
    """A desk that runs, and what is around it."""

    def __init__(self, *models: ManagedModel | ExternalModel, **more: Any) -> None:
        self.clock = FakeClock()
        self.launches = FakeLaunches()
        self.desk = Desk(config_of(*models, **more), self.launches, self.clock, foresee=self.launches.foresee)

    def status(self, key: str) -> ModelStatus:
        return next(one for one in self.desk.status() if one.key == key)

    def later(self, seconds: float) -> None:
        self.clock.pass_(seconds)
        self.desk.look()

    async def ask(self, key: str, **more: Any) -> int:
        """A request that is answered at once; the pid that did it."""
        async with self.desk.visit(key, **more) as visit:
            return visit.running.pid


@asynccontextmanager
async def room(*models: ManagedModel | ExternalModel, **more: Any) -> AsyncIterator[Room]:
    async with asyncio.timeout(10):
        made = Room(*models, **more)
        running = asyncio.create_task(made.desk.run())
        await turns()
        try:
            yield made
        finally:
            running.cancel()
            await asyncio.wait([running])
            assert made.launches.alive == []
            assert running.cancelled()


async def turns() -> None:
    """Let everything happen that needs no time."""
    for _ in range(50):
        await asyncio.sleep(0)


class Guest:
    """A request that stays until it is told to go."""

    def __init__(self, at: Room, key: str, **more: Any) -> None:
        self._wishes: asyncio.Queue[str] = asyncio.Queue()
        self.visit: Visit | None = None
        self.is_renewing = self.has_renewed = False
        self.task = asyncio.create_task(self._stay(at, key, more))

    async def _stay(self, at: Room, key: str, more: dict[str, Any]) -> None:
        async with at.desk.visit(key, **more) as self.visit:
            while await self._wishes.get() == "renew":
                await self.visit.renew()
                self.is_renewing = False

    @property
    def is_in(self) -> bool:
        return self.visit is not None and not self.task.done() and not self.is_renewing

    def renew(self) -> None:
        """Its process has died: it wants another, and is not in until it has it."""
        self.is_renewing = self.has_renewed = True
        self._wishes.put_nowait("renew")

    async def leave(self) -> None:
        self._wishes.put_nowait("leave")
        await self.task
        await turns()

    async def walk_away(self) -> None:
        """The client hangs up."""
        self.task.cancel()
        await asyncio.wait([self.task])
        await turns()

    async def error(self) -> BaseException | None:
        await asyncio.wait([self.task])
        return self.task.exception()


async def guests(at: Room, *keys: str, **more: Any) -> list[Guest]:
    found = [Guest(at, key, **more) for key in keys]
    await turns()
    return found


async def begun(work: Awaitable[Result]) -> "asyncio.Future[Result]":
    task = asyncio.ensure_future(work)
    await turns()
    return task
