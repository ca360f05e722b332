"""How long a model may think: when the room for the answer gets short, its thoughts are closed (spec/product.md D.2).

Pure but for its own memory. Knows token ids and logits, no text. Exact: it decides before each token is drawn.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from whitedwarf.engine.guide import FREE, Course, Mask
from whitedwarf.errors import UsageError
from whitedwarf.model.base import Logits

DEFAULT_SOFT, DEFAULT_HARD, DEFAULT_RANK = 1024, 512, 3


class CloseKind(StrEnum):
    """How the thoughts ended."""

    NATURAL = "natural"
    SOFT = "soft_forced"  # taken because it was likely, and the room was getting short
    HARD = "hard_forced"
    NONE = "none"  # they did not, or there were none


@dataclass(frozen=True, slots=True)
class Limits:
    """Tokens that have to be left for the answer. From `soft` on, `</think>` is taken when it is among the `rank`
    likeliest tokens; at `hard` it is taken whatever the model wants."""

    soft: int = DEFAULT_SOFT
    hard: int = DEFAULT_HARD
    rank: int = DEFAULT_RANK

    def __post_init__(self) -> None:
        if min(self.soft, self.hard, self.rank) < 0:
            raise UsageError(f"limits of thinking must be 0 or more, got {self}")


@dataclass(frozen=True, slots=True)
class ThinkClose:
    """Where the thoughts closed: as which generated token (from 0), with how many left before it, at which rank
    (1: the likeliest). None where that is not known."""

    kind: CloseKind = CloseKind.NONE
    token_index: int | None = None
    remaining: int | None = None
    rank: int | None = None


NOT_CLOSED = ThinkClose()


class ThinkBudget:
    """Chooser and Guide (whitedwarf.engine.guide) of one answer that begins inside thoughts and may have `budget`
    tokens in all. `closed` says how the thoughts ended, as soon as they have."""

    course = FREE

    def __init__(self, limits: Limits, close_id: int, budget: int) -> None:
        self.closed = NOT_CLOSED
        self._limits = limits
        self._close_id = close_id
        self._budget = budget
        self._num_drawn = 0
        self._next = NOT_CLOSED  # what it would be if the next token closed the thoughts

    def choose(self, logits: Logits) -> int | None:
        """`</think>` when it is time for it."""
        if self.closed is not NOT_CLOSED:
            return None
        remaining = self._budget - self._num_drawn
        rank = rank_of(self._close_id, logits)
        kind = close_now(self._limits, remaining, rank)
        is_taken = kind is not CloseKind.NONE
        self._next = ThinkClose(kind if is_taken else CloseKind.NATURAL, self._num_drawn, remaining, rank)
        return self._close_id if is_taken else None

    def mask(self) -> Mask | None:
        """Anything may come."""
        return None

    def accept(self, token: int) -> Course:
        """This token came; the first `</think>` ends the thoughts."""
        if token == self._close_id and self.closed is NOT_CLOSED:
            self.closed = self._next
        self._num_drawn += 1
        return FREE


def close_now(limits: Limits, remaining: int, rank: int) -> CloseKind:
    """Whether thoughts are closed with so many tokens left, where `</think>` has this rank: hard, soft, or none."""
    if remaining <= limits.hard:
        return CloseKind.HARD
    if remaining <= limits.soft and rank <= limits.rank:
        return CloseKind.SOFT
    return CloseKind.NONE


def rank_of(token: int, logits: Logits) -> int:
    """1 for the likeliest; of equals the lowest id comes first, and what is not finite comes last."""
    is_finite = np.isfinite(logits)
    if not is_finite[token]:
        return int(np.count_nonzero(is_finite) + np.count_nonzero(~is_finite[:token])) + 1
    with np.errstate(invalid="ignore"):
        is_better = is_finite & (logits > logits[token])
    return int(np.count_nonzero(is_better) + np.count_nonzero(logits[:token] == logits[token])) + 1
