"""Which prompts the program reads that is killed: two sides of one test must know."""

import itertools
from collections.abc import Iterator

from engine.bits import LENGTHS, prompt

ROOM_BYTES = 12 << 20  # in memory: so little that states are evicted, which saves them too
SHORT_LENGTHS = [length for length in LENGTHS if length < 1000]


def rounds(start: int) -> Iterator[tuple[int, ...]]:
    """Each length with a seed of its own, again and again with others."""
    for number in itertools.count(start):
        yield prompt(SHORT_LENGTHS[number % len(SHORT_LENGTHS)], seed=1000 + number)
