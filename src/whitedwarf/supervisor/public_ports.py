"""The ports that clients use, taken before anything else is done.

Promises: all of them or none; whoever listens already is named, if the system tells; two supervisors that start at the
same moment do not get the same port.
"""

import socket
from collections.abc import Iterable

from whitedwarf.errors import WhitedwarfError
from whitedwarf.supervisor.config import Model
from whitedwarf.supervisor.listeners import owner_name
from whitedwarf.web.sockets import bound_socket

_BACKLOG = 512


def take_ports(host: str, models: Iterable[Model]) -> dict[int, socket.socket]:
    """A listening socket for each model by its port; WhitedwarfError with every one that cannot be had."""
    taken: dict[int, socket.socket] = {}
    refused: dict[str, list[str]] = {}
    for model in models:
        try:
            taken[model.public_port] = _listening(host, model.public_port)
        except (OSError, WhitedwarfError) as error:
            why = refused.setdefault(_why(model.public_port, error), [])
            why.append(f"port {model.public_port} of model {model.key!r}")
    if refused:
        give_back(taken.values())
        said = "; ".join(f"{', '.join(ports)}: {why}" for why, ports in refused.items())
        raise WhitedwarfError(f"cannot listen on {host}: {said}. Stop what uses it, or choose another publicPort")
    return taken


def give_back(listeners: Iterable[socket.socket]) -> None:
    """Close them."""
    for listener in listeners:
        listener.close()


def _listening(host: str, port: int) -> socket.socket:
    listener = bound_socket(host, port)
    try:
        listener.listen(_BACKLOG)  # at once: until then, somebody else can bind the same port and listen first
    except OSError:
        listener.close()
        raise
    return listener


def _why(port: int, error: Exception) -> str:
    owner = owner_name(port)
    if owner is not None:
        return f"{owner} listens there"
    cause = error if isinstance(error, OSError) else error.__cause__
    return (cause.strerror if isinstance(cause, OSError) else None) or str(cause or error)
