"""One request's life on the engine thread: waiting, prefilling, decoding, ended.

It turns what the scheduler allots into a span, and the span's logits into events. It does not know its companions: its
random numbers, its session and its counters are its own.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from whitedwarf.engine.changed_logits import LogitChanges
from whitedwarf.engine.draft_length import Company
from whitedwarf.engine.drafts import Drafting, Drafts
from whitedwarf.engine.generation import Generation
from whitedwarf.engine.guide import FREE, Chooser, Guide, chosen_before, course_after, forced_next, mask_before
from whitedwarf.engine.request import (
    GREEDY,
    Finished,
    FinishReason,
    GenerateOptions,
    Prefilled,
    SamplingOptions,
    Token,
)
from whitedwarf.engine.sampler import XorShift64Star, sample, score
from whitedwarf.engine.scheduler import Candidate, Phase, is_turn_over, newcomers_turn
from whitedwarf.engine.seen_prefixes import common_length
from whitedwarf.engine.session import Reused, Session
from whitedwarf.engine.stops import MIN_PARTING, is_answer_stop, is_cold, prompt_stops, tokens_to_answer_stop
from whitedwarf.errors import WhitedwarfError
from whitedwarf.model.base import DraftAsk, DraftState, Ids, LogitRows, Logits, Span


@dataclass(frozen=True, slots=True)
class _Ending:
    reason: FinishReason
    stop_id: int | None = None


class Job:
    """`budget` is how many tokens may be generated; the session of a one-off request is nobody else's.

    `chunk_tokens` is where the scheduler ends pieces anyhow; `guide` is asked after every token, `chooser` before it.
    `drafting` says who guesses the answer's tokens, where anybody does.
    """

    def __init__(
        self,
        key: int,
        prompt: Ids,
        options: GenerateOptions,
        budget: int,
        session: Session,
        chunk_tokens: int,
        guide: Guide | None = None,
        chooser: Chooser | None = None,
        drafting: Drafting | None = None,
    ) -> None:
        self.key = key
        self.session = session
        self.generation = Generation()
        self.is_admitted = False  # has one of the engine's places
        self.is_ended = False
        self._prompt = prompt
        self._options = options
        self._budget = budget
        self._random = XorShift64Star(options.sampling.seed)
        self._changes = LogitChanges(options.sampling)
        self._guide = guide
        self._chooser = chooser
        self._drafting = drafting
        self._drafts: Drafts | None = None
        self.note: DraftState | None = None  # of the model's block for drafts, where that is asked
        self._proposed: list[int] = []  # drafts in the next pass, behind the last token
        self._course = FREE if guide is None else guide.course
        self._chunk_tokens = chunk_tokens
        self._reused = Reused()
        self._stops = [len(prompt)]  # prompt lengths at which to pause, nearest last
        self._num_remembered = 0  # tokens up to the last pause, or where the prompt was begun
        self._generated_tokens = 0
        self._last_token = -1
        self._last_served = 0
        self._started_s: float | None = None
        self._prefilled_s: float | None = None

    @property
    def candidate(self) -> Candidate:
        """This request as the scheduler wants to see it."""
        if self._started_s is None:
            return Candidate(self.key, self.session.lane, Phase.HELD if self.is_admitted else Phase.WAITING)
        position = self.session.position
        if self._prefilled_s is None:
            pending = self._stops[-1] - position
            return Candidate(self.key, self.session.lane, Phase.PREFILLING, position, pending, self._last_served)
        return Candidate(self.key, self.session.lane, Phase.DECODING, position, 1 + len(self._proposed))

    @property
    def may_draft(self) -> bool:
        return self._drafting is not None and self._prefilled_s is not None and not self.is_ended

    @property
    def generated_tokens(self) -> int:
        return self._generated_tokens

    @property
    def is_held(self) -> bool:
        return self.is_admitted and self._started_s is None and not self.is_ended

    def reads_for(self, other: "Job") -> bool:
        """This one is just reading, and about to remember, a good part of what `other` begins with too."""
        if self.is_ended or self._started_s is None or self._prefilled_s is not None:
            return False
        if not (self.session.shares_checkpoints and other.session.shares_checkpoints):
            return False
        common = common_length(self._prompt, other._prompt)
        return any(stop <= common and stop - self._num_remembered >= MIN_PARTING for stop in self._stops)

    def start(self, num_batches: int) -> None:
        """Get a state for the prompt; `num_batches` have run before."""
        self._started_s = time.perf_counter()
        self._last_served = newcomers_turn(num_batches)
        self._reused = self.session.sync(self._prompt)
        if self._drafting is not None and self._drafting.block is not None and self.session.state.draft_room:
            self.note = self._drafting.block.new_state()
        if self.session.remembers:
            self._num_remembered = self._reused.num_tokens
            start, parting, named = self._reused.num_tokens, self._reused.num_common, self._options.checkpoints
            self._stops = [*prompt_stops(len(self._prompt), start, named, parting, self._chunk_tokens)][::-1]
        self.generation.put(Prefilled(self._reused.num_tokens, len(self._prompt)))

    def propose(self, most: int, company: Company) -> int:
        """Guess what comes after the last token, for the next pass to look at -> how many tokens that is.

        Not beyond the answer's end, nor beyond where it is remembered.
        """
        assert self._drafting is not None
        if self._drafts is None:
            self._drafts = Drafts(self._drafting, np.append(self._prompt, np.int32(self._last_token)))
        forced = forced_next(self._guide)
        self._proposed = list(self._drafts.propose(self._most_drafts(most), company, forced))
        return len(self._proposed)

    def block_ask(self, most: int, company: Company) -> DraftAsk | None:
        """What the model's block should guess of this answer, after `propose`; None: nothing."""
        if self.note is None or self._drafts is None:
            return None
        length = self._drafts.block_length(self._most_drafts(most), company)
        return DraftAsk(self.note, self._last_token, length) if length else None

    def propose_block(self, ids: Sequence[int]) -> None:
        """What the block has guessed, for the next pass to look at."""
        assert self._drafts is not None
        self._drafts.propose_block(ids)
        self._proposed = list(ids)

    def _most_drafts(self, most: int) -> int:
        left, stop = self._budget - self._generated_tokens, tokens_to_answer_stop(self.session.position)
        return min(most, self.session.state.draft_room, left - 1, stop - 1)

    def span(self, num_tokens: int) -> Span:
        """The next `num_tokens` pending tokens."""
        if self._prefilled_s is not None:
            ids = np.array([self._last_token, *self._proposed], np.int32)
            rows: LogitRows = "all" if self._proposed else "last"
            return Span(self.session.state, ids, rows, self.generation.has_been_cancelled)
        position = self.session.position
        ids = self._prompt[position : position + num_tokens]
        end = position + num_tokens
        is_drawn_from = end == len(self._prompt) and self._budget > 0
        is_kept = end == self._stops[-1] and self.session.wants_logits
        wanted: LogitRows = "last" if is_drawn_from or is_kept else "none"
        return Span(self.session.state, ids, wanted, self.generation.has_been_cancelled)

    def absorb(self, span: Span, logits: Logits, batch: int, piece_tokens: int) -> None:
        """`span` has run as part of batch number `batch`, in which prompts were read in such pieces, and gave `logits`
        (rows wanted, vocab)."""
        self.session.advance(span.ids, logits)
        if self._prefilled_s is not None:
            self._absorb_answer(logits)
            return
        if is_turn_over(self.session.position, piece_tokens):
            self._last_served = batch
        self._pause()
        self._report_prefill()
        if self._prefilled_s is None:
            return
        if self.generation.is_cancelled:
            self.end(FinishReason.CANCELLED)
        elif self._budget == 0:
            self.end(FinishReason.LENGTH)
        elif (ending := self._draw(logits[-1])) is not None:
            self.end(ending.reason, stop_id=ending.stop_id)

    def give_up(self, span: Span) -> None:
        """Nobody waited for the end of a pass with `span`; what it will have done is not lost, but for the logits."""
        if span.state.position > self.session.position:
            self.session.advance(span.ids, np.empty((0, 0), np.float32))
            if self._prefilled_s is not None:
                self._take_back(len(span.ids) - 1, None)

    def end(self, reason: FinishReason, *, stop_id: int | None = None, error: WhitedwarfError | None = None) -> None:
        """Tell the caller; the first call counts. A failed request leaves its session empty."""
        if self.is_ended:
            return
        self.is_ended = True
        if error is not None:
            self.session.drop()
        self.leave_session()
        prefill_s, decode_s = self._times()
        self.generation.put(
            Finished(
                reason=reason,
                prompt_tokens=len(self._prompt),
                generated_tokens=self._generated_tokens,
                reused_tokens=self._reused.num_tokens,
                prefill_s=prefill_s,
                decode_s=decode_s,
                stop_id=stop_id,
                error=error,
                reuse=self._reused.reuse,
                miss_reason=self._reused.miss_reason,
                common_tokens=self._reused.num_common,
                seen_next=self._reused.seen_next,
                drafted_tokens=0 if self._drafts is None else self._drafts.num_looked_at,
                accepted_tokens=0 if self._drafts is None else self._drafts.num_right,
            )
        )

    def leave_session(self) -> None:
        """Leave the state to whom it may serve; again does nothing. This may take a while, unlike `end` after it."""
        self.session.leave()

    def _pause(self) -> None:
        """Remember the prompt so far when it has come to a stop."""
        position = self.session.position
        if position == self._stops[-1]:
            self._num_remembered = self._stops.pop()
            is_named = position == len(self._prompt) or position in self._options.checkpoints
            self.session.remember(is_cold=is_cold(len(self._prompt), self._reused.num_tokens), is_named=is_named)

    def _remember_answer(self) -> None:
        """So that a crash in a long answer costs a step of it; what ends inside a call no later prompt begins with."""
        if is_answer_stop(self.session.position) and not self._course.is_inside_call:
            self.session.remember(is_cold=False, is_named=False)

    def _report_prefill(self) -> None:
        processed, total = self.session.position, len(self._prompt)
        if processed == total:
            self._prefilled_s = time.perf_counter()
        self.generation.put(Prefilled(processed, total))

    def _absorb_answer(self, logits: Logits) -> None:
        """The last token and the drafts behind it have run: as many tokens are drawn as drafts are what is drawn, and
        one more. After it all is as if there had been no drafts."""
        drafts, self._proposed = self._proposed, []
        if self.generation.is_cancelled:
            self._take_back(len(drafts), logits[0])
            self.end(FinishReason.CANCELLED)
            return
        drawn: list[int] = []
        for row in range(len(drafts) + 1):
            if row == len(drafts):
                self._remember_answer()
            ending = self._draw(logits[row])
            if ending is None or ending.stop_id is None:
                drawn.append(self._last_token)
            if ending is not None or (row < len(drafts) and self._last_token != drafts[row]):
                break
        self._take_back(len(drafts) - row, logits[row])
        if self._drafts is not None:
            self._drafts.settle(drawn)
        if ending is not None:
            self.end(ending.reason, stop_id=ending.stop_id)

    def _take_back(self, num_tokens: int, logits: Logits | None) -> None:
        if num_tokens:
            self.session.take_back(num_tokens, logits)
            if self.note is not None:
                self.note.take_back(num_tokens)

    def _draw(self, logits: Logits) -> _Ending | None:
        """The next token, told to all; how the answer ends with it, if it does."""
        token = chosen_before(self._chooser, logits)
        if token is None:
            # What a guide wants greedily is structure, which nothing the request asks for may spoil.
            changed = logits if self._course.is_greedy else self._changes.of(logits)
            token = sample(changed, self._sampling, self._random, mask_before(self._guide))
        if token in self._options.stop_ids:
            return _Ending(FinishReason.STOP, token)
        self.generation.put(self._event(token, logits))
        self._last_token = token
        self._changes.saw(token)
        self._generated_tokens += 1
        self._course = course_after(self._guide, token)
        if self._course.is_over:
            return _Ending(FinishReason.STOP)
        return _Ending(FinishReason.LENGTH) if self._generated_tokens == self._budget else None

    @property
    def _sampling(self) -> SamplingOptions:
        """How the next token is drawn. A greedy draw takes no random number, so the next free one gets it."""
        return GREEDY if self._course.is_greedy else self._options.sampling

    def _event(self, token: int, logits: Logits) -> Token:
        if self._options.logprobs is None:
            return Token(token)
        logprob, best = score(logits, token, self._options.logprobs)
        return Token(token, logprob, best)

    def _times(self) -> tuple[float, float]:
        """Seconds of prefill and of decode so far."""
        now_s = time.perf_counter()
        if self._started_s is None:
            return 0.0, 0.0
        if self._prefilled_s is None:
            return now_s - self._started_s, 0.0
        return self._prefilled_s - self._started_s, now_s - self._prefilled_s
