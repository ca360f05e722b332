"""How long things last and what is worth a warning: small decisions of the desk, each a pure function."""

import math

from whitedwarf.supervisor.config import ManagedModel
from whitedwarf.supervisor.failures import StartFailedError

AGE_LIMIT_S = 30.0
"""A model that is up takes its own requests first until another one has waited for this long (schedule.py)."""

MOST_STARTS = 2
"""For one request, or for all who wait together."""

_FIRST_HOLD_S = 5.0
_LONGEST_HOLD_S = 60.0
_DSH_HEADROOM = 65_536
_ROOM_FOR_ANSWER = 8_192


def hold_s(failures_in_a_row: int) -> float:
    """For how long a failed start is answered without another one: 5, 10, 20, 40, 60, 60, … s (spec 2.13)."""
    doublings = min(max(failures_in_a_row, 1) - 1, 10)
    return min(math.ldexp(_FIRST_HOLD_S, doublings), _LONGEST_HOLD_S)


def is_worth_another_start(error: StartFailedError, starts: int, took_s: float, model: ManagedModel) -> bool:
    """Whether to start again at once. What took all its time would only take it again, while people wait."""
    return starts < MOST_STARTS and not error.is_permanent and took_s < model.start_timeout_s


def kept_for_s(model: ManagedModel, keep_alive_s: float | None) -> float | None:
    """How long the model stays after a request that asked for this, None for ever."""
    if keep_alive_s is not None:
        return None if keep_alive_s < 0 else keep_alive_s
    return model.idle_timeout_s or None


def lowered_limit(soft: int, configured: int, real: int) -> int:
    """The soft limit where the real context is what it is: the same share of it when it would come too late."""
    if soft == 0 or real == 0 or soft < real:
        return soft
    share = soft / configured if configured > soft else 0.75
    return max(1, math.floor(real * share))


def dsh_threshold(window: int, answer_tokens: int = 0) -> int | None:
    """At how many tokens DSH compacts by itself, for the window that its route declares (spec 2.17); None: never."""
    threshold = min(math.floor(0.8 * window), window - answer_tokens - _DSH_HEADROOM)
    retained = 0.16 * (window - answer_tokens)
    return threshold if threshold > 0 and threshold > retained else None


def declared_window(soft: int, context_size: int) -> int:
    """The window that an exported route declares at most (spec 2.16)."""
    return max(context_size, math.ceil(soft * 1.35) + 4096 + _ROOM_FOR_ANSWER)


def limit_warnings(soft: int, configured: int, real: int) -> tuple[str, ...]:
    """What people should know about a soft limit; `real` 0 as long as the server has not told."""
    told: list[str] = []
    if real and real < configured:
        told.append(f"the server gives a request {real} tokens of context, not the {configured} of the config")
    lowered = lowered_limit(soft, configured, real)
    if lowered != soft:
        told.append(f"soft limit lowered from {soft} to {lowered}, because the context has {real} tokens")
    threshold = dsh_threshold(declared_window(soft, configured)) if soft else None
    if threshold is not None and lowered <= threshold:
        told.append(
            f"soft limit {lowered} is not above the {threshold} tokens at which DSH compacts by itself: "
            f"its summary requests may be refused; raise softContextLimit above {threshold}"
        )
    return tuple(told)
