"""Working only a part of the time, so that a machine stays cool and usable for others (product.md 0.8, model.md 8.3).

Pure: how long to rest after how much work. Who rests is the engine's loop, between batches; no result depends on it.
"""

from whitedwarf.errors import UsageError

FULL_POWER_PERCENT = 100
LONGEST_REST_S = 60.0  # a batch of a large prompt on a slow machine must not silence an answer for ever


def checked_power(percent: int) -> int:
    """`percent` itself; UsageError when it is none of 1 to 100."""
    if isinstance(percent, bool) or not isinstance(percent, int) or not 1 <= percent <= FULL_POWER_PERCENT:
        raise UsageError(f"power must be a whole number of percent from 1 to {FULL_POWER_PERCENT}, got {percent!r}")
    return percent


def rest_s(work_s: float, power_percent: int) -> float:
    """Seconds of rest after `work_s` seconds of work, so that work is `power_percent` of both together."""
    return min(work_s * (FULL_POWER_PERCENT / power_percent - 1), LONGEST_REST_S)
