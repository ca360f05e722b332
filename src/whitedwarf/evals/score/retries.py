"""When to ask again, and after how long: six tries, each pause twice the one before it (spec/product.md E.4)."""

from collections.abc import Callable
from typing import TypeVar

from whitedwarf.errors import EndpointError
from whitedwarf.web.endpoint.again import AskAgainError

TRIES = 6
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 300.0

Answer = TypeVar("Answer")


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
