"""A member: a process that holds some layers of the model, for whichever coordinator asks for them.

It is a dask worker as long as there is a meeting place, and tries again and again where there is none. Promises: the
loaded part outlives meeting places and coordinators, the sessions of a coordinator end with its connection; a member
that the meeting place does not take (other version, other model, other keys) ends with the reason.
"""

import asyncio
import tempfile
import uuid
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from distributed import Worker
from distributed.comm import Comm
from distributed.comm.core import FatalCommClosedError, connect
from distributed.core import Status

from whitedwarf.cluster.facts import KEY, MemberFacts, layers_text
from whitedwarf.cluster.link import Link
from whitedwarf.cluster.passage import Passage
from whitedwarf.cluster.patience import Patience
from whitedwarf.cluster.security import Trust
from whitedwarf.cluster.stage import Stage
from whitedwarf.cluster.stage_actor import StageActor
from whitedwarf.cluster.wish import StageWish
from whitedwarf.errors import ClusterError

ROUTE = "whitedwarf-route"  # what a connection for a route begins with
_AGAIN_S = 1.0


class Part(Protocol):
    """Some layers of a model, loaded; makes stages that share them."""

    def new_stage(self, wish: StageWish) -> Stage: ...


class Member:
    """What a process has, whether or not there is a meeting place just now."""

    def __init__(self, facts: MemberFacts, load: Callable[[StageWish], Part], note: Callable[[str], None]) -> None:
        self._facts = facts
        self._load = load
        self._note = note
        self._part: tuple[tuple[Any, ...], Part] | None = None
        self._actors: weakref.WeakValueDictionary[str, StageActor] = weakref.WeakValueDictionary()
        self._is_waiting = False
        self.id = f"{facts.name}-{facts.pid}-{uuid.uuid4().hex[:8]}"

    @property
    def facts(self) -> MemberFacts:
        """As they are now."""
        alive = [actor for actor in self._actors.values() if actor.stage is not None]
        sessions = sum(actor.num_sessions for actor in alive)
        return replace(self._facts, num_routes=len(alive), num_sessions=sessions)

    def load(self, wish: StageWish) -> Part:
        """The part that is loaded, if it is the one that is wanted; else it makes room for that one."""
        if self._part is not None and self._part[0] == wish.part:
            return self._part[1]
        layers = layers_text(wish.layers, wish.num_layers)
        self._note(f"loading layers {layers}")
        self._part = None
        part = self._load(wish)
        self._part = (wish.part, part)
        self._facts = replace(self._facts, loaded=wish.layers)
        self._note(f"layers {layers} are loaded")
        return part

    def new_stage(self, actor: StageActor) -> Stage:
        """ClusterError where this member cannot do what is wished."""
        if why := actor.wish.refusal(self._facts):
            self._note(f"refused a coordinator: {why}")
            raise ClusterError(why)
        stage = self.load(actor.wish).new_stage(actor.wish)
        self._actors[actor.wish.route] = actor
        return stage

    def actor(self, route: str) -> StageActor | None:
        """The stage of a route, if it is here."""
        return self._actors.get(route)

    async def run(self, place: "Place", patience: Patience, stop: asyncio.Event) -> None:
        """Be a member until `stop`; ClusterError where the meeting place refuses us."""
        with tempfile.TemporaryDirectory(prefix="whitedwarf-member-") as folder:
            while not stop.is_set():
                if await self._knock(place, patience):
                    await self._stay(MemberWorker(place, self, patience, folder), stop)
                    if not stop.is_set():
                        self._note(f"lost the meeting place at {place.address}; what is loaded stays, trying again")
                await _wait(stop, _AGAIN_S)

    async def _knock(self, place: "Place", patience: Patience) -> bool:
        """Whether somebody is there; ClusterError for one who does not believe our keys, or whose we do not."""
        try:
            comm = await connect(place.address, timeout=patience.silence_s, **place.trust.connection_args())
        except OSError as error:
            if "SSL" in str(error) or isinstance(error, FatalCommClosedError):
                raise ClusterError(
                    f"{place.address}: the meeting place has keys of another cluster, or none: take a folder of keys "
                    f"from where its own were made ({error})"
                ) from error
            if not self._is_waiting:
                self._note(f"nobody answers at {place.address} yet, trying again")
            self._is_waiting = True
            return False
        self._is_waiting = False
        await comm.close()
        return True

    async def _stay(self, worker: "MemberWorker", stop: asyncio.Event) -> None:
        stopping = asyncio.create_task(stop.wait())
        staying = asyncio.create_task(self._join(worker))
        try:
            await asyncio.wait((staying, stopping), return_when=asyncio.FIRST_COMPLETED)
            if staying.done():
                staying.result()
        finally:
            staying.cancel()
            stopping.cancel()
            await asyncio.gather(staying, stopping, return_exceptions=True)
            await worker.close()

    async def _join(self, worker: "MemberWorker") -> None:
        try:
            await worker
        except RuntimeError as error:  # dask's word for every failure; the cause has the meeting place's
            raise ClusterError(f"the meeting place did not take this member: {error.__cause__ or error}") from error
        self._note(f"joined as {self._facts.name}, to be reached at {worker.address}")
        await worker.finished()


@dataclass(frozen=True, slots=True)
class Place:
    """Where to go, and where to listen ourselves."""

    address: str
    host: str
    port: int
    trust: Trust


class MemberWorker(Worker):  # type: ignore[misc]  # dask is untyped
    """A dask worker for one stay at a meeting place. No pages, no spilling, no limit on memory: the part is loaded."""

    def __init__(self, place: Place, member: Member, patience: Patience, folder: str) -> None:
        self.member = member
        self._trust = place.trust
        self._patience = patience
        self._passages: dict[str, Passage] = {}
        super().__init__(
            place.address,
            nthreads=1,
            name=member.id,
            host=place.host,
            port=place.port,
            protocol=place.trust.scheme,
            security=place.trust.security(),
            memory_limit=0,
            data={},
            local_directory=folder,
            heartbeat_interval=f"{patience.pulse_s}s",
            metrics={KEY: lambda worker: worker.member.facts.to_wire()},
            startup_information={},
            extensions={},
        )
        self.handlers[ROUTE] = self.serve_route

    def start_http_server(self, *_: object, **__: object) -> None:
        """None: see MeetingPlace."""

    async def serve_route(self, comm: Comm, *, route: str, role: str, onward: str | None = None) -> Status:
        """One connection of a route, as long as it lasts: a coordinator's, or that of the member before."""
        link = Link(comm, self._patience)
        try:
            if role == "upstream":
                if (passage := self._passages.get(route)) is not None:
                    await passage.enter(link)
            elif (actor := self.member.actor(route)) is not None:
                await self._serve_coordinator(link, actor, onward, is_first=role == "first")
        finally:
            await link.close()
        return Status.dont_reply

    async def _serve_coordinator(self, link: Link, actor: StageActor, onward: str | None, *, is_first: bool) -> None:
        route = actor.wish.route
        passage = Passage(actor, partial(self.loop.run_in_executor, self.executors["actor"]), self._patience)
        self._passages[route] = passage
        connect = None if onward is None else partial(self._connect, onward, route)
        try:
            await passage.run(link, connect, is_first=is_first)
        finally:
            del self._passages[route]
            actor.drop()

    async def _connect(self, address: str, route: str) -> Link:
        hello = {"op": ROUTE, "route": route, "role": "upstream"}
        return await Link.open(address, self._trust.connection_args(), hello, self._patience)


async def _wait(stop: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        return
