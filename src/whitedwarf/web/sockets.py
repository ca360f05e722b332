"""Sockets that listen, bound before anything else is done: an address that is taken is told at once."""

import socket
from typing import Any

from whitedwarf.errors import WhitedwarfError


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket bound to this address, to be told to people before anybody can connect; port 0 chooses one."""
    try:
        family, kind, protocol, _, address = _first_address(host, port)
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
        except OSError:
            listener.close()
            raise
    except (OSError, UnicodeError) as error:  # the latter for a name that cannot be one: a label too long
        why = (error.strerror if isinstance(error, OSError) else None) or error
        raise WhitedwarfError(f"cannot listen on {host} port {port}: {why}; give another --host or --port") from error
    return listener


def _first_address(host: str, port: int) -> tuple[Any, ...]:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]


def address_of(listener: socket.socket) -> str:
    """Where clients find it, as http://HOST:PORT."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
