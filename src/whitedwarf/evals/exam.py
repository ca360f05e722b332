"""The exam: asks a target all cases, several at a time, and can be paused, led to another case, and ended.

Promises: whatever happens to an answer, its case has an end that says so and `on_end` hears of it once for every time
that the case was asked; after `run`, also a cancelled one, nothing is being asked. Lives on one event loop, without
locks.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import anyio

from whitedwarf.errors import WhitedwarfError
from whitedwarf.evals.answer import Answer, Piece
from whitedwarf.evals.case import Case
from whitedwarf.evals.grade import Expected, Grade, Status, grade
from whitedwarf.evals.order import Order
from whitedwarf.evals.target import Asking, NoMoreQuestionsError, Target

Clock = Callable[[], float]


class Phase(StrEnum):
    """What a case is at, in four letters."""

    PENDING = "PEND"
    READING = "FILL"
    ANSWERING = "RUN"
    SKIPPED = "SKIP"
    STOPPED = "STOP"
    PASSED = "PASS"
    FAILED = "FAIL"
    ERROR = "ERR"

    @property
    def is_live(self) -> bool:
        """Whether it is being asked now."""
        return self in (Phase.READING, Phase.ANSWERING)


_PHASES = {
    Status.PASSED: Phase.PASSED,
    Status.FAILED: Phase.FAILED,
    Status.SKIPPED: Phase.SKIPPED,
    Status.STOPPED: Phase.STOPPED,
    Status.SWITCHED: Phase.PENDING,
    Status.ERROR: Phase.ERROR,
}


@dataclass(frozen=True, slots=True)
class Ending:
    """How one asking of a case ended. `given` is what the answer was understood to say."""

    status: Status
    given: str = ""
    error: str = ""
    elapsed_s: float = 0.0


@dataclass(slots=True)
class Seat:
    """A case in the exam: where it is, and the latest answer to it. `number` counts from 1."""

    number: int
    case: Case
    phase: Phase = Phase.PENDING
    answer: Answer = field(default_factory=Answer)
    ending: Ending | None = None
    began_s: float = 0.0
    scope: anyio.CancelScope | None = None
    why_cancelled: Status = Status.STOPPED


def _first(error: BaseException) -> BaseException:
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


class Watcher:
    """Who looks on; does nothing by itself. Called on the event loop, and has to be quick."""

    def on_begin(self, seat: Seat) -> None:
        """This case is asked now."""

    def on_news(self, seat: Seat, piece: Piece | None) -> None:
        """More was said, or something else has changed."""

    def on_end(self, seat: Seat) -> None:
        """This asking has ended; `seat.ending` says how."""


class Exam:
    """`pause_s` is how long to rest after each case, so that a person can read."""

    def __init__(
        self,
        cases: Sequence[Case],
        target: Target,
        asking: Asking,
        watchers: Sequence[Watcher] = (),
        *,
        parallel: int = 1,
        pause_s: float = 0.0,
        clock: Clock = time.monotonic,
    ) -> None:
        self.seats = tuple(Seat(number, case) for number, case in enumerate(cases, 1))
        self.asking = asking
        self.target = target
        self.is_paused = False
        self.elapsed_s = 0.0
        self._order = Order(range(len(self.seats)))
        self._watchers = list(watchers)
        self._parallel = parallel
        self._pause_s = pause_s
        self._clock = clock
        self._unpaused = anyio.Event()
        self._unpaused.set()
        self._ending = anyio.Event()
        self._fatal: NoMoreQuestionsError | None = None

    def watch(self, watcher: Watcher) -> None:
        """One more looks on."""
        self._watchers.append(watcher)

    async def run(self) -> None:
        """Until every case has its end, or `stop`. NoMoreQuestionsError when the target answers no more; what a watcher
        raises ends the exam, too."""
        began_s = self._clock()
        try:
            async with anyio.create_task_group() as workers:
                for _ in range(min(self._parallel, len(self.seats))):
                    workers.start_soon(self._work)
        except BaseExceptionGroup as group:  # of tasks: whoever asked knows nothing of them
            raise _first(group) from group
        finally:
            self.elapsed_s = self._clock() - began_s
        if self._fatal is not None:
            raise self._fatal

    def put_back(self, number: int, ending: Ending, answer: Answer) -> None:
        """This case was asked in an earlier run and is not asked again."""
        seat = self.seats[number - 1]
        seat.ending, seat.answer, seat.phase = ending, answer, _PHASES[ending.status]
        self._order.remove(number - 1)

    def pause(self, is_paused: bool) -> None:
        """Ask nothing new, and let what is coming stand still where the target can."""
        self.is_paused = is_paused
        self.target.pause(is_paused)
        if is_paused:
            self._unpaused = anyio.Event()
        else:
            self._unpaused.set()

    def ask_next(self, number: int) -> bool:
        """Ask this case next, at once: where all places are taken, the case that began last is given up and comes
        right after it. Whether that can be done: not for one that is being asked or has been."""
        if not self._order.prefer(number - 1):
            return False
        live = [seat for seat in self.seats if seat.phase.is_live]
        if len(live) >= self._parallel:
            self._give_up(max(live, key=lambda seat: seat.began_s))
        self.pause(False)
        return True

    def stop(self) -> None:
        """End the exam: what is being asked is stopped."""
        self._ending.set()
        self._order.clear()
        for seat in self.seats:
            if seat.phase.is_live and seat.scope is not None:
                seat.scope.cancel()
        self.pause(False)

    def _give_up(self, seat: Seat) -> None:
        seat.why_cancelled = Status.SWITCHED
        if seat.scope is not None:
            seat.scope.cancel()

    async def _work(self) -> None:
        while not self._ending.is_set():
            await self._unpaused.wait()
            index = self._order.next()
            if index is None:
                return
            seat = self.seats[index]
            await self._ask(seat)
            if self._ending.is_set():
                return
            if seat.phase is Phase.PENDING:
                self._order.come_back(index)
            elif self._pause_s:
                with anyio.move_on_after(self._pause_s):
                    await self._ending.wait()

    async def _ask(self, seat: Seat) -> None:
        """One case to its end, which is told also when all of us are cancelled."""
        self._begin(seat)
        ending = Ending(Status.STOPPED)
        try:
            with anyio.CancelScope() as seat.scope:
                ending = await self._asked(seat)
            if seat.scope.cancelled_caught:
                ending = Ending(seat.why_cancelled)
        finally:
            self._end(seat, ending)

    async def _asked(self, seat: Seat) -> Ending:
        if why := self.target.why_skipped(seat.case):
            return Ending(Status.SKIPPED, error=why)
        try:
            await self.target.ask(seat.case, self.asking, seat.answer)
        except NoMoreQuestionsError as error:
            self._fatal = self._fatal or error
            self.stop()
            return Ending(Status.ERROR, error=str(error))
        except WhitedwarfError as error:
            return Ending(Status.ERROR, error=str(error))
        found: Grade = grade(seat.answer.text, Expected.of(seat.case), seat.answer.think_mode)
        return Ending(found.status, found.given)

    def _begin(self, seat: Seat) -> None:
        def watch(piece: Piece | None) -> None:
            if seat.answer.has_begun:
                seat.phase = Phase.ANSWERING
            for watcher in self._watchers:
                watcher.on_news(seat, piece)

        seat.answer, seat.ending = Answer(watch), None
        seat.phase, seat.began_s, seat.why_cancelled = Phase.READING, self._clock(), Status.STOPPED
        for watcher in self._watchers:
            watcher.on_begin(seat)

    def _end(self, seat: Seat, ending: Ending) -> None:
        elapsed_s = self._clock() - seat.began_s
        seat.ending = Ending(ending.status, ending.given, ending.error, elapsed_s)
        seat.phase = _PHASES[ending.status]
        seat.scope = None
        for watcher in self._watchers:
            watcher.on_end(seat)
