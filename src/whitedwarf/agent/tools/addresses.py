"""Where a host name leads: to the wide network, or to this computer and those around it."""

import ipaddress
import socket
from collections.abc import Callable

Resolver = Callable[[str, int], list[str]]
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


def resolve(host: str, port: int) -> list[str]:
    """The addresses of a host, as the system knows them; OSError where there are none."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError(f"{host[:80]!r} is no host name") from error
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def is_private(address: str) -> bool:
    """Whether it is not of the public network, also where one address hides another; true for what is none."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return True
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
        if ip in _NAT64:
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if inner is not None:
            return is_private(str(inner))
    return not ip.is_global or ip.is_multicast
