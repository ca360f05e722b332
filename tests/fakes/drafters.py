"""Drafters that know more, or less, than they could, and engines that look at all they are told."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from whitedwarf.engine.draft_length import Company, DraftLengths
from whitedwarf.engine.drafter import NOTHING, Guess
from whitedwarf.engine.drafts import Drafting
from whitedwarf.model.base import Ids


class AllLengths(DraftLengths):
    """Whatever it costs."""

    def begin_pass(self) -> bool:
        return True

    def of(self, rate: float, most: int, company: Company) -> int:
        return most

    def of_block(self, rate: float, most: int, company: Company) -> int:
        return most


class NoDrafter:
    """Has no guess, so that the model's block is asked."""

    def told(self, ids: Sequence[int] | Ids) -> None:
        pass

    def draft(self, most: int) -> Guess:
        return NOTHING


@dataclass
class PlantedDrafter:
    """Guesses what `continuation` says follows the tokens so far; each guess is spoilt with the chance `is_wrong`."""

    continuation: Callable[[Sequence[int], int], Sequence[int]]
    is_wrong: float = 0.0
    seed: int = 0
    vocab_size: int = 64
    told_ids: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.seed)

    def told(self, ids: Sequence[int] | Ids) -> None:
        self.told_ids.extend(int(token) for token in ids)

    def draft(self, most: int) -> Guess:
        ids = np.array(self.continuation(self.told_ids, most), np.int64)
        spoilt = self._random.random(len(ids)) < self.is_wrong
        ids[spoilt] = self._random.integers(0, self.vocab_size, int(spoilt.sum()))
        return Guess(ids.tolist(), "planted")


def random_drafting(seed: int, vocab_size: int = 64, most: int = 16) -> Drafting:
    """Guesses without any sense, all looked at."""
    random = np.random.default_rng(seed)

    def anything(ids: Sequence[int], count: int) -> Sequence[int]:
        return random.integers(0, vocab_size, int(random.integers(0, count + 1))).tolist()

    return Drafting(lambda: PlantedDrafter(anything, vocab_size=vocab_size), most, AllLengths())


def planted_drafting(
    continuation: Callable[[Sequence[int], int], Sequence[int]],
    is_wrong: float = 0.0,
    seed: int = 0,
    vocab_size: int = 64,
    most: int = 16,
    lengths: DraftLengths | None = None,
) -> Drafting:
    """Guesses that come true but for a share of them, all looked at unless `lengths` says otherwise."""
    return Drafting(lambda: PlantedDrafter(continuation, is_wrong, seed, vocab_size), most, lengths or AllLengths())
