"""Which port each model has, from the config alone: asked again, also while a supervisor runs, it says the same.

A public port is the model's own or the public base plus its place in the list (external ones count). An internal port
is the model's own or the first from the internal base that nobody else has. Two things never get one port
(spec/supervisor.md 1.2, 2.2).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from whitedwarf.errors import UsageError

LAST_PORT = 65_535


@dataclass(frozen=True, slots=True)
class PortRequest:
    """What one entry says; 0 where it says nothing. `name` and `where` are for messages."""

    name: str
    where: str
    public: int = 0
    internal: int = 0
    is_managed: bool = True


@dataclass(frozen=True, slots=True)
class PortPair:
    """What it gets; `internal` 0 for an external one."""

    public: int
    internal: int


def assign_ports(requests: Sequence[PortRequest], public_base: int, internal_base: int) -> list[PortPair]:
    """In the order of the requests; UsageError names both sides of a collision and the way out."""
    taken = _Taken()
    for request in requests:  # chosen ones first: what is automatic never takes the place of what somebody wrote
        if request.public:
            taken.add(request.public, f"{request.where}.publicPort")
        if request.internal:
            taken.add(request.internal, f"{request.where}.internalPort")
    publics = [
        request.public or taken.add(public_base + index, f"the automatic public port of {request.name!r}")
        for index, request in enumerate(requests)
    ]
    internals = []
    following = internal_base
    for request in requests:
        internal = request.internal
        if request.is_managed and not internal:
            following = taken.first_free(following)
            internal = taken.add(following, f"the automatic internal port of {request.name!r}")
        internals.append(internal)
    return [PortPair(*pair) for pair in zip(publics, internals, strict=True)]


class _Taken:
    """Ports that have an owner."""

    def __init__(self) -> None:
        self._owners: dict[int, str] = {}

    def add(self, port: int, owner: str) -> int:
        """The same port; UsageError where it is another's or none."""
        if port > LAST_PORT:
            raise UsageError(f"{owner} would be {port}; ports end at {LAST_PORT}: choose a lower base or give the port")
        other = self._owners.setdefault(port, owner)
        if other is not owner:
            raise UsageError(f"port {port} is {owner} and also {other}; give one of them another port")
        return port

    def first_free(self, port: int) -> int:
        """From this one on."""
        while port in self._owners:
            port += 1
        return port
