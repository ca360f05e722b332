"""Choices that are the same on every machine and with every version of Python.

The standard library promises only that random() itself stays as it is, not what is made of it. This is SplitMix64 over
a digest of the seed, and integers all the way.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")

_MASK = (1 << 64) - 1


class Dice:
    """An endless row of choices that follows from its seed."""

    def __init__(self, *seed: str | int) -> None:
        text = "\x1f".join(f"{type(part).__name__}:{part}" for part in seed)
        self._state = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")

    def below(self, count: int) -> int:
        """From 0 to count - 1."""
        return (self._next() * count) >> 64

    def between(self, first: int, last: int) -> int:
        """From first to last, both possible."""
        return first + self.below(last - first + 1)

    def chance(self, percent: int) -> bool:
        """True in so many of a hundred cases."""
        return self.below(100) < percent

    def pick(self, choices: Sequence[T]) -> T:
        """One of them."""
        return choices[self.below(len(choices))]

    def some(self, choices: Sequence[T], count: int) -> list[T]:
        """So many different ones, or all, in any order."""
        left = list(choices)
        return [left.pop(self.below(len(left))) for _ in range(min(count, len(left)))]

    def shuffled(self, choices: Sequence[T]) -> list[T]:
        """All of them in any order."""
        return self.some(choices, len(choices))

    def weighted(self, weights: Mapping[T, int]) -> T:
        """A key, as often as its weight says."""
        at = self.below(sum(weights.values()))
        for choice, weight in weights.items():
            at -= weight
            if at < 0:
                return choice
        raise ValueError("nothing to choose from")

    def digits(self, count: int) -> str:
        """So many digits, the first not 0."""
        return str(self.between(10 ** (count - 1), 10**count - 1))

    def hex(self, count: int) -> str:
        """So many hexadecimal digits."""
        return "".join("0123456789abcdef"[self.below(16)] for _ in range(count))

    def _next(self) -> int:
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        mixed = self._state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return mixed ^ (mixed >> 31)
