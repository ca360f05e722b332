"""Working only a part of the time, so that a machine stays cool and usable for others (product.md F.3, model.md 8.3).

Pure: how long to rest after how much work. Who rests is the engine's loop, after each layer of a pass that reads a
prompt and after each decoded token, or PacedModel where there is no engine; no result depends on it.
"""

from collections.abc import Callable, Hashable
from enum import Enum

from whitedwarf.errors import UsageError

FULL_POWER_PERCENT = 100
LONGEST_REST_S = 60.0  # a layer of a large prompt on a slow machine must not silence an answer for ever
LONGEST_CREDIT_S = 0.05  # what was rested too long counts for the next rest, up to this
_OLD, _NEW = 7 / 8, 1 / 8


class Kind(Enum):
    """Kinds of work that are no layer of a prompt's pass."""

    DECODE = "decode"  # a whole pass of one token a sequence
    READ = "read"  # a whole pass that reads a prompt, where its layers are not told
    REST_OF_READ = "rest of read"  # what a pass does besides its layers, where they are


def checked_power(percent: int) -> int:
    """`percent` itself; UsageError when it is none of 1 to 100."""
    if isinstance(percent, bool) or not isinstance(percent, int) or not 1 <= percent <= FULL_POWER_PERCENT:
        raise UsageError(f"power must be a whole number of percent from 1 to {FULL_POWER_PERCENT}, got {percent!r}")
    return percent


def rest_s(work_s: float, power_percent: int) -> float:
    """Seconds of rest after `work_s` seconds of work, so that work is `power_percent` of both together."""
    return min(work_s * (FULL_POWER_PERCENT - power_percent) / power_percent, LONGEST_REST_S)


class Averages:
    """What each kind of work has taken lately: 7/8 of what it took before and 1/8 of the last time."""

    def __init__(self) -> None:
        self._averages_s: dict[Hashable, float] = {}

    def took(self, kind: Hashable, work_s: float) -> float:
        """The average with this sample; the first is taken as it is."""
        earlier_s = self._averages_s.get(kind)
        average_s = work_s if earlier_s is None else _OLD * earlier_s + _NEW * work_s
        self._averages_s[kind] = average_s
        return average_s


class Duty:
    """One thread's turns of work and rest, by a clock: `begin`, work, `worked`, rest while `left_s`, `rested`, work ...

    A rest may be broken off: what is left of it is added to the next one. One that was too long, because no sleep is
    exact, shortens the next.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._averages = Averages()
        self._since_s = clock()
        self._unrested_s = 0.0  # averaged seconds of work that no rest was had for yet

    def begin(self) -> None:
        """Work begins: what came before was neither work nor rest."""
        self._since_s = self._clock()

    def worked(self, kind: Hashable) -> None:
        """This kind of work ends, and the rest for it begins."""
        now_s = self._clock()
        self._unrested_s += self._averages.took(kind, now_s - self._since_s)
        self._since_s = now_s

    def left_s(self, power_percent: int) -> float:
        """How much longer to rest at this power; not above 0: no longer."""
        return rest_s(self._unrested_s, power_percent) - (self._clock() - self._since_s)

    def rested(self, power_percent: int) -> None:
        """The rest has ended, whether or not it was long enough, and work begins."""
        now_s = self._clock()
        left_s = rest_s(self._unrested_s, power_percent) - (now_s - self._since_s)
        is_full = power_percent == FULL_POWER_PERCENT
        self._unrested_s = 0.0 if is_full else work_s(max(left_s, -LONGEST_CREDIT_S), power_percent)
        self._since_s = now_s


def work_s(rest_s: float, power_percent: int) -> float:
    """Seconds of work that `rest_s` seconds of rest are for; below full power."""
    return rest_s * power_percent / (FULL_POWER_PERCENT - power_percent)
