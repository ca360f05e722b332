"""The engine: prompts in, streams of token ids out, one thread that owns the model.

Whoever holds it calls `submit` from any thread and reads the `Generation`. It promises that equal requests give equal
tokens whoever runs beside them, that nothing is accepted which cannot fit, and that nobody ever waits for an engine
that is gone. It never sees text.
"""

import itertools
import threading
import weakref
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from whitedwarf.engine.drafts import Drafting
from whitedwarf.engine.generation import Generation
from whitedwarf.engine.guide import Chooser, Guide
from whitedwarf.engine.job import Job
from whitedwarf.engine.loop import Closing, Loop
from whitedwarf.engine.power import FULL_POWER_PERCENT, checked_power
from whitedwarf.engine.prefix import Prefixes, PrefixStats, PrefixStore
from whitedwarf.engine.prompt_check import check_bias, checked_prompt
from whitedwarf.engine.request import GenerateOptions
from whitedwarf.engine.scheduler import Limits
from whitedwarf.engine.session import Session, SessionSnapshot
from whitedwarf.errors import UsageError
from whitedwarf.model.base import Ids, Model

DEFAULT_CHUNK_TOKENS = 512  # on a CPU that reads 10 tokens a second, a cancel or a line of progress waits 50 s
DEFAULT_MAX_PARALLEL = 8
DEFAULT_MAX_WAITING = 256


