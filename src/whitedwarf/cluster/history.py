"""What a sequence has consumed, as one number: FNV-1a over its token ids (product.md H.1), and as the ids themselves.

Two sides that agree on the number agree on every token before it. `Trail` knows the numbers of the newest positions, so
that a small step back needs no ids; `History` has all ids and numbers, and shares them with its own beginnings.
"""

from array import array
from dataclasses import dataclass, field

import numpy as np

from whitedwarf.model.base import Ids

BASIS = 1469598103934665603  # of the original, not of the textbook
_PRIME = 1099511628211
_MASK = (1 << 64) - 1


def rolled(hash_before: int, ids: Ids) -> int:
    """The number after these ids, from the one before them."""
    return _rolled_each(hash_before, ids)[-1] if len(ids) else hash_before


def _rolled_each(value: int, ids: Ids) -> list[int]:
    """After each of the ids: over their four bytes, the lowest first."""
    found = []
    for token in ids.tolist():
        for shift in (0, 8, 16, 24):
            value = ((value ^ (token >> shift & 0xFF)) * _PRIME) & _MASK
        found.append(value)
    return found


@dataclass(frozen=True, slots=True)
class Trail:
    """The numbers of the newest positions, at most `room` steps back."""

    room: int
    position: int = 0
    hashes: tuple[int, ...] = (BASIS,)  # the last is of `position`

    @property
    def last(self) -> int:
        return self.hashes[-1]

    def advanced(self, ids: Ids) -> "Trail":
        """After these ids."""
        hashes = (*self.hashes, *_rolled_each(self.last, ids))
        return Trail(self.room, self.position + len(ids), hashes[-self.room - 1 :])

    def back(self, num_tokens: int) -> "Trail":
        """So many tokens earlier; ValueError where that is not known any more."""
        if not 0 <= num_tokens < len(self.hashes):
            raise ValueError(f"can go back at most {len(self.hashes) - 1} tokens, asked for {num_tokens}")
        return Trail(self.room, self.position - num_tokens, self.hashes[: len(self.hashes) - num_tokens])

    @classmethod
    def at(cls, room: int, position: int, last: int) -> "Trail":
        """Where only the newest number is known."""
        return cls(room, position, (last,))


@dataclass(slots=True)
class _Log:
    """Ids, and the number after each. Only appended to, so that beginnings of it can be shared."""

    ids: "array[int]" = field(default_factory=lambda: array("i"))
    hashes: "array[int]" = field(default_factory=lambda: array("Q"))


class History:
    """All ids of a sequence. `shared` costs nothing; whoever writes behind what another has written copies first."""

    __slots__ = ("_log", "_num_tokens")

    def __init__(self) -> None:
        self._log = _Log()
        self._num_tokens = 0

    @classmethod
    def of(cls, ids: Ids) -> "History":
        history = cls()
        history.extend(ids)
        return history

    def __len__(self) -> int:
        return self._num_tokens

    @property
    def ids(self) -> Ids:
        return self.slice(0, self._num_tokens)

    def slice(self, start: int, end: int) -> Ids:
        """(end - start,) of the ids; a copy."""
        return np.array(self._log.ids[start : min(end, self._num_tokens)], np.int32)

    @property
    def last_hash(self) -> int:
        return self.hash_at(self._num_tokens)

    def hash_at(self, position: int) -> int:
        """The number after the first `position` ids."""
        return self._log.hashes[position - 1] if position else BASIS

    def extend(self, ids: Ids) -> None:
        if len(self._log.ids) > self._num_tokens:
            self._log = self._own_log()
        last = self.last_hash
        self._log.ids.extend(ids.tolist())
        self._log.hashes.extend(_rolled_each(last, ids))
        self._num_tokens += len(ids)

    def cut(self, num_tokens: int) -> None:
        """Keep only the first so many."""
        self._num_tokens = num_tokens

    def shared(self) -> "History":
        """The same, for somebody else."""
        other = History()
        other._log, other._num_tokens = self._log, self._num_tokens
        return other

    def _own_log(self) -> _Log:
        ids, hashes = self._log.ids, self._log.hashes
        count = self._num_tokens
        return _Log(ids[:count], hashes[:count])
