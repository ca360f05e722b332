"""Who is in a cluster, asked of its meeting place from outside: for `whitedwarf cluster status`."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from distributed.comm.core import connect
from distributed.core import send_recv

from whitedwarf.cluster.facts import Present, facts_in, layers_text
from whitedwarf.cluster.patience import Patience
from whitedwarf.cluster.security import Trust
from whitedwarf.errors import ClusterError

_GB = 1e9


@dataclass(frozen=True, slots=True)
class Overview:
    """A meeting place and its members, in the order of their layers."""

    address: str
    members: tuple[Present, ...]

    def document(self) -> dict[str, Any]:
        """For scripts. Layers as --layers has them, null where there are none."""
        return {"address": self.address, "members": [_document(member) for member in self.members]}

    def lines(self) -> Iterable[str]:
        """For people."""
        if not self.members:
            yield f"{self.address}: nobody has joined yet"
            return
        yield f"{self.address}: model {self.members[0].facts.model}"
        for member in self.members:
            facts = member.facts
            held = "holds none yet" if facts.loaded is None else f"holds {layers_text(facts.loaded, facts.num_layers)}"
            yield (
                f"  {facts.name} (pid {facts.pid}, {member.address}): {held}, has "
                f"{layers_text(facts.present, facts.num_layers)} on disk, {facts.memory_bytes / _GB:.1f} GB at "
                f"{facts.read_bytes_per_s / _GB:.1f} GB/s, {facts.num_sessions} sessions of {facts.num_routes} routes"
            )


def look(address: str, trust: Trust, patience: Patience) -> Overview:
    """Ask; ClusterError where there is no meeting place, or none that believes us."""
    return asyncio.run(_look(address, trust, patience))


async def _look(address: str, trust: Trust, patience: Patience) -> Overview:
    try:
        comm = await connect(address, timeout=patience.silence_s, **trust.connection_args())
        try:
            told = await asyncio.wait_for(send_recv(comm, op="identity"), patience.silence_s)
        finally:
            await comm.close()
    except (OSError, TimeoutError) as error:
        raise ClusterError(f"nobody whom these keys open answers at {address}: {error}") from error
    found = [(where, facts_in(one["metrics"])[1]) for where, one in told["workers"].items()]
    members = [Present(where, facts) for where, facts in found if facts is not None]
    return Overview(address, tuple(sorted(members, key=_order)))


def _order(member: Present) -> tuple[int, str]:
    layers = member.facts.loaded or member.facts.asked or member.facts.present
    return layers.start, member.facts.name


def _document(member: Present) -> dict[str, Any]:
    facts = member.facts
    document = {"address": member.address, **facts.to_wire()}
    for name in ("present", "asked", "loaded"):
        layers = getattr(facts, name)
        document[name] = layers_text(layers, facts.num_layers) if layers else None
    return document