class Engine:
    """Close it, or use it in a `with`; one that is dropped or still open at exit is closed by the interpreter.

    A chunk of `max_chunk_tokens` is how long a cancel may have to wait, and how long a prompt may hold up the streams
    beside it. Requests without a session share what they have in common: `prefix_budget_bytes` bounds what is kept in
    memory for that (0: nothing), `store` is asked next. At `power_percent` below 100 it works only that part of the
    time. `drafting` guesses tokens of answers, which are the same with and without, but for the time.
    """

    def __init__(
        self,
        model: Model,
        *,
        max_chunk_tokens: int = DEFAULT_CHUNK_TOKENS,
        max_parallel: int = DEFAULT_MAX_PARALLEL,
        max_waiting: int = DEFAULT_MAX_WAITING,
        prefix_budget_bytes: int = 0,
        store: PrefixStore | None = None,
        power_percent: int = FULL_POWER_PERCENT,
        drafting: Drafting | None = None,
    ) -> None:
        limits = Limits(
            max_rows=max_chunk_tokens + max_parallel, chunk_tokens=max_chunk_tokens, max_parallel=max_parallel
        )
        if prefix_budget_bytes < 0:
            raise UsageError(f"prefix_budget_bytes must be 0 or more, got {prefix_budget_bytes}")
        self._model = model
        self._chunk_tokens = max_chunk_tokens
        self._drafting = drafting
        self._prefixes = Prefixes(model, prefix_budget_bytes, max_parallel, store)
        self._keys = itertools.count(1)
        self._lanes = itertools.count(1)
        loop = Loop(model, limits, max_waiting, self._prefixes, drafting)
        loop.power_percent = checked_power(power_percent)
        thread = threading.Thread(target=loop.run, name="whitedwarf-engine", daemon=True)
        thread.start()
        self._loop = loop
        self._thread = thread
        # A daemon, because the interpreter joins other threads before anything of ours could tell this one to stop;
        # the finalizer runs at exit and when the engine is collected, so the thread never outlives either.
        self._finalizer = weakref.finalize(self, _close, loop, thread, Closing.CANCEL)

    @property
    def context_length(self) -> int:
        return self._model.config.context_length

    @property
    def vocab_size(self) -> int:
        return self._model.config.vocab_size

    @property
    def power_percent(self) -> int:
        """1 to 100; a change counts from the next batch on. UsageError for any other value."""
        return self._loop.power_percent

    @power_percent.setter
    def power_percent(self, percent: int) -> None:
        self._loop.power_percent = checked_power(percent)

    @property
    def is_paused(self) -> bool:
        """While it is, requests are taken but stand still after the pass they are in; a cancel or a close is heard."""
        return self._loop.is_paused

    @is_paused.setter
    def is_paused(self, is_paused: bool) -> None:
        self._loop.is_paused = is_paused

    @property
    def is_running(self) -> bool:
        """Whether it answers: not after `close`, nor after a bug that ended its thread."""
        return self._thread.is_alive()

    @property
    def prefix_stats(self) -> PrefixStats:
        """What is remembered of earlier prompts, and how often it served."""
        return self._prefixes.stats

    def new_session(self, saved: SessionSnapshot | None = None) -> Session:
        """A session, empty or as it was `saved`; requests that name it run one after another and reuse its live tokens,
        nothing else. A snapshot of another model, or of one steered otherwise, fails its first request or, worse,
        misleads it: whoever keeps snapshots has to keep them apart.
        """
        return Session(self._model, next(self._lanes), saved=saved)

    def snapshot(self, session: Session) -> SessionSnapshot:
        """What the session is now, from any thread; EngineBusyError while one of its requests waits or runs.

        It shares rows with the session, which may go on at once: to be kept for long, pack its state.
        """
        self._check_own(session)
        with self._loop.holding(session.lane):
            return session.snapshot()

    def change_model(self, model: Model) -> None:
        """Answer with this model from now on, such as the same one under another steering. Sessions made before belong
        to another engine then, and their snapshots to another model.

        EngineBusyError while a request waits or runs; UsageError where prefixes are remembered, which are of the model
        before, or when the model has another vocabulary or context.
        """
        if self._prefixes.is_on:
            raise UsageError(
                "this engine remembers what its model has read, so it keeps its model: make another engine"
            )
        if (model.config.vocab_size, model.config.context_length) != (self.vocab_size, self.context_length):
            raise UsageError("expected a model of the same vocabulary and context: make another engine for this one")
        prefixes = Prefixes(model, 0, 0)
        with self._loop.holding():
            self._loop.change_model(model, prefixes)
            self._model, self._prefixes = model, prefixes

    def submit(
        self,
        ids: Sequence[int] | Ids,
        options: GenerateOptions | None = None,
        *,
        session: Session | None = None,
        guide: Guide | None = None,
        chooser: Chooser | None = None,
    ) -> Generation:
        """Queue a request -> its handle, at once.

        `ids` is always the whole prompt, also when continuing a session. At most min(max_tokens, context - prompt - 1)
        tokens are generated; `guide`, of this answer alone, may end it earlier, and `chooser` take tokens in the
        sampler's stead. Raises before any work:
        ContextOverflowError, UsageError (empty prompt, unknown id, a session of another engine), EngineBusyError,
        EngineClosedError.
        """
        prompt = checked_prompt(ids, context_length=self.context_length, vocab_size=self.vocab_size)
        options = options or GenerateOptions()
        check_bias(options.sampling, self.vocab_size)
        budget = min(options.max_tokens, self.context_length - len(prompt) - 1)
        if session is not None:
            self._check_own(session)
        own = session or Session(self._model, next(self._lanes), self._prefixes)
        job = Job(next(self._keys), prompt, options, budget, own, self._chunk_tokens, guide, chooser, self._drafting)
        self._loop.submit(job)
        return job.generation

    def _check_own(self, session: Session) -> None:
        if not session.belongs_to(self._model):
            raise UsageError("the session belongs to another engine: make one with this engine's new_session()")

    def close(self, *, drain: bool = False) -> None:
        """Take no more requests, cancel those accepted (or, draining, let them end), and wait for the thread.

        May be called again, from several threads, and without `drain` while another call drains.
        """
        _close(self._loop, self._thread, Closing.DRAIN if drain else Closing.CANCEL)
        self._finalizer.detach()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _close(loop: Loop, thread: threading.Thread, closing: Closing) -> None:
    loop.close(closing)
    if threading.current_thread() is not thread:  # the collector may run in any thread
        thread.join()
