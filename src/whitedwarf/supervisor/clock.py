"""What time it is, as far as decisions go: seconds that never jump, whatever happens to the clock on the wall."""

from collections.abc import Callable

Clock = Callable[[], float]
