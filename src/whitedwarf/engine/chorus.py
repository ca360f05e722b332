"""Several generations read as one: their events as they come, each with the number of its generation.

Promises: every event once, those of one generation in their order; while several have events, each has its turn. Any
thread may cancel; one reads.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from whitedwarf.engine.generation import Generation
from whitedwarf.engine.request import Event, Finished


@dataclass(frozen=True, slots=True)
class Voiced:
    """An event of generation number `voice`, counted from 0."""

    voice: int
    event: Event


class Chorus:
    """Of generations that run on their own. After the last `Finished` nothing comes any more."""

    def __init__(self, generations: Sequence[Generation]) -> None:
        self._generations = tuple(generations)
        self._singing = list(range(len(generations)))  # whose turn is next comes first

    def notify(self, wake: Callable[[], None]) -> None:
        """Call `wake` after each event of any of them, as `Generation.notify` does."""
        for generation in self._generations:
            generation.notify(wake)

    def next_event(self, timeout_s: float | None = 0) -> Voiced | None:
        """The next event that is there already; None: there is none. It never waits, whatever `timeout_s`."""
        for place, voice in enumerate(self._singing):
            if (event := self._generations[voice].next_event(0)) is not None:
                del self._singing[place]
                if not isinstance(event, Finished):
                    self._singing.append(voice)
                return Voiced(voice, event)
        return None

    def cancel(self) -> None:
        """Ask the engine to end all of them."""
        for generation in self._generations:
            generation.cancel()
