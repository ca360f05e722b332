"""The process that has the first layers, as the cluster sees it: finds members, gives each its layers, builds routes.

Promises: `route` waits until members for all layers are there, says what is missing whenever that changes, and gives up
with one clear error; a member that dies while the route is built is waited for like one that is not there yet; what
can never work (another model, another version) is an error at once.
"""

import asyncio
import contextlib
import uuid
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from distributed import Client, Future

from whitedwarf.cluster.dask_route import DaskRoute, RemoteStage
from whitedwarf.cluster.facts import Present, facts_in
from whitedwarf.cluster.link import Link, LinkLostError
from whitedwarf.cluster.loop_thread import LoopThread
from whitedwarf.cluster.member import ROUTE
from whitedwarf.cluster.patience import Patience
from whitedwarf.cluster.security import Trust
from whitedwarf.cluster.stage_actor import StageActor
from whitedwarf.cluster.wish import StageWish
from whitedwarf.cluster.work import IsCancelled
from whitedwarf.errors import Cancelled, ClusterError

_LOOK_AGAIN_S = 0.25
Share = tuple[Present, range]  # a member, and the layers it is to have
Plan = Callable[[list[Present]], list[Share]]  # ClusterError says what is missing


@dataclass(frozen=True, slots=True)
class Wanted:
    """What all stages have in common."""

    fingerprint: str
    num_layers: int
    context_length: int
    kv_cache: str
    quality: bool


class Coordinator:
    """Close it; one that is dropped or still open at exit is closed by the interpreter."""

    def __init__(
        self,
        address: str,
        trust: Trust,
        patience: Patience,
        wanted: Wanted,
        plan: Plan,
        note: Callable[[str], None],
    ) -> None:
        self._thread = LoopThread("whitedwarf-cluster")
        self._building = _Building(address, trust, patience, wanted, plan, note, self._thread)
        self._finalizer = weakref.finalize(self, _close, self._building, self._thread)

    def members(self) -> list[Present]:
        """Who is there now; ClusterError where there is no meeting place."""
        return self._thread.run(self._building.members())

    def rebuild(self, is_cancelled: IsCancelled = lambda: False) -> DaskRoute:
        """A new route in the place of any earlier one; ClusterError after a while without a whole one."""
        return self._thread.run(self._building.route(is_cancelled))

    def close(self) -> None:
        """May be called again."""
        self._finalizer()


class _Building:
    """All that happens on the loop's thread."""

    def __init__(
        self,
        address: str,
        trust: Trust,
        patience: Patience,
        wanted: Wanted,
        plan: Plan,
        note: Callable[[str], None],
        thread: LoopThread,
    ) -> None:
        self._address = address
        self._trust = trust
        self._patience = patience
        self._wanted = wanted
        self._plan = plan
        self._note = note
        self._thread = thread
        self._client: Client | None = None
        self._held: list[Future] = []  # dask's: while they are held, the actors live
        self._route: DaskRoute | None = None
        self._generation = 0

    async def members(self) -> list[Present]:
        """Asks the meeting place; ClusterError where there is none."""
        client = await self._connected()
        try:
            identity = await asyncio.wait_for(client.scheduler.identity(n_workers=-1), self._patience.silence_s)
        except (OSError, TimeoutError) as error:
            raise ClusterError(f"the meeting place at {self._address} does not answer: {error}") from error
        found = [(address, facts_in(told["metrics"])[1]) for address, told in identity["workers"].items()]
        return [Present(address, facts) for address, facts in found if facts is not None]

    async def route(self, is_cancelled: IsCancelled) -> DaskRoute:
        """See Coordinator.rebuild."""
        await self.close()
        until, why = monotonic() + self._patience.whole_s, ""
        while True:
            try:
                return await self._build()
            except LinkLostError as error:
                reason = str(error)
            except ClusterError as error:
                reason = str(error)
            await self.close()
            if reason != why:
                self._note(f"waiting for the cluster: {reason}")
            why = reason
            if is_cancelled():
                raise Cancelled("cancelled while waiting for the cluster")
            if monotonic() > until:
                raise ClusterError(f"the cluster is not whole after {self._patience.whole_s:g} s of waiting: {why}")
            await asyncio.sleep(_LOOK_AGAIN_S)

    async def close(self) -> None:
        """Give up the route, and the connection to the meeting place with it."""
        route, self._route = self._route, None
        if route is not None:
            await route.close()
        self._held.clear()
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _connected(self) -> Client:
        if self._client is None:
            try:
                self._client = await Client(
                    self._address,
                    asynchronous=True,
                    direct_to_workers=True,
                    security=self._trust.security(),
                    timeout=self._patience.silence_s,
                )
            except OSError as error:
                raise ClusterError(f"nobody answers at {self._address}: {error}") from error
        return self._client

    async def _build(self) -> DaskRoute:
        shares = self._plan(await self.members())
        route = uuid.uuid4().hex
        client = await self._connected()
        for present, layers in shares:
            wish = StageWish(route, layers, **{name: getattr(self._wanted, name) for name in Wanted.__slots__})
            self._held.append(
                client.submit(StageActor, wish, actor=True, workers=[present.address], pure=False, retries=0)
            )
        actors = await asyncio.gather(*self._held)
        links: list[Link] = []
        try:
            await self._link(route, shares, links)
        except BaseException:
            for link in links:
                link.abort()
            raise
        parts = [
            RemoteStage(present.facts.name, layers, actor, link)
            for (present, layers), actor, link in zip(shares, actors, reversed(links), strict=True)
        ]
        self._generation += 1
        self._route = DaskRoute(self._generation, parts, self._thread, self._patience)
        return self._route

    async def _link(self, route: str, shares: list[Share], links: list[Link]) -> None:
        """From the last member to the first, so that each finds the next one ready."""
        onward: str | None = None
        for number in reversed(range(len(shares))):
            present, _ = shares[number]
            role = "first" if number == 0 else "later"
            hello = {"op": ROUTE, "route": route, "role": role, "onward": onward}
            link = await Link.open(present.address, self._trust.connection_args(), hello, self._patience)
            links.append(link)
            message, _ = await link.receive()
            if message["do"] != "ready":
                raise LinkLostError(f"{present.facts.name}: {message.get('why', 'expected it to be ready')}")
            onward = present.address


def _close(building: _Building, thread: LoopThread) -> None:
    with contextlib.suppress(Exception):  # whatever is gone is closed
        thread.run(building.close())
    thread.close()
