"""One route being built: who is there, a stage made on each member, the connections between them.

Everything here runs on the loop of the coordinator's thread. Promises: a failure leaves nothing behind that `close`
does not take away; a member that is lost while its stage is made is noticed.
"""

import asyncio
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from distributed import Client, KilledWorker
from distributed.actor import Actor

from whitedwarf.cluster.dask_route import DaskRoute, RemoteStage
from whitedwarf.cluster.facts import Present, facts_in
from whitedwarf.cluster.link import Link, LinkLostError
from whitedwarf.cluster.loop_thread import LoopThread
from whitedwarf.cluster.member import ROUTE
from whitedwarf.cluster.patience import Patience
from whitedwarf.cluster.security import Trust
from whitedwarf.cluster.stage_actor import StageActor
from whitedwarf.cluster.wish import StageWish
from whitedwarf.cluster.work import Done
from whitedwarf.errors import ClusterError, WhitedwarfError

Remote = tuple[Present, range]  # a member, and the layers it is to have
Plan = Callable[[Sequence[Present]], list[Remote]]  # ClusterError says what is missing


@dataclass(frozen=True, slots=True)
class Wanted:
    """What all stages have in common."""

    fingerprint: str
    num_layers: int
    kv_cache: str
    quality: bool

    def stage(self, route: str, layers: range) -> StageWish:
        """For one member."""
        return StageWish(route, layers, self.fingerprint, self.num_layers, self.kv_cache, self.quality)


@dataclass(slots=True)
class Building:
    """The connection to a meeting place, and the route that was last built over it."""

    address: str
    trust: Trust
    patience: Patience
    wanted: Wanted
    plan: Plan
    heard: Callable[[Done], None]
    thread: LoopThread
    current: DaskRoute | None = None
    client: Client | None = None
    futures: list[Any] = field(default_factory=list)  # dask's: while they are held, the actors live
    links: list[Link] = field(default_factory=list)
    generation: int = 0

    async def members(self) -> list[Present]:
        """Asks the meeting place; ClusterError where there is none."""
        client = await self._connected()
        try:
            identity = await asyncio.wait_for(client.scheduler.identity(n_workers=-1), self.patience.silence_s)
        except (OSError, TimeoutError) as error:
            raise ClusterError(f"the meeting place at {self.address} does not answer: {error}") from error
        found = [(address, facts_in(told["metrics"])[1]) for address, told in identity["workers"].items()]
        return [Present(address, facts) for address, facts in found if facts is not None]

    async def build(self) -> DaskRoute:
        """ClusterError for whatever keeps it from being whole, also for members that are lost meanwhile."""
        shares = self.plan(await self.members())
        route = uuid.uuid4().hex
        try:
            actors = await self._actors(route, shares)
            await self._link(route, shares)
        except LinkLostError as error:
            raise ClusterError(str(error)) from error
        parts = [
            RemoteStage(present.facts.name, layers, actor, link)
            for (present, layers), actor, link in zip(shares, actors, reversed(self.links), strict=True)
        ]
        self.links.clear()  # the route has them now
        self.generation += 1
        self.current = DaskRoute(self.generation, parts, self.thread, self.patience, self.heard)
        return self.current

    async def close(self) -> None:
        """Give up the route and what is built of one, and the connection to the meeting place with it."""
        route, self.current = self.current, None
        if route is not None:
            await route.close()
        while self.links:
            await self.links.pop().close()
        self.futures.clear()
        client, self.client = self.client, None
        if client is not None:
            await client.close()

    async def _connected(self) -> Client:
        if self.client is None:
            try:
                self.client = await Client(
                    self.address,
                    asynchronous=True,
                    direct_to_workers=True,
                    security=self.trust.security(),
                    timeout=self.patience.silence_s,
                )
            except OSError as error:
                raise ClusterError(
                    f"nobody whom these keys open answers at {self.address} (`whitedwarf cluster start`): {error}"
                ) from error
        return self.client

    async def _actors(self, route: str, shares: Sequence[Remote]) -> list[Actor]:
        """A stage on each member. This may take long: they load their layers."""
        client = await self._connected()
        for present, layers in shares:
            wish = self.wanted.stage(route, layers)
            if why := wish.refusal(present.facts):
                raise ClusterError(why)
            made = client.submit(StageActor, wish, actor=True, workers=[present.address], pure=False, retries=0)
            self.futures.append(made)
        waiting = [asyncio.ensure_future(future.result()) for future in self.futures]
        try:
            while not all(one.done() for one in waiting):
                await asyncio.wait(waiting, timeout=self.patience.pulse_s, return_when=asyncio.FIRST_EXCEPTION)
                _raise_failed(waiting)
                await self._check_there(shares)
            return [one.result() for one in waiting]
        finally:
            for one in waiting:
                one.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    async def _check_there(self, shares: Sequence[Remote]) -> None:
        there = {member.address for member in await self.members()}
        for present, _ in shares:
            if present.address not in there:
                raise LinkLostError(f"{present.facts.name} was lost while it loaded its layers")

    async def _link(self, route: str, shares: Sequence[Remote]) -> None:
        """From the last member to the first, so that each finds the next one ready."""
        onward: str | None = None
        for present, _ in reversed(shares):
            role = "first" if present is shares[0][0] else "later"
            hello = {"op": ROUTE, "route": route, "role": role, "onward": onward}
            link = await Link.open(present.address, self.trust.connection_args(), hello, self.patience)
            self.links.append(link)
            message, _ = await link.receive()
            if message["do"] != "ready":
                raise LinkLostError(f"{present.facts.name}: {message.get('why', 'expected it to be ready')}")
            onward = present.address


def _raise_failed(waiting: "Sequence[asyncio.Future[Actor]]") -> None:
    for one in waiting:
        if one.done() and (error := one.exception()) is not None:
            if isinstance(error, WhitedwarfError):
                raise ClusterError(str(error)) from error
            if isinstance(error, KilledWorker):
                raise LinkLostError("a member was lost while it loaded its layers") from error
            raise LinkLostError(f"a stage could not be made: {type(error).__name__}: {error}") from error
