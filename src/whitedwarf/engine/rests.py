"""A thread that rests by itself, by the rule of power.py: for whoever computes without an engine."""

import time
from collections.abc import Callable

from whitedwarf.engine.power import Duty, checked_power


class Rests:
    """Works `power_percent` of the time. UsageError unless that is 1 to 100. Ctrl+C is heard as in any sleep."""

    def __init__(
        self,
        power_percent: int,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.power_percent = checked_power(power_percent)
        self._sleep = sleep
        self._duty = Duty(clock)

    def begin(self) -> None:
        """Work begins."""
        self._duty.begin()

    def after(self, kind: object) -> None:
        """This kind of work (such as the number of a layer) has ended: rest for it. Then work goes on."""
        self._duty.worked(kind)
        if (left_s := self._duty.left_s(self.power_percent)) > 0:
            self._sleep(left_s)
        self._duty.rested(self.power_percent)
