"""The scripted engine's thread: takes requests in, gives each running one its next step, ends every one it accepted.

It keeps the promises of engine/loop.py without a model: order of arrival, a bounded queue, a cancel that is heard
within one step of `STEP_S`, also while a prompt is read, and an end for everybody.
"""

import itertools
import logging
import threading
import time
from collections import deque

from whitedwarf.engine.loop import Closing
from whitedwarf.engine.request import FinishReason, MissReason
from whitedwarf.engine.scripted_job import Received, ScriptedJob
from whitedwarf.engine.seen_prefixes import SeenPrefixes
from whitedwarf.errors import EngineBusyError, EngineClosedError, UsageError

log = logging.getLogger(__name__)

STEP_S = 0.02  # how long a cancel may have to wait, and how often a prompt's progress is told
MAX_RECEIVED = 100


class ScriptedLoop:
    """`run` is the thread's whole life; everything else may come from any thread."""

    def __init__(self, max_parallel: int, max_waiting: int) -> None:
        if max_parallel < 1:
            raise UsageError(f"expected at least 1 parallel request, got {max_parallel}")
        self._max_parallel = max_parallel
        self._max_waiting = max_waiting
        self._seen = SeenPrefixes()  # of the engine's thread
        self._changed = threading.Condition()  # guards everything below
        self._waiting: list[ScriptedJob] = []
        self._running: list[ScriptedJob] = []
        self._received: deque[ScriptedJob] = deque(maxlen=MAX_RECEIVED)
        self._closing: Closing | None = None
        self._stopped: EngineClosedError | None = None

    def submit(self, job: ScriptedJob) -> None:
        """Queue `job`; EngineBusyError when too many wait, EngineClosedError when nothing will run any more."""
        with self._changed:
            self._check_open()
            self._waiting.append(job)
            self._received.append(job)
            self._changed.notify()

    def received(self) -> tuple[Received, ...]:
        """The latest requests, oldest first."""
        with self._changed:
            return tuple(job.received for job in self._received)

    def last_received(self) -> Received | None:
        with self._changed:
            return self._received[-1].received if self._received else None

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
                for job in self._turn():
                    _step(job)
                self._rest()
            self._stop(EngineClosedError("the engine is closed"))
        except BaseException as error:
            log.critical("engine_thread_died", exc_info=True)
            self._stop(EngineClosedError(f"the engine stopped after an internal error ({error!r}): restart it"))

    def _check_open(self) -> None:
        if self._stopped is not None:
            raise EngineClosedError(str(self._stopped))
        if self._closing is not None:
            raise EngineClosedError("the engine is shutting down and takes no more requests")
        if len(self._waiting) >= self._max_waiting:
            raise EngineBusyError(f"{len(self._waiting)} requests are waiting already, the limit: try again later")

    def _has_work(self) -> bool:
        """Sleep until there is something to do; False when there never will be."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._running or self._closing)
            return bool(self._waiting or self._running)

    def _turn(self) -> list[ScriptedJob]:
        """Those that run now. Each gets one step, so that no stream starves beside another."""
        with self._changed:
            self._end_cancelled()
            self._start_waiting()
            return list(self._running)

    def _rest(self) -> None:
        """Until the next step is due; no longer than a cancel may wait, because nobody wakes us for one."""
        with self._changed:
            self._sweep()
            next_s = min((job.due_s for job in self._running), default=0.0)
            self._changed.wait_for(self._has_news, min(STEP_S, next_s - time.monotonic()))

    def _end_cancelled(self) -> None:
        for job in (*self._waiting, *self._running):
            if job.generation.is_cancelled:
                job.end(FinishReason.CANCELLED, time.monotonic())
        self._sweep()

    def _start_waiting(self) -> None:
        for job in self._startable():
            self._waiting.remove(job)
            seen = self._seen.seen(job.prompt, (other.live_ids for other in self._running))
            is_reused = min(seen.num_tokens, len(job.prompt) - 1) > 0
            job.start(seen, None if is_reused else self._miss_reason(), time.monotonic())
            self._running.append(job)

    def _miss_reason(self) -> MissReason:
        return MissReason.UNKNOWN_PREFIX if self._running or not self._seen.is_empty else MissReason.EMPTY

    def _startable(self) -> list[ScriptedJob]:
        """In order of arrival, one of each lane."""
        busy = {job.lane for job in self._running}
        first = {job.lane: job for job in reversed(self._waiting) if job.lane not in busy}
        ready = [job for job in self._waiting if first.get(job.lane) is job]
        return list(itertools.islice(ready, self._max_parallel - len(self._running)))

    def _sweep(self) -> None:
        """Let go of the ended; what they read and wrote stays known."""
        for job in (job for job in self._running if job.is_ended):
            self._seen.remember(job.live_ids)
        self._waiting = [job for job in self._waiting if not job.is_ended]
        self._running = [job for job in self._running if not job.is_ended]

    def _has_news(self) -> bool:
        return not self._running or bool(self._startable())

    def _stop(self, closed: EngineClosedError) -> None:
        with self._changed:
            self._stopped = closed
            for job in (*self._waiting, *self._running):
                job.end(FinishReason.ERROR, time.monotonic(), error=EngineClosedError(str(closed)))
            self._sweep()


def _step(job: ScriptedJob) -> None:
    now_s = time.monotonic()
    if job.due_s <= now_s:
        job.step(now_s, STEP_S)
