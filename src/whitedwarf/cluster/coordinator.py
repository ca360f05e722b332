"""The process that has the first layers, as the cluster sees it: finds members and has routes built.

Promises: `rebuild` waits until members for all layers are there, says what is missing whenever that changes, and gives
up with one clear error; it ends soon after it is cancelled.
"""

import asyncio
import contextlib
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from whitedwarf.cluster.building import Building, Plan, Wanted
from whitedwarf.cluster.dask_route import DaskRoute
from whitedwarf.cluster.facts import Present
from whitedwarf.cluster.loop_thread import LoopThread
from whitedwarf.cluster.patience import Patience
from whitedwarf.cluster.security import Trust
from whitedwarf.cluster.work import Done, IsCancelled
from whitedwarf.errors import Cancelled, ClusterError
from whitedwarf.model.base import never

LOOK_AGAIN_S = 0.25


@dataclass(frozen=True, slots=True)
class Ears:
    """Who is told: of what is waited for, a line each time, and of every piece of work that came through."""

    note: Callable[[str], None]
    heard: Callable[[Done], None] = lambda done: None


class Coordinator:
    """Where a ClusterModel gets its routes. Close it; one that is still open at exit is closed by the interpreter."""

    def __init__(self, address: str, trust: Trust, patience: Patience, wanted: Wanted, plan: Plan, ears: Ears) -> None:
        self._thread = LoopThread("whitedwarf-cluster")
        self._patience = patience
        self._note = ears.note
        self._building = Building(address, trust, patience, wanted, plan, ears.heard, self._thread)
        self._finalizer = weakref.finalize(self, _close, self._building, self._thread)

    @property
    def stages(self) -> list[tuple[range, str]]:
        """Layers and members of the route that there is, if there is one."""
        route = self._building.current
        return [] if route is None else list(zip(route.stages, route.names, strict=True))

    def use(self, plan: Plan) -> None:
        """Who gets which layers, from the next route on."""
        self._building.plan = plan

    def members(self) -> list[Present]:
        """Who is there now; ClusterError where there is no meeting place."""
        return self._thread.run(self._building.members())

    def rebuild(self, is_cancelled: IsCancelled = never) -> DaskRoute:
        """A new route in the place of any earlier one; ClusterError after a while without a whole one."""
        return self._thread.run(self._route(is_cancelled))

    def close(self) -> None:
        """May be called again."""
        self._finalizer()

    async def _route(self, is_cancelled: IsCancelled) -> DaskRoute:
        await self._building.close()
        until, why = monotonic() + self._patience.whole_s, ""
        while True:
            building = asyncio.create_task(self._building.build())
            try:
                return await _unless_cancelled(building, is_cancelled)
            except ClusterError as error:
                reason = str(error)
            await self._building.close()
            if reason != why:
                why = reason
                self._note(f"waiting for the cluster: {why}")
            if monotonic() > until:
                raise ClusterError(f"the cluster is not whole after {self._patience.whole_s:g} s of waiting: {why}")
            await asyncio.sleep(LOOK_AGAIN_S)


async def _unless_cancelled(building: "asyncio.Task[DaskRoute]", is_cancelled: IsCancelled) -> DaskRoute:
    try:
        while not building.done():
            if is_cancelled():
                raise Cancelled("cancelled while the cluster was waited for")
            await asyncio.wait([building], timeout=LOOK_AGAIN_S)
        return building.result()
    finally:
        building.cancel()
        await asyncio.gather(building, return_exceptions=True)


def _close(building: Building, thread: LoopThread) -> None:
    with contextlib.suppress(Exception):  # whatever is gone is closed
        thread.run(building.close())
    thread.close()
