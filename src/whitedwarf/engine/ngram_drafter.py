"""Guesses that an answer repeats what stands before: edits of code, quotations, what tools replied. No weights.

The longest ending that occurred earlier is looked up, the latest of equals, and what followed it there is the guess.
"""

from collections.abc import Sequence

import numpy as np

from whitedwarf.engine.drafter import NOTHING, Guess
from whitedwarf.model.base import Ids

LEAST_MATCH = 3  # tokens alike before a guess is made; two are alike by chance too often
SURE_MATCH = 8  # so many and more are looked at no further: such guesses are mostly right
_HOPES = (0.0, 0.1, 0.2, 0.3, 0.45, 0.6, 0.7, 0.75, 0.8)  # by how many match
_FIRST_ROOM = 1024


class NgramDrafter:
    """One answer's; finds by comparing all tokens with the last one: some microseconds for ten thousand."""

    def __init__(self, least_match: int = LEAST_MATCH) -> None:
        self._least_match = least_match
        self._ids: Ids = np.empty(_FIRST_ROOM, np.int32)
        self._count = 0

    def told(self, ids: Sequence[int] | Ids) -> None:
        end = self._count + len(ids)
        if end > len(self._ids):
            grown = np.empty(2 * end, np.int32)
            grown[: self._count] = self._ids[: self._count]
            self._ids = grown
        self._ids[self._count : end] = ids
        self._count = end

    def draft(self, most: int) -> Guess:
        start, length = self._followers()
        if length < self._least_match:
            return NOTHING
        known = self._ids[start : min(start + most, self._count)]
        # What follows ends with what was told: a text that repeats itself goes on repeating.
        ids = np.resize(known, most) if len(known) < most else known
        return Guess(ids.tolist(), length, _HOPES[length])

    def _followers(self) -> tuple[int, int]:
        """Where what followed the best match begins, and how many tokens match; 0 where none does."""
        ids = self._ids[: self._count]
        if not len(ids):
            return 0, 0
        ends = np.flatnonzero(ids[:-1] == ids[-1])
        length = 0
        while len(ends) and length < SURE_MATCH:
            best, length = int(ends[-1]), length + 1
            ends = ends[ends >= length]
            ends = ends[ids[ends - length] == ids[len(ids) - 1 - length]] if length < len(ids) else ends[:0]
        return (best + 1, length) if length else (0, 0)
