"""Failures that may pass: which they are, and how long the server asked to be left alone."""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from whitedwarf.errors import EndpointError

_AGAIN = frozenset({408, 409, 425, 429})  # and all that the server itself is to blame for


class AskAgainError(EndpointError):
    """The network failed or the endpoint is busy: the next try may succeed. `wait_s`: how long it asked to be left."""

    def __init__(self, text: str, wait_s: float = 0.0) -> None:
        super().__init__(text)
        self.wait_s = wait_s


def may_pass(status: int) -> bool:
    """Whether a request that was answered with this HTTP status may succeed later."""
    return status in _AGAIN or status >= 500


def asked_pause_s(headers: Mapping[str, str], now: datetime | None = None) -> float:
    """Seconds that a Retry-After header asks for, as a number or as a date; 0 for what is neither, or without one."""
    text = headers.get("Retry-After", "").strip()
    if text.isascii() and text.replace(".", "", 1).isdigit():
        return min(float(text), 1e9)
    try:
        when = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return 0.0
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return max(0.0, (when - (now or datetime.now(UTC))).total_seconds())
