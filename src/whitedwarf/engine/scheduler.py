"""What to run next: pure decisions over counts, no model, no threads, no clocks.

Promises, for every sequence of calls (tests/engine/test_scheduler.py holds it to them):
* requests start in order of arrival, at most `max_parallel` at once, those of one lane one after another;
* every decoding request gets a row in every batch, so no prompt, however long, silences a stream;
* prompts take turns of a chunk: each has at least one of `max_parallel` consecutive turns, whoever comes and goes;
* a prompt's pieces end at its own end or at absolute multiples of `chunk_tokens` (model.md 2.11), wherever it resumed;
* a chunk is halved until it is read in time (`piece_tokens`): the loop measures, and passes the smaller limits on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from whitedwarf.errors import UsageError


class Phase(StrEnum):
    WAITING = "waiting"
    HELD = "held"  # has its place, but another request is just computing what it begins with
    PREFILLING = "prefilling"
    DECODING = "decoding"


@dataclass(frozen=True, slots=True)
class Limits:
    """`max_rows` bounds one forward: all spans of a batch together."""

    max_rows: int
    chunk_tokens: int
    max_parallel: int

    def in_time(self, token_s: float | None, *, is_alone: bool) -> "Limits":
        """The same for pieces that are read in time."""
        piece = piece_tokens(self.chunk_tokens, token_s, is_alone=is_alone)
        return Limits(self.max_rows - self.chunk_tokens + piece, piece, self.max_parallel)

    def __post_init__(self) -> None:
        if self.chunk_tokens < 1 or self.max_parallel < 1:
            raise UsageError(
                f"expected chunks of at least 1 token and at least 1 parallel request, got {self.chunk_tokens} and "
                f"{self.max_parallel}"
            )
        if self.max_rows < self.max_parallel:
            raise UsageError(
                f"a batch of {self.max_rows} rows cannot hold {self.max_parallel} decoding requests: "
                "raise max_rows or lower max_parallel"
            )


ALONE_S, SHARED_S = 30.0, 1.5  # what a piece of a prompt may take: cancels and progress wait for it; others do, too
LEAST_PIECE = 128  # smaller ones would read the weights for too few tokens
UNMEASURED_PIECE = 512


def piece_tokens(chunk_tokens: int, token_s: float | None, *, is_alone: bool) -> int:
    """The chunk, halved until it is read in time at `token_s` a token; None: nothing was measured yet."""
    limit_s = ALONE_S if is_alone else SHARED_S
    piece = chunk_tokens
    while piece > LEAST_PIECE and piece % 2 == 0:
        if piece <= UNMEASURED_PIECE if token_s is None else piece * token_s <= limit_s:
            break
        piece //= 2
    return piece


@dataclass(frozen=True, slots=True)
class Candidate:
    """One request as the scheduler sees it. `key` grows in order of arrival."""

    key: int
    lane: int  # requests of one session share a lane; any other request has its own
    phase: Phase
    position: int = 0  # tokens in the state
    pending: int = 0  # tokens known but not yet run: the rest of the prompt, or the one just drawn
    last_served: int = 0  # number of the batch in which its prompt's last turn was over, at first see `newcomers_turn`


@dataclass(frozen=True, slots=True)
class Share:
    """Run the next `num_tokens` pending tokens of request `key`."""

    key: int
    num_tokens: int


def admissions(candidates: Sequence[Candidate], limits: Limits) -> tuple[int, ...]:
    """Keys of the waiting requests that start now, in order."""
    busy_lanes = {candidate.lane for candidate in candidates if candidate.phase is not Phase.WAITING}
    free = limits.max_parallel - sum(candidate.phase is not Phase.WAITING for candidate in candidates)
    admitted: list[int] = []
    for candidate in sorted(_in_phase(candidates, Phase.WAITING), key=_arrival):
        if len(admitted) < free and candidate.lane not in busy_lanes:
            admitted.append(candidate.key)
            busy_lanes.add(candidate.lane)
    return tuple(admitted)


def newcomers_turn(num_batches: int) -> int:
    """`last_served` of a prompt that starts after so many batches.

    Before the prompt that has just been served, so that a short one beside a long one need not wait for one more chunk
    of it; behind all others, so that newcomers never keep anybody from its turn.
    """
    return num_batches - 1


def is_turn_over(position: int, chunk_tokens: int) -> bool:
    """Whether a prompt read so far lets the others go first: one that only paused inside a chunk reads on."""
    return position % chunk_tokens == 0


def next_batch(candidates: Sequence[Candidate], limits: Limits) -> tuple[Share, ...]:
    """One forward: a token of every stream, then pieces of prompts while there are rows. Empty: nothing to run."""
    decodes = [Share(candidate.key, candidate.pending) for candidate in _in_phase(candidates, Phase.DECODING)]
    rows_left = limits.max_rows - sum(share.num_tokens for share in decodes)
    prompts = sorted(_in_phase(candidates, Phase.PREFILLING), key=_turn)
    return (*decodes, *_prompt_shares(prompts, rows_left, limits.chunk_tokens))


def _prompt_shares(prompts: Sequence[Candidate], rows_left: int, chunk_tokens: int) -> list[Share]:
    """Whole pieces that fit, in turn. Only the first may be cut short: it must move, the others' turn will come."""
    shares: list[Share] = []
    for prompt in prompts:
        piece = min(prompt.pending, chunk_tokens - prompt.position % chunk_tokens)
        if not shares:
            piece = min(piece, rows_left)
        if 0 < piece <= rows_left:
            shares.append(Share(prompt.key, piece))
            rows_left -= piece
    return shares


def _in_phase(candidates: Sequence[Candidate], phase: Phase) -> list[Candidate]:
    return [candidate for candidate in candidates if candidate.phase is phase]


def _arrival(candidate: Candidate) -> int:
    return candidate.key


def _turn(candidate: Candidate) -> tuple[int, int]:
    return candidate.last_served, candidate.key
