"""Which web pages may talk to this server: by default none but its own.

A page on the net can make a browser post to 127.0.0.1, or give its own name our address (DNS rebinding). The first
shows in `Origin`, the second in `Host`: a name that is neither an address nor one of ours. Pure functions.
"""

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+(?:%[\w.~-]+)?)\]|([A-Za-z0-9._-]+))(?::[0-9]{1,5})?", re.ASCII)
"""A name or an address with its port, and nothing else: what a lenient reader would skip could hide another name."""


@dataclass(frozen=True, slots=True)
class HostRule:
    """`names` are host names, in lower case, by which we may be called; addresses and localhost always are."""

    names: frozenset[str]
    allows_all_origins: bool = False

    def admits_host(self, host: str | None) -> bool:
        """Whether a Host header names this machine. Only HTTP/1.0 leaves it out, which no browser speaks."""
        if host is None:
            return True
        name = _name_of(host)
        return name is not None and (_is_address(name) or _is_local(name) or name in self.names)

    def admits_origin(self, origin: str | None, host: str | None) -> bool:
        """Whether a page from there may ask: one of our own pages, or any with --cors."""
        if origin is None or self.allows_all_origins:
            return True
        try:
            return urlsplit(origin).netloc.lower() == (host or "").lower() != ""
        except ValueError:
            return False


def _name_of(host: str) -> str | None:
    found = _HOST.fullmatch(host)
    return None if found is None else (found[1] or found[2]).lower().rstrip(".") or None


def _is_local(name: str) -> bool:
    return name == "localhost" or name.endswith(".localhost")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
