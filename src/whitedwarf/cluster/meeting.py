"""The meeting place: dask's scheduler, which knows who is in the cluster and notices who is gone.

Promises: members of another version or another model are told so and are not taken; a member that comes back in the
place of its own dead connection is taken at once; nothing listens but the one port, on the one address.
"""

import asyncio
from typing import Any

from distributed import Scheduler
from distributed.comm import Comm

from whitedwarf.cluster.facts import MemberFacts, facts_in, refusal
from whitedwarf.cluster.patience import Patience
from whitedwarf.cluster.security import Trust


class MeetingPlace(Scheduler):  # type: ignore[misc]  # dask is untyped
    """A scheduler that knows what a member of ours is. No pages, no statistics."""

    def start_http_server(self, *_: object, **__: object) -> None:
        """None: dask's pages and figures would be open to everybody."""

    async def add_worker(self, comm: Comm, *, metrics: dict[str, Any], name: str, **others: Any) -> None:
        """A member comes, or comes back."""
        version, facts = facts_in(metrics)
        if why := refusal(version, facts, self._present(name)):
            await comm.write({"status": "error", "message": why, "time": 0.0})
            return
        if (stale := self.aliases.get(name)) is not None:
            await self.remove_worker(stale, stimulus_id="whitedwarf-came-back", close=False)
        await super().add_worker(comm, metrics=metrics, name=name, **others)

    def _present(self, without: str) -> list[MemberFacts]:
        others = [facts_in(worker.metrics)[1] for worker in self.workers.values() if worker.name != without]
        return [facts for facts in others if facts is not None]


async def hold_meeting(
    host: str, port: int, trust: Trust, patience: Patience, stop: asyncio.Event, ready: asyncio.Future[str]
) -> None:
    """Run until `stop`; `ready` gets the address. OSError where the port is taken."""
    place = MeetingPlace(
        host=host,
        port=port,
        protocol=trust.scheme,
        security=trust.security(),
        dashboard=False,
        extensions={},
        worker_ttl=3 * patience.silence_s,
    )
    try:
        await _started(place)
        ready.set_result(place.address)
        await stop.wait()
    finally:
        await place.close()


async def _started(place: MeetingPlace) -> None:
    try:
        await place
    except RuntimeError as error:  # dask's word for every failure
        raise error.__cause__ or error from None
