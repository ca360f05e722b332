"""Addresses of servers, as people give them. Promises that no message repeats one that may have a secret in it."""

import re
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from whitedwarf.errors import UsageError

CHAT_PATH = "/chat/completions"
_MOST_CHARACTERS = 4096
_MAY_HAVE_A_SECRET = re.compile(r"[?#]|//[^/]*@")


def checked_address(text: str, option: str, example: str, key_place: str) -> SplitResult:
    """UsageError, which names the option, unless it is an http(s) address; names of hosts are left to the client.

    `key_place` says where the key comes from instead of the address.
    """
    if _MAY_HAVE_A_SECRET.search(text):
        raise UsageError(
            f"{option}: expected an address such as {example}, without name, password, ? and #; the key comes from "
            f"{key_place}"
        )
    if not _is_address(text):
        raise UsageError(f"{option} {text[:200]}: expected an address such as {example}")
    return urlsplit(text)


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        is_whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return is_whole and len(text) <= _MOST_CHARACTERS and text.isprintable() and " " not in text


def is_overheard(url: str) -> bool:
    """Whether what is sent there can be read on the way: no TLS, and perhaps another machine."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    try:
        is_here = ip_address(host).is_loopback
    except ValueError:
        is_here = host == "localhost"
    return parts.scheme == "http" and not is_here
