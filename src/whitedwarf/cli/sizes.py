"""Sizes of files as people give them: 4G, 500M, 2GiB."""

import re
from decimal import Decimal

from whitedwarf.errors import UsageError

_PATTERN = re.compile(r"(?P<number>[0-9]+(\.[0-9]+)?)(?P<unit>[kmgt]?)(?P<binary>i?)b?", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def parse_size(flag: str, text: str) -> int:
    """Bytes; k, M, G and T are powers of 1000 as in llama.cpp, Ki, Mi, Gi and Ti of 1024. Raises UsageError."""
    found = _PATTERN.fullmatch(text.strip())
    if found is None or (found["binary"] and not found["unit"]):
        raise UsageError(f"{flag}: got {text!r}; expected a size like 4G, 500M or 2GiB.")
    size_bytes = int(Decimal(found["number"]) * (1024 if found["binary"] else 1000) ** _POWERS[found["unit"].lower()])
    if size_bytes < 1:
        raise UsageError(f"{flag}: got {text!r}; expected more than nothing.")
    return size_bytes
