"""One answer's guesses, from pass to pass: what is looked at, and what came of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from whitedwarf.engine.draft_length import Company, DraftLengths, HitRates
from whitedwarf.engine.drafter import NOTHING, CarefulDrafter, DrafterMaker, Guess
from whitedwarf.model.base import DraftBlock, Ids

BLOCK, BLOCK_HOPE = "block", 0.7  # the kind of guesses of the model's own, and how often they are right
FORM, FORM_HOPE = "form", 0.95  # of what a form leaves no choice in
FIRST_WAIT, LONGEST_WAIT = 32, 512  # passes until the block is tried again where it has lost


@dataclass(frozen=True, slots=True)
class Drafting:
    """How an engine's answers are guessed: who does, and how much of a guess is looked at. `most` tokens at once.

    Where nobody else has a guess, the model's own `block` is asked, if it has one.
    """

    make: DrafterMaker
    most: int = 16
    lengths: DraftLengths = field(default_factory=DraftLengths)
    block: DraftBlock | None = None


class Drafts:
    """`propose` before a pass, `settle` after it. `prompt` has been read."""

    def __init__(self, drafting: Drafting, prompt: Ids) -> None:
        self.num_looked_at = 0
        self.num_right = 0
        self._drafter = CarefulDrafter(drafting.make, prompt)
        self._lengths = drafting.lengths
        self._most = drafting.most
        self._rates = HitRates(drafting.lengths.rates)
        self._guess = NOTHING
        self._length = 0
        self._wait = self._waited = 0  # passes until the block is tried again, and since it was

    def propose(self, most: int, company: Company, forced: Sequence[int] = ()) -> Sequence[int]:
        """Tokens for the next pass to look at behind the last one, at most so many; often none. What is `forced` by the
        answer's form is a better guess than any."""
        drafted = self._drafter.draft(min(most, self._most))
        self._guess = Guess(forced, FORM, FORM_HOPE) if forced else drafted
        most = min(most, self._most, len(self._guess.ids))
        self._length = (
            self._lengths.of(self._rates.of(self._guess.kind, self._guess.hope), most, company) if most else 0
        )
        return self._guess.ids[: self._length]

    def block_length(self, most: int, company: Company) -> int:
        """How many tokens the model's block should guess, where nobody else has; 0: none.

        Where that has lost it is tried again now and then, the more rarely the longer it has been losing.
        """
        if self._guess.ids or most < 1:
            return 0
        most = min(most, self._most)
        length = self._lengths.of_block(self._rates.of(BLOCK, BLOCK_HOPE), most, company)
        if length:
            self._wait = self._waited = 0
            return length
        self._waited += 1
        if self._waited < (self._wait or FIRST_WAIT):
            return 0
        self._wait, self._waited = min(2 * (self._wait or FIRST_WAIT), LONGEST_WAIT), 0
        return min(most, 2)

    def propose_block(self, ids: Sequence[int]) -> None:
        """This is the block's guess, all of it to be looked at."""
        self._guess, self._length = Guess(ids, BLOCK, BLOCK_HOPE), len(ids)

    def settle(self, drawn: Sequence[int]) -> None:
        """These tokens came, also where nobody looked at the guess; fewer than that has where the answer ended."""
        looked_at = self._guess.ids[: max(self._length, 1)]
        hits = _common_length(looked_at, drawn)
        misses = int(hits < min(len(looked_at), len(drawn)))
        if looked_at:
            self._rates.saw(self._guess.kind, hits, misses, self._guess.hope)
        self.num_looked_at += self._length
        self.num_right += min(hits, self._length)
        self._guess, self._length = NOTHING, 0
        self._drafter.told(drawn)


def _common_length(a: Sequence[int], b: Sequence[int]) -> int:
    for i, (left, right) in enumerate(zip(a, b, strict=False)):
        if left != right:
            return i
    return min(len(a), len(b))
