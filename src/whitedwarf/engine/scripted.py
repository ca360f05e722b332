"""An engine that answers from a script instead of a model, for people who test clients and for our own tests.

Whoever holds it cannot tell it from engine.Engine: the same events in the same order, the same refusals, cancel, queue
and close. Its answers come in the order of the script, whatever is asked, the last one again and again. It never sees
text: a script file is compiled to ids by server/script.py. Spec: demand.md 1 (SE).
"""

import itertools
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import numpy as np

from whitedwarf.engine.engine import DEFAULT_MAX_PARALLEL, DEFAULT_MAX_WAITING
from whitedwarf.engine.generation import Generation
from whitedwarf.engine.guide import Chooser, Guide
from whitedwarf.engine.loop import Closing
from whitedwarf.engine.prompt_check import checked_prompt
from whitedwarf.engine.request import GenerateOptions
from whitedwarf.engine.script import ScriptedAnswer
from whitedwarf.engine.scripted_job import Received, ScriptedJob
from whitedwarf.engine.scripted_loop import ScriptedLoop
from whitedwarf.engine.session import SessionSnapshot
from whitedwarf.errors import UsageError
from whitedwarf.model.base import Ids


@dataclass(frozen=True, slots=True)
class ScriptedSession:
    """Made by `ScriptedEngine.new_session`; requests that name it run one after another."""

    loop: ScriptedLoop
    lane: int


class ScriptedEngine:
    """Close it, or use it in a `with`; one that is dropped or still open at exit is closed by the interpreter.

    UsageError for a script without an answer, or with an id that the vocabulary does not have.
    """

    def __init__(
        self,
        answers: Sequence[ScriptedAnswer],
        *,
        context_length: int,
        vocab_size: int,
        max_parallel: int = DEFAULT_MAX_PARALLEL,
        max_waiting: int = DEFAULT_MAX_WAITING,
    ) -> None:
        _check_answers(answers, vocab_size)
        self.context_length = context_length
        self.vocab_size = vocab_size
        self._answers = tuple(answers)
        self._lanes = itertools.count(1)
        self._num_accepted = 0
        self._order = threading.Lock()  # which answer a request gets is the order in which requests are accepted
        loop = ScriptedLoop(max_parallel, max_waiting)
        thread = threading.Thread(target=loop.run, name="whitedwarf-engine", daemon=True)
        thread.start()
        self._loop = loop
        self._thread = thread
        self._finalizer = weakref.finalize(self, _close, loop, thread, Closing.CANCEL)  # as in engine.Engine

    def new_session(self, saved: SessionSnapshot | None = None) -> ScriptedSession:
        """A script has no states: what was saved is read again."""
        return ScriptedSession(self._loop, next(self._lanes))

    def snapshot(self, session: ScriptedSession) -> SessionSnapshot:
        """Nothing, for want of a state."""
        return SessionSnapshot(np.empty(0, np.int32))

    def submit(
        self,
        ids: Sequence[int] | Ids,
        options: GenerateOptions | None = None,
        *,
        session: ScriptedSession | None = None,
        guide: Guide | None = None,
        chooser: Chooser | None = None,
    ) -> Generation:
        """Queue a request -> its handle, at once. A refused one uses up no answer; errors as of Engine.submit.

        When `guide` ends the answer, the rest of it is dropped. Nothing is drawn, so `chooser` is never asked.
        """
        prompt = checked_prompt(ids, context_length=self.context_length, vocab_size=self.vocab_size)
        options = options or GenerateOptions()
        budget = min(options.max_tokens, self.context_length - len(prompt) - 1)
        session = session or self.new_session()
        if session.loop is not self._loop:
            raise UsageError("the session belongs to another engine: make one with this engine's new_session()")
        with self._order:
            answer = self._answers[min(self._num_accepted, len(self._answers) - 1)]
            job = ScriptedJob(self._num_accepted + 1, prompt, options, budget, session.lane, answer, guide)
            self._loop.submit(job)
            self._num_accepted += 1
        return job.generation

    @property
    def is_running(self) -> bool:
        """Whether it answers: not after `close`, nor after a bug that ended its thread."""
        return self._thread.is_alive()

    @property
    def received(self) -> tuple[Received, ...]:
        """The latest requests as they came, oldest first; scripted_loop.MAX_RECEIVED of them are kept."""
        return self._loop.received()

    @property
    def last_received(self) -> Received | None:
        """The request that was accepted last; None before the first."""
        return self._loop.last_received()

    def close(self, *, drain: bool = False) -> None:
        """Take no more requests, cancel those accepted (or, draining, let them end), and wait for the thread."""
        _close(self._loop, self._thread, Closing.DRAIN if drain else Closing.CANCEL)
        self._finalizer.detach()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _check_answers(answers: Sequence[ScriptedAnswer], vocab_size: int) -> None:
    if not answers:
        raise UsageError("the script is empty: expected at least one answer")
    for number, answer in enumerate(answers, 1):
        unknown = [token for piece in answer.pieces for token in piece if not 0 <= token < vocab_size]
        if unknown:
            raise UsageError(f"answer {number}: expected token ids from 0 to {vocab_size - 1}, got {unknown[0]}")


def _close(loop: ScriptedLoop, thread: threading.Thread, closing: Closing) -> None:
    loop.close(closing)
    if threading.current_thread() is not thread:  # the collector may run in any thread
        thread.join()
