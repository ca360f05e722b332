"""How long a start may take: its time, and more while it gets on, up to a bound. Pure: the time comes in."""

from whitedwarf.supervisor.clock import Clock

MOST_TIMES = 4
"""A child that says something for ever and is never ready ends after so many times its start timeout."""
_QUIET_S = 30.0
_WORK_BYTES = 4 << 20  # less may be waiting, too


class Patience:
    """One start's. Getting on is saying more, or having read or taken more memory: large models load in silence."""

    def __init__(self, timeout_s: float, clock: Clock) -> None:
        self._clock = clock
        self._began_s = self._moved_s = clock()
        self._timeout_s = timeout_s
        self._said = 0
        self._worked_bytes = 0

    def saw(self, said: int, worked_bytes: int) -> None:
        """How much the child has said and done in all, so far."""
        if said > self._said or worked_bytes >= self._worked_bytes + _WORK_BYTES:
            self._moved_s = self._clock()
            self._said = said
            self._worked_bytes = max(self._worked_bytes, worked_bytes)

    @property
    def waited_s(self) -> float:
        """Since the start."""
        return self._clock() - self._began_s

    @property
    def is_over(self) -> bool:
        """Whether nobody should wait any longer."""
        is_quiet = self._clock() - self._moved_s >= min(self._timeout_s, _QUIET_S)
        waited_s = self.waited_s
        return waited_s >= self._timeout_s * MOST_TIMES or (waited_s >= self._timeout_s and is_quiet)
