"""A process from its start to its end: what is tried again, what ends it, and that nothing of it is left.

The desk decides when a life begins and when it is to end (`stay.stop`); here it is carried out.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from whitedwarf.supervisor import policy
from whitedwarf.supervisor.config import ManagedModel
from whitedwarf.supervisor.failures import StartFailedError
from whitedwarf.supervisor.residence import Resident, Stay
from whitedwarf.supervisor.running import Running

log = logging.getLogger(__name__)

Launch = Callable[[ManagedModel, Callable[[str], None]], Awaitable[Running]]


class Settle(Protocol):
    """Waits until the machine has got back what ended processes had."""

    async def __call__(self, *, after_failure: bool) -> None:
        """`after_failure`: of this model's last start, which may have failed for want of it."""
        ...


class Life:
    """Of one stay."""

    def __init__(
        self,
        resident: Resident,
        stay: Stay,
        launch: Launch,
        clock: Callable[[], float],
        settle: Settle,
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._resident = resident
        self._stay = stay
        self._launch = launch
        self._clock = clock
        self._settle = settle
        self._tasks = tasks

    async def bring_up(self) -> Running | StartFailedError | None:
        """Start it, twice where that can help. None: it was ordered to end before it was up, and is gone."""
        starts = 0
        while not self._stay.end.is_set():
            starts += 1
            began_s = self._clock()
            outcome = await self._try(is_second=starts > 1)
            took_s = self._clock() - began_s
            if not isinstance(outcome, StartFailedError):
                self._resident.last_start_s = took_s
                return outcome
            if not policy.is_worth_another_start(outcome, starts, took_s, self._stay.model):
                return outcome
            log.warning("model %s did not come up, starting it once more: %s", self._stay.model.key, outcome)
            self._stay.loading_text = "the first start failed, starting once more"
        return None

    async def _try(self, *, is_second: bool) -> Running | StartFailedError | None:
        self._resident.start_count += 1
        self._stay.launching = launching = self._tasks.create_task(self._start(is_second))
        await asyncio.wait([launching])
        return None if launching.cancelled() else launching.result()

    async def _start(self, is_second: bool) -> Running | StartFailedError:
        try:
            await self._settle(after_failure=is_second)
            return await self._launch(self._stay.model, self._progress)
        except StartFailedError as error:
            return error
        except Exception as error:  # a bug of ours must not take the other models down
            log.exception("starting model %s", self._stay.model.key)
            said = f"model {self._stay.model.key!r} could not be started: {type(error).__name__}: {error}"
            return StartFailedError(said, is_permanent=False)

    def _progress(self, text: str) -> None:
        self._stay.loading_text = text

    async def see_out(self, running: Running) -> None:
        """Wait until it has exited or is to be stopped, and stop it; also what it left of its own when it exited."""
        self._tasks.create_task(self._watch(running))
        try:
            await self._stay.end.wait()
        finally:
            self._stay.end.set()
            await running.stop()

    async def _watch(self, running: Running) -> None:
        await running.wait_exit()
        self._stay.end.set()
