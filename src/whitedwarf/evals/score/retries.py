"""When to ask again, and after how long: six tries, each pause twice the one before it (spec/product.md E.4)."""

from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

from whitedwarf.errors import EndpointError

TRIES = 6
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 300.0
AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524, 529})

Answer = TypeVar("Answer")


class AskAgainError(EndpointError):
    """The network failed or the endpoint is busy: the next try may succeed. `wait_s`: how long it asked to be left."""

    def __init__(self, text: str, wait_s: float = 0.0) -> None:
        super().__init__(text)
        self.wait_s = wait_s


def patiently(ask: Callable[[], Answer], sleep: Callable[[float], None], say: Callable[[str], None]) -> Answer:
    """What `ask` answers, at the latest on the sixth try; EndpointError when it never does, or wants to rest too long.

    Told are the reasons and the pauses.
    """
    for done in range(1, TRIES):
        try:
            return ask()
        except AskAgainError as error:
            pause_s = max(FIRST_PAUSE_S * 2 ** (done - 1), error.wait_s)
            if pause_s > LONGEST_PAUSE_S:
                raise EndpointError(
                    f"{error}; it asks for a pause of {pause_s:.0f} s: run the command again then"
                ) from error
            say(f"{error}; try {done + 1} of {TRIES} in {pause_s:g} s")
            sleep(pause_s)
    try:
        return ask()
    except AskAgainError as error:
        raise EndpointError(
            f"{error}; given up after {TRIES} tries. The same command goes on from here later"
        ) from error


def asked_pause_s(retry_after: str, now: datetime | None = None) -> float:
    """Seconds that a Retry-After header asks for, as a number or as a date; 0 for what is neither."""
    text = retry_after.strip()
    if text.isascii() and text.replace(".", "", 1).isdigit():
        return min(float(text), 1e9)
    try:
        when = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return 0.0
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return max(0.0, (when - (now or datetime.now(UTC))).total_seconds())
