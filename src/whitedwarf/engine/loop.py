"""The engine thread: takes requests in, runs one batch after another, ends every request it ever accepted.

Decisions are the scheduler's, the life of a request is the job's; here are only the thread, the lock and what happens
when something fails. A failure inside `forward` ends the requests of that batch and nothing else. Anything unforeseen
ends the loop, and then every request with EngineClosedError: no caller is left waiting.
"""

import copy
import logging
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import partial

from whitedwarf.engine.draft_length import Company, DraftLengths
from whitedwarf.engine.drafts import Drafting
from whitedwarf.engine.job import Job
from whitedwarf.engine.power import FULL_POWER_PERCENT, Duty, Kind
from whitedwarf.engine.prefix import Prefixes
from whitedwarf.engine.request import FinishReason
from whitedwarf.engine.scheduler import Limits, Phase, admissions, next_batch
from whitedwarf.errors import (
    BackendError,
    Cancelled,
    EngineBusyError,
    EngineClosedError,
    OutOfMemoryError,
    WhitedwarfError,
)
from whitedwarf.model.base import Logits, Model, Pace, PaceableModel, Span, is_reading

log = logging.getLogger(__name__)


TELLING_ROWS = 64  # fewer say nothing of how long a chunk takes
CANCEL_STEP_S = 0.05  # how long a cancel may have to wait while the loop rests


class Closing(StrEnum):
    DRAIN = "drain"  # accepted requests run to their end
    CANCEL = "cancel"  # they end after the forward pass they are in


