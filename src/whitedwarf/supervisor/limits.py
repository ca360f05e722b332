"""The soft context limit: says no while the client can still shorten its conversation (spec/supervisor.md 1.4).

Promises: exact counting by the model's own server, bounded in time; a prompt that cannot be counted passes, and the
status says so; nothing of a prompt is kept but digests. Does not know HTTP answers: answers.py gives an Overflow its
form.
"""

from collections.abc import Callable
from dataclasses import dataclass

from whitedwarf.supervisor.config import Model
from whitedwarf.supervisor.running import Running

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Overflow:
    """A prompt of `tokens` that does not get past `limit`: the soft one, or the real size of the context."""

    tokens: int
    limit: int


class SoftLimit:
    """Of one model. `desk.limit(key)` gives it."""

    def __init__(self, model: Model, clock: Clock) -> None:
        self.model = model
        self._clock = clock

    async def check(self, running: Running, target: str, body: bytes) -> Overflow | None:
        """What to answer instead of forwarding, or None. `target`: path and query of the request. Never raises."""
        raise NotImplementedError
