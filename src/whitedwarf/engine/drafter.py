"""Who guesses how an answer goes on, so that one pass of the model may look at several tokens.

A guess costs time when it is wrong and changes nothing else: every token is drawn as it would have been without it.
"""

import logging
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from whitedwarf.model.base import Ids

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Guess:
    """The tokens that may come next, the likeliest continuation first to last.

    Guesses of one `kind` are about as good as one another: how often they were right says which are worth a look.
    `hope` is how often a token is thought to be right before that is known.
    """

    ids: Sequence[int]
    kind: Hashable = None
    hope: float = 0.5


NOTHING = Guess(())


class Drafter(Protocol):
    """Of one answer, called on the engine's thread only: quick, next to the model. What it raises ends its guessing."""

    def told(self, ids: Sequence[int] | Ids) -> None:
        """These tokens came: first all of the prompt, then each that was drawn."""

    def draft(self, most: int) -> Guess:
        """What may come after all that was told; of more than `most` tokens the rest is not looked at."""


DrafterMaker: TypeAlias = Callable[[], Drafter]
"""Makes the drafter of an answer when its first token has been drawn."""


class CarefulDrafter:
    """A drafter that may fail, from which on there is none: nobody loses an answer for a guess."""

    def __init__(self, make: DrafterMaker, prompt: Ids) -> None:
        self._drafter: Drafter | None = None
        try:
            self._drafter = make()
            self._drafter.told(prompt)
        except Exception:  # a drafter is not of the engine: what it may raise is not ours to know
            self._give_up()

    def told(self, ids: Sequence[int]) -> None:
        if self._drafter is not None:
            try:
                self._drafter.told(ids)
            except Exception:  # as above
                self._give_up()

    def draft(self, most: int) -> Guess:
        if self._drafter is not None and most > 0:
            try:
                return self._drafter.draft(most)
            except Exception:  # as above
                self._give_up()
        return NOTHING

    def _give_up(self) -> None:
        log.exception("drafter_failed")
        self._drafter = None
