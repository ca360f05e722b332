"""The one owner of what is loaded: every request comes here for a model that is up, and says here when it has ended.

Promises: a model is started once for all who wait for it; a process is stopped only here, and a place is given to the
next only when its process is gone; every visit ends in an admission or in one error; closing leaves nothing behind.
Does not know HTTP, nor how processes are started: `Launch` does that.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from whitedwarf.supervisor.config import ManagedModel, SupervisorConfig
from whitedwarf.supervisor.limits import SoftLimit
from whitedwarf.supervisor.running import Running
from whitedwarf.supervisor.status import Event, ModelStatus

Clock = Callable[[], float]
Launch = Callable[[ManagedModel, Callable[[str], None]], Awaitable[Running]]
"""Starts a model, telling how far it is; returns when it answers. StartFailedError leaves nothing behind. Cancelled, it
stops what it started and waits until that is gone."""


class Visit:
    """A request's stay at a model that is up, counted until its end."""

    @property
    def running(self) -> Running:
        """The model to talk to."""
        raise NotImplementedError

    async def renew(self) -> Running:
        """The model went away before a byte of its answer: another one to talk to, once for each visit.

        It may be the same one, where only the connection was lost. StartFailedError where it was renewed before or does
        not come up; UnloadedError where it was stopped by order; the other errors of visit().
        """
        raise NotImplementedError


class Desk:
    """All models of a config. Nothing starts before run() does; visits that come earlier wait for it."""

    def __init__(self, config: SupervisorConfig, launch: Launch, clock: Clock = time.monotonic) -> None:
        self.config = config

    async def run(self) -> None:
        """Preload, and let go of what is idle, until cancelled; then everything is stopped and gone."""
        raise NotImplementedError

    @asynccontextmanager
    async def visit(self, key: str, *, keep_alive_s: float | None = None) -> AsyncIterator[Visit]:
        """Wait for the model and keep it until the end of the block. External ones are always there.

        `keep_alive_s`: how long it stays loaded after this request; 0 not at all, negative for ever, None as
        configured. Raises StartFailedError, QueueFullError, WaitedTooLongError, UnloadedError; UsageError for a key
        that is none.
        """
        raise NotImplementedError
        yield Visit()

    def peek(self, key: str) -> Running | None:
        """The model if it is loaded, without waking it and without touching its idle clock."""
        raise NotImplementedError

    def limit(self, key: str) -> SoftLimit:
        """The soft limit of a model: `await desk.limit(key).check(visit.running, target, body)`."""
        raise NotImplementedError

    async def start(self, key: str) -> None:
        """Load the model, whatever failed before; the errors of visit()."""
        raise NotImplementedError

    async def unload(self, key: str | None = None, *, drain: bool = False) -> tuple[str, ...]:
        """Stop a model, or all: at once, or with `drain` after the requests it has. Returns which, when they are gone.

        Who waits for it gets UnloadedError, unless it drains. A request that comes meanwhile starts it again.
        """
        raise NotImplementedError

    async def reload(self, config: SupervisorConfig) -> tuple[str, ...]:
        """Take another config. Loaded models whose process would be the same stay; the others finish what they have
        and go. Returns the keys of those that go, without waiting for it."""
        raise NotImplementedError

    def status(self) -> tuple[ModelStatus, ...]:
        """All models, in the order of the config."""
        raise NotImplementedError

    async def subscribe(self) -> AsyncIterator[Event]:
        """What happens from now on. Whoever reads too slowly loses the oldest; ends when the desk closes."""
        raise NotImplementedError
        yield