class Loop:
    """`run` is the engine thread's whole life; `submit` and `close` may come from any thread."""

    def __init__(
        self,
        model: Model,
        limits: Limits,
        max_waiting: int,
        prefixes: Prefixes,
        drafting: Drafting | None = None,
    ) -> None:
        self._model = model
        self._prefixes = prefixes
        self._limits = limits
        self._max_waiting = max_waiting
        self.power_percent = FULL_POWER_PERCENT  # read in every rest, set from any thread
        self.is_paused = False  # likewise
        self._duty = Duty(time.monotonic)
        self._kind = Kind.DECODE  # of the last pass
        self._changed = threading.Condition()  # guards everything below
        self._waiting: list[Job] = []
        self._running: list[Job] = []  # changed by the engine thread only
        self._closing: Closing | None = None
        self._stopped: EngineClosedError | None = None
        self._num_batches = 0
        self._token_s: float | None = None  # what a token of a prompt took in the last batch that had enough of them
        self._draft_lengths = DraftLengths() if drafting is None else drafting.lengths
        self._block = None if drafting is None else drafting.block

    def submit(self, job: Job) -> None:
        """Queue `job`; EngineBusyError when too many wait, EngineClosedError when nothing will run any more."""
        with self._changed:
            if self._stopped is not None:
                raise EngineClosedError(str(self._stopped))
            if self._closing is not None:
                raise EngineClosedError("the engine is shutting down and takes no more requests")
            if len(self._waiting) >= self._max_waiting:
                raise EngineBusyError(f"{len(self._waiting)} requests are waiting already, the limit: try again later")
            self._waiting.append(job)
            self._changed.notify()

    @contextmanager
    def holding(self, lane: int | None = None) -> Iterator[None]:
        """Let no request of `lane`, or none at all, begin meanwhile; EngineBusyError while one waits or runs.

        One that has told its end counts no more: this waits until the engine's thread has let go of it.
        """
        with self._changed:
            mine = [job for job in (*self._waiting, *self._running) if lane in (None, job.session.lane)]
            if any(not job.is_ended for job in mine):
                whose = "a request" if lane is None else "a request of this session"
                raise EngineBusyError(f"{whose} is waiting or running: end it, or wait for its end")
            self._changed.wait_for(lambda: not any(job in self._running or job in self._waiting for job in mine))
            yield

    def change_model(self, model: Model, prefixes: Prefixes) -> None:
        """From now on; only inside `holding()`."""
        self._model, self._prefixes = model, prefixes

    def close(self, closing: Closing) -> None:
        """Take no more requests and stop when those accepted have ended; CANCEL after DRAIN hurries it up."""
        with self._changed:
            if self._closing is not Closing.CANCEL:
                self._closing = closing
            if closing is Closing.CANCEL:
                for job in (*self._waiting, *self._running):
                    job.generation.cancel()
            self._changed.notify()

    def run(self) -> None:
        try:
            while self._has_work():
                self._end_cancelled()
                self._start_waiting()
                self._duty.begin()
                if (kind := self._run_batch()) is not None:
                    self._duty.worked(kind)
                self._rest()
            self._prefixes.close()
            self._stop(EngineClosedError("the engine is closed"))
        except BaseException as error:
            log.critical("engine_thread_died", exc_info=True)
            closed = EngineClosedError(f"the engine stopped after an internal error ({_describe(error)}): restart it")
            closed.__cause__ = error
            self._stop(closed)

    def _has_work(self) -> bool:
        """Sleep until there is something to do; False when there never will be."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._running or self._closing)
            return bool(self._waiting or self._running)

    def _end_cancelled(self) -> None:
        with self._changed:
            cancelled = [job for job in (*self._waiting, *self._running) if job.generation.is_cancelled]
        for job in cancelled:
            job.leave_session()  # not under the lock: it may copy a state, and nobody who submits should wait for that
        with self._changed:
            for job in cancelled:
                job.end(FinishReason.CANCELLED)
            self._sweep()

    def _start_waiting(self) -> None:
        if self._waiting:
            self._admit()
        for job in self._running:
            if job.is_held and not self._is_worth_holding(job):
                self._start(job)

    def _admit(self) -> None:
        with self._changed:
            keys = admissions([job.candidate for job in (*self._waiting, *self._running)], self._limits)
            admitted = [job for job in self._waiting if job.key in keys]
            self._waiting = [job for job in self._waiting if job.key not in keys]
            for job in admitted:
                job.is_admitted = True
            self._running.extend(admitted)

    def _is_worth_holding(self, job: Job) -> bool:
        """Another one is ahead with the same beginning: from its checkpoint this one is sooner at its own end, too.

        Nobody waits for one that does not run itself, and the turns of the prompts let each of those get on.
        """
        return any(other.reads_for(job) for other in self._running)

    def _start(self, job: Job) -> None:
        try:
            job.start(self._num_batches)
        except Exception as error:  # the model's own code: what it may raise is not ours to know
            _fail([job], error, "could not make room for a new sequence")

    def _run_batch(self) -> Kind | None:
        """What kind of work it was, if any."""
        jobs = {job.key: job for job in self._running if not job.is_ended}
        limits = self._limits.in_time(self._token_s, is_alone=len(jobs) == 1 and not self._waiting)
        self._propose(jobs.values(), limits)
        shares = next_batch([job.candidate for job in jobs.values()], limits)
        batch = [(jobs[share.key], jobs[share.key].span(share.num_tokens)) for share in shares]
        spans = [span for _, span in batch]
        if batch:
            self._num_batches += 1
            self._forward([job for job, _ in batch], spans, limits.chunk_tokens)
        with self._changed:
            self._sweep()
        return self._kind if batch else None

    def _propose(self, jobs: Collection[Job], limits: Limits) -> None:
        """Have drafts looked at in the next pass where that is worth it: beside prompts only where there is room."""
        phases = [job.candidate.phase for job in jobs]
        drafting = [job for job in jobs if job.may_draft]
        if not drafting:
            return
        rows = answers = phases.count(Phase.DECODING)
        room = (limits.max_parallel if Phase.PREFILLING in phases else limits.max_rows) - rows
        if not self._draft_lengths.begin_pass():
            room = 0
        for job in drafting:
            num_drafts = job.propose(room, Company(rows, answers))
            rows, room = rows + num_drafts, room - num_drafts
        self._ask_block(drafting, room, Company(rows, answers))

    def _ask_block(self, jobs: Sequence[Job], room: int, company: Company) -> None:
        """Have the model's own block guess where nobody else has, for all answers at once."""
        asks = [(job, ask) for job in jobs if (ask := job.block_ask(room // len(jobs), company)) is not None]
        if not asks or self._block is None:
            return
        began_s = time.monotonic()
        try:
            found = self._block.draft([ask for _, ask in asks])
        except Exception:  # the model's own code: what it may raise is not ours to know, and no answer needs it
            log.exception("draft_failed")
            for job in jobs:
                job.note = None
            return
        self._draft_lengths.block_took(max(ask.most for _, ask in asks), time.monotonic() - began_s)
        for (job, _), ids in zip(asks, found, strict=True):
            job.propose_block(ids)

    def _forward(self, jobs: Sequence[Job], spans: Sequence[Span], piece_tokens: int) -> None:
        began_s, num_rows = time.monotonic(), sum(len(span.ids) for span in spans)
        try:
            results = self._pass(jobs, spans)
        except Cancelled:  # all of them: they end before the next batch
            for job, span in zip(jobs, spans, strict=True):
                job.give_up(span)
            return
        except Exception as error:  # the model's own code: what it may raise is not ours to know
            _fail(jobs, error, f"failed on a batch of {num_rows} tokens")
            return
        took_s = time.monotonic() - began_s
        if num_rows >= TELLING_ROWS:
            self._token_s = took_s / num_rows
        is_drafted = not is_reading(spans) and any(job.may_draft for job in jobs)
        if is_drafted:
            self._draft_lengths.costs.took(num_rows, took_s)
        known = sum(job.generated_tokens for job in jobs)
        for job, span, logits in zip(jobs, spans, results, strict=True):
            try:
                job.absorb(span, logits, self._num_batches, piece_tokens)
            except Exception as error:  # e.g. no finite logit: this request's trouble, not its companions'
                _fail([job], error, "gave logits that no token can be drawn from")
        if is_drafted:
            self._draft_lengths.passed(num_rows, len(jobs), sum(job.generated_tokens for job in jobs) - known)

    def _pass(self, jobs: Sequence[Job], spans: Sequence[Span]) -> list[Logits]:
        model, is_full = self._model, self.power_percent == FULL_POWER_PERCENT
        notes = [job.note for job in jobs]
        pace: Pace | None = None
        self._kind = Kind.READ if is_reading(spans) else Kind.DECODE
        if not is_full and is_reading(spans) and isinstance(model, PaceableModel):
            self._kind = Kind.REST_OF_READ
            pace = partial(self._rest_in_pass, jobs)
        if self._block is not None and any(note is not None for note in notes):
            results = self._block.forward_noting(model, spans, notes, pace)
        elif pace is not None and isinstance(model, PaceableModel):
            results = model.forward_at_pace(spans, pace)
        else:
            results = model.forward(spans)
        if len(results) != len(spans):
            raise BackendError(f"expected logits of {len(spans)} spans, got {len(results)}")
        return results

    def _rest_in_pass(self, jobs: Sequence[Job], layer: int) -> None:
        """After a layer. While one of the pass is cancelled, or the engine closes in haste, the pass has to come to its
        end first: what is left of the rests is rested after it, where both are heard.
        """
        self._duty.worked(layer)
        while self._closing is not Closing.CANCEL and not any(job.generation.is_cancelled for job in jobs):
            if (left_s := self._duty.left_s(self.power_percent)) <= 0:
                break
            with self._changed:
                self._changed.wait(min(left_s, CANCEL_STEP_S))
        self._duty.rested(self.power_percent)

    def _rest(self) -> None:
        """Do nothing for a while, but hear cancels, other settings, and that the engine closes in haste.

        A pause is a rest without an end, unless nothing runs or the engine closes.
        """
        while self._closing is not Closing.CANCEL:
            left_s = self._duty.left_s(self.power_percent)
            if self.is_paused and self._closing is None and self._running:
                left_s = CANCEL_STEP_S
            if left_s <= 0:
                break
            with self._changed:
                self._changed.wait(min(left_s, CANCEL_STEP_S))
            self._end_cancelled()
        self._duty.rested(self.power_percent)

    def _sweep(self) -> None:
        """Let go of ended requests, and of their states."""
        self._waiting = [job for job in self._waiting if not job.is_ended]
        self._running = [job for job in self._running if not job.is_ended]
        self._changed.notify_all()  # whoever waits in `holding`

    def _stop(self, closed: EngineClosedError) -> None:
        with self._changed:
            self._stopped = closed
            for job in (*self._waiting, *self._running):
                job.end(FinishReason.ERROR, error=_copy(closed))
            self._sweep()


def _fail(jobs: Sequence[Job], cause: Exception, what: str) -> None:
    """End `jobs` with a clear error. The log has the traceback, the errors do not: it would keep states alive."""
    # What was foreseen is told in full by its message: a traceback is for what was not.
    is_foreseen = isinstance(cause, (WhitedwarfError, MemoryError))
    log.log(
        logging.INFO if is_foreseen else logging.ERROR,
        "requests_failed",
        exc_info=None if is_foreseen else cause,
        extra={"requests": [job.key for job in jobs]},
    )
    for link in _chain(cause):
        link.__traceback__ = None
    for job in jobs:
        job.end(FinishReason.ERROR, error=_explain(cause, what))


def _chain(error: BaseException) -> list[BaseException]:
    """`error` and what it came from; a chain may bite its own tail."""
    links: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in links:
        links.append(link)
        link = link.__cause__ or link.__context__
    return links


def _explain(cause: Exception, what: str) -> WhitedwarfError:
    if isinstance(cause, WhitedwarfError):
        return _copy(cause)
    if isinstance(cause, MemoryError):
        return OutOfMemoryError(f"out of memory: the model {what}; use a smaller prefill chunk or context ({cause})")
    error = BackendError(f"the model {what}: {_describe(cause)}. This request has ended, the engine goes on")
    error.__cause__ = cause
    return error


def _copy(error: WhitedwarfError) -> WhitedwarfError:
    """One exception per request: threads that raise the same one would write over each other's traceback."""
    twin = copy.copy(error)
    twin.__cause__ = error
    return twin


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
