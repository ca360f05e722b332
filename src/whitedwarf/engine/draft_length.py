"""How many guessed tokens a pass should look at: as many as are worth their rows, by what was measured; often none.

Pure: passes are told with their seconds, guesses with what became of them. It promises to try rarely what has lost, and
to measure anew, now and then, what it has not done for long.
"""

from collections.abc import Hashable
from dataclasses import dataclass

SLOPE = 0.25  # of a pass, what each further row is believed to cost until such a pass was run
LEAST_SLOPE = 0.02  # the least that a further row is believed to cost
LASTING = 256  # passes for which an estimate is believed
LARGEST_RATIO = 1.5  # of a pass to what was expected: what is beyond tells of other things than rows
WORTH = 1.05  # the gain below which nothing is guessed: measured seconds are not exact
BLOCK_SHARE = 0.1  # of a pass, what a token of the model's block is believed to take until that was measured
PLAIN_EVERY = 64  # passes with guesses, after which one without is timed
_OF_ANSWER, _OF_ENGINE = 1 / 16, 1 / 256  # the share of the newest in running means
NO_CHANCE = 1e-12  # that a guess is right so far: no row that comes behind is worth a thought
_FORGETS_EVERY = 32  # passes
MOST_LOST = 0.02  # of the time of decoding, by guesses that came to nothing
FIRST_CREDIT, MOST_CREDIT = 2, 16  # passes that may be lost at first, and after guesses that were right
LASTS = 1 - 1 / 1024  # what was earned and lost counts for so many passes
_OF_FIRST_COSTS, _OF_COSTS = 1 / 2, 1 / 8


class PassCosts:
    """Seconds of passes that read no prompt, by their rows; robust, as passes are held up by others now and then.

    Estimates move by ratios, so that passes that took too long and too short weigh alike, and no pass moves one far.
    Where a first pass of so many rows was held up, nobody would dare a second: what is old is therefore forgotten.
    """

    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}
        self._told: dict[int, int] = {}  # when, in passes
        self._num_passes = 0

    def took(self, rows: int, seconds: float) -> None:
        self._num_passes += 1
        if self._num_passes % _FORGETS_EVERY == 0:
            self._forget_old()
        share = _OF_COSTS if rows in self._seconds else _OF_FIRST_COSTS
        known = self.of(rows) if self._seconds else seconds
        ratio = min(max(seconds / known, 1 / LARGEST_RATIO), LARGEST_RATIO)
        self._seconds[rows] = known * ratio**share
        self._told[rows] = self._num_passes

    def of(self, rows: int) -> float:
        """In seconds, or in any unit of them while nothing is known: only ratios count."""
        if rows in self._seconds:
            return self._seconds[rows]
        below = max((known for known in self._seconds if known < rows), default=None)
        above = min((known for known in self._seconds if known > rows), default=None)
        if below is None:
            return 1.0 + SLOPE * (rows - 1) if above is None else self._seconds[above]
        low = self._seconds[below]
        if above is None:
            return low + self._row_s(below) * (rows - below)
        return low + (self._seconds[above] - low) * (rows - below) / (above - below)

    def _row_s(self, most: int) -> float:
        """What a row more costs than the `most` that were measured: as much as those before."""
        fewest, seconds = min(self._seconds), self._seconds[most]
        if fewest == most:
            return SLOPE * seconds
        least = self._seconds[fewest]
        return max((seconds - least) / (most - fewest), LEAST_SLOPE * least)

    def _forget_old(self) -> None:
        oldest = self._num_passes - LASTING
        fewest = min(self._seconds, default=0)
        for rows in [rows for rows, told in self._told.items() if told < oldest and rows != fewest]:
            del self._seconds[rows], self._told[rows]


class HitRates:
    """How often a guessed token was right when all before it were, by kind of guess: lately, in an answer or in all."""

    def __init__(self, others: "HitRates | None" = None) -> None:
        self._others = others  # what is known when this one begins
        self._share = _OF_ENGINE if others is None else _OF_ANSWER
        self._rates: dict[Hashable, float] = {}

    def of(self, kind: Hashable, hope: float) -> float:
        """`hope` where nothing is known."""
        known = self._rates.get(kind)
        if known is not None:
            return known
        return hope if self._others is None else self._others.of(kind, hope)

    def saw(self, kind: Hashable, hits: int, misses: int, hope: float) -> None:
        rate = self.of(kind, hope)
        for is_hit in (True,) * hits + (False,) * misses:
            rate += self._share * (is_hit - rate)
        self._rates[kind] = rate
        if self._others is not None:
            self._others.saw(kind, hits, misses, hope)


@dataclass(frozen=True, slots=True)
class Company:
    """What a pass does without the guess: `rows`, and each of the `answers` gets a token of it."""

    rows: int
    answers: int


def best_length(rate: float, most: int, company: Company, costs: PassCosts, token_s: float = 0.0) -> int:
    """How many tokens of a guess, each right with this rate, to look at, so that most tokens come per second.

    A guess takes `token_s` a token to make.
    """
    best, best_pace = 0, WORTH * company.answers / costs.of(company.rows)
    expected, chance = 0.0, 1.0
    for length in range(1, most + 1):
        chance *= rate
        if chance < NO_CHANCE:
            break
        expected += chance
        pace = (company.answers + expected) / (costs.of(company.rows + length) + length * token_s)
        if pace > best_pace:
            best, best_pace = length, pace
    return best


class DraftLengths:
    """An engine's: what passes cost and guesses gave, and from both how long the next guess should be."""

    def __init__(self) -> None:
        self.costs = PassCosts()
        self.rates = HitRates()
        self._since_plain = 0
        self._block_token_s: float | None = None
        self._earned_s: float | None = None  # by guesses, lately; None: nothing was decoded yet
        self._decoded_s = 0.0  # in all, lately

    def passed(self, rows: int, answers: int, drawn: int) -> None:
        """A pass of so many rows drew so many tokens of so many answers: what guesses gained by it, or lost."""
        plain_s, pass_s = self.costs.of(answers), self.costs.of(rows)
        if self._earned_s is None:
            self._earned_s = FIRST_CREDIT * plain_s
        gain_s = drawn / answers * plain_s - pass_s if rows > answers else 0.0
        self._earned_s = min(self._earned_s * LASTS + gain_s, MOST_CREDIT * plain_s)
        self._decoded_s = self._decoded_s * LASTS + pass_s

    def begin_pass(self) -> bool:
        """Whether this pass may look at guesses: not the first, now and then not, and not where they have lost too much
        of late."""
        if self._earned_s is None or self._earned_s < -MOST_LOST * self._decoded_s:
            return False
        self._since_plain += 1
        if self._since_plain <= PLAIN_EVERY:
            return True
        self._since_plain = 0
        return False

    def of(self, rate: float, most: int, company: Company) -> int:
        """Of a guess that costs nothing but its rows."""
        return best_length(rate, most, company, self.costs)

    def of_block(self, rate: float, most: int, company: Company) -> int:
        """Of a guess that the model's block would make."""
        token_s = self._block_token_s
        if token_s is None:  # a layer of many, and the head: not much of a pass
            token_s = self.costs.of(company.rows) * BLOCK_SHARE
        return best_length(rate, most, company, self.costs, token_s)

    def block_took(self, num_tokens: int, seconds: float) -> None:
        """So many tokens, those of the longest guess, were guessed by the block, for all answers at once."""
        token_s = seconds / num_tokens
        known = self._block_token_s if self._block_token_s is not None else token_s
        self._block_token_s = known + _OF_COSTS * (min(token_s, 4 * known) - known)
