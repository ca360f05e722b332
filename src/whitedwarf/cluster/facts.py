"""What a member says of itself, and who may be in a cluster together.

Plain values, told to the meeting place at the beginning and again with every sign of life.
"""

import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from whitedwarf import __version__

KEY = "whitedwarf"  # among dask's own facts of a worker


@dataclass(frozen=True, slots=True)
class MemberFacts:
    """Of one process. `present` is what its file has, `asked` what --layers says, `loaded` what it holds now."""

    name: str
    host: str
    pid: int
    model: str  # the file's own name for it
    fingerprint: str
    num_layers: int
    present: range
    asked: range | None
    loaded: range | None
    memory_bytes: int  # that a part may take
    read_bytes_per_s: float  # measured: how fast this machine reads memory, which bounds how fast it decodes
    num_routes: int = 0
    num_sessions: int = 0
    version: str = __version__

    def to_wire(self) -> dict[str, Any]:
        """For msgpack."""
        plain = {name: getattr(self, name) for name in self.__slots__}
        return plain | {name: _pair(plain[name]) for name in ("present", "asked", "loaded")}

    @classmethod
    def from_wire(cls, plain: dict[str, Any]) -> "MemberFacts":
        """ValueError for what another version calls by other names."""
        if unknown := set(cls.__slots__) ^ set(plain):
            raise ValueError(f"facts of a member of another version: {sorted(unknown)}")
        return cls(**(plain | {name: _range(plain[name]) for name in ("present", "asked", "loaded")}))


@dataclass(frozen=True, slots=True)
class Present:
    """A member, and where it is to be reached."""

    address: str
    facts: MemberFacts


def refusal(version: object, facts: MemberFacts | None, present: Iterable[MemberFacts]) -> str:
    """Why a process may not join those present, to be shown to its user; "" if it may."""
    if version != __version__:
        return f"this member is whitedwarf {version}, the meeting place {__version__}: install the same on both"
    if facts is None:
        return "expected a member that `whitedwarf cluster join` started"
    for other in present:
        if other.fingerprint != facts.fingerprint:
            return (
                f"this member has {facts.model} ({facts.fingerprint}), {other.name} has {other.model} "
                f"({other.fingerprint}): all members need files of the same model"
            )
    return ""


def facts_in(metrics: dict[str, Any]) -> tuple[object, MemberFacts | None]:
    """Version and facts out of what dask knows of a worker; None for facts that cannot be read."""
    plain = metrics.get(KEY)
    if not isinstance(plain, dict):
        return "unknown", None
    version = plain.get("version", "unknown")
    try:
        return version, MemberFacts.from_wire(plain)
    except (ValueError, TypeError):
        return version, None


def this_process() -> tuple[str, str, int]:
    """A name for it, the host it runs on, and its id."""
    host = platform.node() or "member"
    return host, host, os.getpid()


def layers_text(layers: range | None, num_layers: int) -> str:
    """As --layers has it."""
    if not layers:
        return "none"
    last = "output" if layers[-1] == num_layers - 1 else layers[-1]
    return f"{layers[0]}:{last}"


def _pair(layers: range | None) -> tuple[int, int] | None:
    return None if layers is None else (layers.start, layers.stop)


def _range(pair: Any) -> range | None:
    return None if pair is None else range(*pair)
