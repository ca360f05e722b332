"""What a perfect prefix cache would still know: every sequence of tokens that a scripted engine has been through.

Promises: `common_length` is the longest common prefix with anything remembered. Old sequences are let go of one by one
when there are too many; one that a later sequence continues costs nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from whitedwarf.engine.checkpoints import NUM_SEEN_NEXT
from whitedwarf.model.base import Ids

MAX_SEQUENCES = 512
MAX_TOKENS = 16_000_000  # 64 MB


@dataclass(frozen=True, slots=True)
class Seen:
    """So many tokens of a prompt some earlier sequence began with too, and then went on with `next_ids`."""

    num_tokens: int = 0
    next_ids: tuple[int, ...] = ()


class SeenPrefixes:
    def __init__(self, max_sequences: int = MAX_SEQUENCES, max_tokens: int = MAX_TOKENS) -> None:
        self._max_sequences = max_sequences
        self._max_tokens = max_tokens
        self._sequences: list[Ids] = []  # none is a prefix of another; the newest is last

    @property
    def is_empty(self) -> bool:
        return not self._sequences

    def common_length(self, ids: Ids) -> int:
        """How many leading tokens of `ids` are those of some remembered sequence."""
        return max((common_length(ids, seen) for seen in self._sequences), default=0)

    def seen(self, ids: Ids, beside: Iterable[Ids] = ()) -> Seen:
        """The closest of all remembered sequences, and of those `beside` them; the newest of equals."""
        newest_first = (*self._sequences, *beside)[::-1]
        closest = max(newest_first, key=lambda one: common_length(ids, one), default=None)
        if closest is None:
            return Seen()
        common = common_length(ids, closest)
        return Seen(common, tuple(closest[common : common + NUM_SEEN_NEXT].tolist()))

    def remember(self, ids: Ids) -> None:
        """`ids` were read or written, from the first token on."""
        if self.common_length(ids) == len(ids):
            return
        self._sequences = [seen for seen in self._sequences if common_length(ids, seen) < len(seen)]
        self._sequences.append(ids)
        while len(self._sequences) > 1 and self._is_too_much():
            del self._sequences[0]

    def _is_too_much(self) -> bool:
        return len(self._sequences) > self._max_sequences or sum(map(len, self._sequences)) > self._max_tokens


def common_length(left: Ids, right: Ids) -> int:
    """How many leading tokens are the same in both."""
    shorter = min(len(left), len(right))
    different = left[:shorter] != right[:shorter]
    return int(different.argmax()) if np.any(different) else shorter
