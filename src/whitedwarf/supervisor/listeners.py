"""Whose a port is: free, a child's, somebody else's. Nobody is spoken to for it.

Linux tells it exactly, also where two share a port. Elsewhere only a child's own ports are known, and what other users
and containers have is known nowhere: then Owner is UNKNOWN, and the answers have to be looked at.
"""

import contextlib
import os
import socket
import sys
from collections.abc import Collection
from enum import Enum, auto

import psutil

from whitedwarf.errors import WhitedwarfError
from whitedwarf.supervisor.linux_sockets import listening_sockets, sockets_of
from whitedwarf.supervisor.process_group import group_members

_MOST_STEPS = 200
_LAST_PORT = 65_535
_SUPERVISOR = "whitedwarf.supervisor"


class Owner(Enum):
    """Of a port that somebody may listen on."""

    NOBODY = auto()
    CHILD = auto()
    STRANGER = auto()
    UNKNOWN = auto()


def free_port(wanted: int, host: str, avoided: Collection[int]) -> int:
    """This port, else the next that is free and not `avoided`; WhitedwarfError where there is none near."""
    after = min(wanted + _MOST_STEPS, _LAST_PORT + 1)
    for port in range(wanted, after):
        if (port == wanted or port not in avoided) and can_bind(host, port):
            return port
    raise WhitedwarfError(f"ports {wanted} to {after - 1} are all taken; give the model another internal port")


def owner_of(port: int, leader: int) -> Owner:
    """Who listens there, seen from the process group that `leader` leads."""
    if sys.platform != "linux":
        return Owner.CHILD if port in _ports_of_tree(leader) else Owner.UNKNOWN
    sockets = listening_sockets(port)
    if sockets is None:
        return Owner.UNKNOWN
    if not sockets:
        return Owner.NOBODY
    for pid in (leader, *group_members(leader)):
        sockets -= sockets_of(pid)
        if not sockets:
            return Owner.CHILD
    return Owner.STRANGER if _owners(sockets) else Owner.UNKNOWN


class Claim:
    """A port that a child has: whether it still does is asked before each request, in 0.1 ms on Linux.

    Elsewhere, and where the system does not tell, it always does.
    """

    def __init__(self, port: int, leader: int) -> None:
        self._port, self._leader = port, leader
        self._sockets = listening_sockets(port) or set()

    def holds(self) -> bool:
        """Whether nobody but the child's group listens there; nobody at all is not somebody else."""
        if (listening_sockets(self._port) or set()) <= self._sockets:
            return True
        return owner_of(self._port, self._leader) in (Owner.CHILD, Owner.NOBODY)  # it may listen anew


def owner_name(port: int) -> str | None:
    """Who listens on a port, for people: a name and a number, if the system tells."""
    if sys.platform != "linux":
        return None
    for pid in _owners(listening_sockets(port) or set()):
        with contextlib.suppress(psutil.Error):
            return f"{_program(psutil.Process(pid))} (process {pid})"
    return None


def _program(process: psutil.Process) -> str:
    """One of ours by its config: "python" would tell nobody what to stop."""
    words = process.cmdline()
    if _SUPERVISOR in words[:-1]:
        return f"the supervisor of {os.path.join(process.cwd(), words[-1])}"  # noqa: PTH118
    return process.name()


def can_bind(host: str, port: int) -> bool:
    """Whether nobody listens there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        if sys.platform != "win32":  # there it would let two have one port
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def _ports_of_tree(leader: int) -> set[int]:
    ports: set[int] = set()
    try:
        process = psutil.Process(leader)
        for one in (process, *process.children(recursive=True)):
            found = one.net_connections(kind="tcp")
            ports |= {each.laddr.port for each in found if each.status == psutil.CONN_LISTEN}
    except psutil.Error:
        return ports
    return ports


def _owners(sockets: set[str]) -> list[int]:
    return [pid for pid in psutil.pids() if sockets & sockets_of(pid)] if sockets else []
