"""The least that stands between two sockets can do: wait, read, write. `python -m whitedwarf.bench.bare_relay FROM TO`.

What it adds to an event is the machine's, not the supervisor's: another process has to wake up and hand it on.
"""

import contextlib
import select
import socket
import sys

_MOST_BYTES = 1 << 18


def relay(client: socket.socket, server: socket.socket) -> None:
    """Hand on what either side sends until one of them ends."""
    other = {client: server, server: client}
    while True:
        for one in select.select(list(other), [], [])[0]:
            piece = one.recv(_MOST_BYTES)
            if not piece:
                return
            other[one].sendall(piece)


def main(port: int, target: int) -> None:
    """One connection after the other, for ever."""
    with socket.create_server(("127.0.0.1", port)) as listener:
        while True:
            client, _ = listener.accept()
            with client, socket.create_connection(("127.0.0.1", target)) as server:
                for one in (client, server):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                with contextlib.suppress(ConnectionError):
                    relay(client, server)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
