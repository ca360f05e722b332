"""The one owner of what is loaded: every request comes here for a model that is up, and says here when it has ended.

Promises: a model is started once for all who wait for it; a process is stopped only here, and a place is given to the
next only when its process is gone; every visit ends in an admission or in one error; closing leaves nothing behind.
Does not know HTTP, nor how processes are started (`Launch`), nor whose turn it is (schedule.py). All of it runs in
one event loop, and nothing waits between seeing a state and acting on it.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Iterable
from contextlib import asynccontextmanager

from whitedwarf.errors import UsageError, WhitedwarfError
from whitedwarf.supervisor import policy
from whitedwarf.supervisor.config import ExternalModel, ManagedModel, SupervisorConfig
from whitedwarf.supervisor.failures import QueueFullError, StartFailedError, UnloadedError, WaitedTooLongError
from whitedwarf.supervisor.feed import Feed
from whitedwarf.supervisor.life import Life
from whitedwarf.supervisor.limits import SoftLimit
from whitedwarf.supervisor.overview import external_status, managed_status
from whitedwarf.supervisor.residence import External, Resident, Stay, again, is_same_process, needs_of
from whitedwarf.supervisor.running import Running
from whitedwarf.supervisor.schedule import (
    Admit,
    Needs,
    Refuse,
    Rules,
    Situation,
    Stage,
    Start,
    Step,
    Stop,
    Ticket,
    next_step,
)
from whitedwarf.supervisor.status import Event, EventKind, ModelStatus
from whitedwarf.supervisor.visits import ExternalVisit, Visit
from whitedwarf.supervisor.waiting import Waiter, Waiters

log = logging.getLogger(__name__)

Clock = Callable[[], float]
Launch = Callable[[ManagedModel, Callable[[str], None]], Awaitable[Running]]
"""Starts a model, telling how far it is; returns when it answers. StartFailedError leaves nothing behind. Cancelled, it
stops what it started and waits until that is gone."""


async def _no_wait() -> None:
    return


def _see_nothing(model: ManagedModel) -> None:
    return


class Desk:
    """All models of a config. Nothing starts before run() does; visits that come earlier wait for it.

    `settle` is awaited before a start that follows the end of a process (memory.settled). `foresee` raises the
    StartFailedError of a model that cannot start: no other gives its place up for that.
    """

    def __init__(
        self,
        config: SupervisorConfig,
        launch: Launch,
        clock: Clock = time.monotonic,
        settle: Callable[[], Awaitable[None]] = _no_wait,
        foresee: Callable[[ManagedModel], None] = _see_nothing,
    ) -> None:
        self.config = config
        self._launch = launch
        self._clock = clock
        self._settle = settle
        self._foresee = foresee
        self._feed = Feed()
        self._residents = {model.key: self._resident_of(model) for model in config.managed}
        self._externals: dict[str, External] = {}
        self._externals = self._externals_of(config)
        self._waiters = Waiters()
        self._tasks: asyncio.TaskGroup | None = None
        self._is_closed = False
        self._is_unsettled = False

    # What requests do

    @asynccontextmanager
    async def visit(self, key: str, *, keep_alive_s: float | None = None) -> AsyncIterator[Visit]:
        """Wait for the model and keep it until the end of the block. External ones are always there.

        `keep_alive_s`: how long it stays loaded after this request; 0 not at all, negative for ever, None as
        configured. Raises StartFailedError, QueueFullError, WaitedTooLongError, UnloadedError; UsageError for a key
        that is none.
        """
        if (external := self._externals.get(key)) is not None:
            external.in_flight += 1
            try:
                yield ExternalVisit(external)
            finally:
                external.in_flight -= 1
            return
        resident = self._managed(key)
        stay = await self._admission(resident)
        visit = Visit(stay, self._leave, lambda: self._admission(resident, is_renewal=True))
        try:
            yield visit
        finally:
            visit.end(keep_alive_s)

    def peek(self, key: str) -> Running | None:
        """The model if it is loaded, without waking it and without touching its idle clock."""
        if (external := self._externals.get(key)) is not None:
            return external
        stay = self._managed(key).stay
        return stay.running if stay is not None and stay.stage is Stage.LOADED else None

    def limit(self, key: str) -> SoftLimit:
        """The soft limit of a model: `await desk.limit(key).check(visit.running, target, body)`."""
        return (self._externals.get(key) or self._managed(key)).limit

    # What orders do

    async def start(self, key: str) -> None:
        """Load the model, whatever failed before; the errors of visit()."""
        if key in self._externals:
            return
        self._managed(key).forget_failure()
        async with self.visit(key):
            return

    async def unload(self, key: str | None = None, *, drain: bool = False) -> tuple[str, ...]:
        """Stop a model, or all: at once, or with `drain` after the requests it has. Returns which, when they are gone.

        Who waits for it gets UnloadedError, unless it drains. A request that comes meanwhile starts it again.
        """
        if key in self._externals:
            return ()
        residents = list(self._residents.values()) if key is None else [self._managed(key)]
        stays = [resident.stay for resident in residents if resident.stay is not None]
        for stay in stays:
            if drain:
                stay.close(self._waiters.last_number, "unloaded by order")
            else:
                self._stop(stay, "unloaded by order")
        if not drain:
            self._turn_away({resident.model.key for resident in residents}, "it was unloaded by order")
        self._pump()
        for stay in stays:
            await stay.gone.wait()
        return tuple(stay.model.key for stay in stays)

    async def reload(self, config: SupervisorConfig) -> tuple[str, ...]:
        """Take another config. Loaded models whose process would be the same stay; the others finish what they have
        and go. Returns the keys of those that go, without waiting for it."""
        models = {model.key: model for model in config.managed}
        going = [key for key, resident in self._residents.items() if self._change(resident, models.get(key))]
        new = [model for model in config.managed if model.key not in self._residents]
        self._residents |= {model.key: self._resident_of(model) for model in new}
        self._externals = self._externals_of(config)
        self.config = config
        leaving = ", ".join(going) or "none"
        self._tell(EventKind.RELOADED, "", f"models in the config: {len(config.models)}; on their way out: {leaving}")
        self._preload(new)
        self._pump()
        return tuple(going)

    def _change(self, resident: Resident, model: ManagedModel | None) -> bool:
        """Give it another entry, or none; whether its process goes."""
        stay, key = resident.stay, resident.model.key
        resident.is_removed = model is None
        if model is None:
            self._turn_away({key}, "it is no longer in the config")
        else:
            resident.change(model)
        if stay is None or (model is not None and is_same_process(stay.model, model)):
            return False
        stay.close(self._waiters.last_number, "its entry in the config changed")
        return True

    # What is told

    def status(self) -> tuple[ModelStatus, ...]:
        """All models, in the order of the config; then those that are on their way out of it."""
        told = [self._status_of(model.key) for model in self.config.models]
        removed = [key for key, resident in self._residents.items() if resident.is_removed and resident.stay]
        now_s = self._clock()
        return (*told, *(managed_status(self._residents[key], 0, now_s, None) for key in removed))

    def _status_of(self, key: str) -> ModelStatus:
        if (external := self._externals.get(key)) is not None:
            return external_status(external)
        return managed_status(
            self._residents[key], self._waiters.count(key), self._clock(), self.config.memory_budget_bytes
        )

    def subscribe(self) -> AsyncIterator[Event]:
        """What happens from now on. Whoever reads too slowly loses the oldest; ends when the desk closes."""
        return self._feed.listen()

    def _tell(self, kind: EventKind, key: str, text: str) -> None:
        level = logging.WARNING if kind in (EventKind.FAILED, EventKind.CRASHED) else logging.INFO
        log.log(level, "%s", " ".join(filter(None, (kind.value, key, text))))
        self._feed.tell(Event(kind, key, self._clock(), text))

    # What time does

    async def run(self) -> None:
        """Preload, and let go of what is idle, until cancelled; then everything is stopped and gone."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                self._preload(self.config.managed)
                self._pump()
                while True:
                    await asyncio.sleep(self.config.check_interval_s)
                    self.look()
            finally:
                await self._close()

    def look(self) -> None:
        """What is due by the clock: idle models go, and whoever has waited long enough gets their turn."""
        now_s = self._clock()
        for resident in self._residents.values():
            if resident.stay is not None and resident.stay.release_in_s(now_s) == 0:
                self._stop(resident.stay, "idle")
        self._pump()

    def hurry(self) -> None:
        """Kill every process that is up, without waiting: somebody asks a second time to end."""
        for resident in self._residents.values():
            if resident.stay is not None and resident.stay.running is not None:
                resident.stay.running.kill()

    async def _close(self) -> None:
        self._is_closed = True
        self._turn_away(self._residents, "the supervisor ends")
        stays = [resident.stay for resident in self._residents.values() if resident.stay is not None]
        for stay in stays:
            self._stop(stay, "the supervisor ends")
        for stay in stays:
            await stay.gone.wait()
        self._feed.close()

    def _preload(self, models: Iterable[ManagedModel]) -> None:
        for model in models:
            if model.is_preloaded and self._tasks is not None:
                self._tasks.create_task(self._preload_one(self._managed(model.key)))

    async def _preload_one(self, resident: Resident) -> None:
        try:
            stay = await self._admission(resident, is_polite=True)
        except WhitedwarfError as error:
            log.warning("model %s is not preloaded: %s", resident.model.key, error)
        else:
            self._leave(stay, None)

    # Waiting, and who is next

    async def _admission(self, resident: Resident, *, is_renewal: bool = False, is_polite: bool = False) -> Stay:
        stay = resident.stay
        if stay is not None and not self._waiters and stay.last_ticket is None and stay.stage is Stage.LOADED:
            stay.enter()
            return stay
        self._refuse_at_once(resident, is_renewal)
        waiter = self._waiters.join(resident.model.key, self._clock(), is_polite=is_polite)
        self._pump()
        try:
            outcome = await waiter.future
        except asyncio.CancelledError:
            self._abandon(waiter)
            raise
        if isinstance(outcome, WhitedwarfError):
            raise outcome
        return outcome

    def _refuse_at_once(self, resident: Resident, is_renewal: bool) -> None:
        model = resident.model
        if self._is_closed:
            raise UnloadedError("the supervisor ends")
        if resident.is_removed:  # meanwhile: a renewal knows the model from before
            raise UnloadedError(f"model {model.key!r} is no longer in the config")
        if (failure := resident.held_failure(self._clock())) is not None:
            raise failure
        if resident.stay is None:
            self._refuse_what_cannot_start(resident)
        waiting = self._waiters.count(model.key)
        if waiting >= model.max_waiting and not is_renewal:
            raise QueueFullError(f"{waiting} requests wait for model {model.key!r}, no more may; try again later")

    def _refuse_what_cannot_start(self, resident: Resident) -> None:
        try:
            self._foresee(resident.model)
        except StartFailedError as error:
            self._tell(EventKind.FAILED, resident.model.key, str(error))
            resident.remember_failure(error, self._clock())
            raise

    def _abandon(self, waiter: Waiter) -> None:
        """Its client left, perhaps in the moment in which it was admitted."""
        self._waiters.remove(waiter)
        if (stay := waiter.admitted_to()) is not None:
            self._leave(stay, None)
        self._pump()

    def _leave(self, stay: Stay, keep_alive_s: float | None) -> None:
        stay.leave(self._clock(), keep_alive_s)
        if self._waiters or stay.last_ticket is not None:
            self._pump()
        if stay.release_in_s(self._clock()) == 0:
            self._stop(stay, "released after its last request")

    def _turn_away(self, keys: Container[str], why: str) -> None:
        for number in self._waiters.numbers(keys):
            key = self._waiters.ticket(number).key
            self._waiters.answer(number, UnloadedError(f"model {key!r} did not get to this request: {why}"))

    def _pump(self) -> None:
        """Do what is to be done until only time or another event changes anything."""
        if self._tasks is None or self._is_closed:
            return
        while (step := next_step(self._situation())) is not None:
            self._do(step)

    def _situation(self) -> Situation:
        tickets = self._waiters.tickets
        return Situation(
            models={key: self._needs(self._residents[key]) for key in {ticket.key for ticket in tickets}},
            places=tuple(one.stay.place for one in self._residents.values() if one.stay is not None),
            tickets=tickets,
            rules=Rules(
                budget_bytes=self.config.memory_budget_bytes,
                swap_policy=self.config.swap_policy,
                max_wait_s=self.config.swap_max_wait_s,
                age_limit_s=policy.AGE_LIMIT_S,
            ),
            now_s=self._clock(),
        )

    def _needs(self, resident: Resident) -> Needs:
        has_budget = self.config.memory_budget_bytes is not None
        return needs_of(resident.model, resident.memory_bytes() if has_budget else 0)

    def _do(self, step: Step) -> None:
        match step:
            case Admit(number):
                stay = self._residents[self._waiters.ticket(number).key].stay
                assert stay is not None
                stay.enter()
                self._waiters.answer(number, stay)
            case Refuse(number):
                self._waiters.answer(number, self._no_place(self._waiters.ticket(number)))
            case Start(key):
                self._begin(self._residents[key])
            case Stop(key):
                stay = self._residents[key].stay
                assert stay is not None
                self._stop(stay, stay.why_closing or "another model needs its place")

    def _no_place(self, ticket: Ticket) -> WaitedTooLongError:
        waited_s = self._clock() - ticket.arrived_s
        holders = ", ".join(resident.model.key for resident in self._residents.values() if resident.stay is not None)
        return WaitedTooLongError(f"no place for model {ticket.key!r} after {waited_s:.0f} s: in use by {holders}")

    # Lives of processes

    def _begin(self, resident: Resident) -> None:
        assert self._tasks is not None
        resident.stay = stay = Stay(resident.model, resident.memory_bytes(), self._clock())
        self._tell(EventKind.LOADING, stay.model.key, "is started")
        life = Life(resident, stay, self._launch, self._clock, self._settle_before_start, self._tasks)
        self._tasks.create_task(self._live(resident, stay, life))

    async def _live(self, resident: Resident, stay: Stay, life: Life) -> None:
        """Owns the process from the decision to start it until it is gone."""
        try:
            outcome = await life.bring_up()
            if isinstance(outcome, StartFailedError):
                self._fail(resident, stay, outcome)
            elif outcome is not None:
                stay.arrive(outcome, self._clock())
                self._welcome(resident, stay)
                await life.see_out(outcome)
        finally:
            self._clear(resident, stay)

    def _welcome(self, resident: Resident, stay: Stay) -> None:
        if stay.stage is not Stage.LOADED:
            return
        assert stay.running is not None
        resident.forget_failure()
        resident.real_context = stay.running.context_size
        self._tell(EventKind.LOADED, stay.model.key, f"answers after {resident.last_start_s or 0:.1f} s")
        self._pump()

    def _fail(self, resident: Resident, stay: Stay, error: StartFailedError) -> None:
        self._tell(EventKind.FAILED, stay.model.key, str(error))
        if stay.model is not resident.model:  # it has another entry by now, which those who came later wait for
            for number in self._waiters.numbers({stay.model.key}):
                if stay.place.takes(self._waiters.ticket(number)):
                    self._waiters.answer(number, again(error, None))
            return
        now_s = self._clock()
        resident.remember_failure(error, now_s)
        for number in self._waiters.numbers({stay.model.key}):
            self._waiters.answer(number, again(error, resident.held_until_s - now_s))

    def _stop(self, stay: Stay, why: str) -> None:
        if not stay.end.is_set():
            self._tell(EventKind.STOPPING, stay.model.key, why)
        stay.stop(why)

    def _clear(self, resident: Resident, stay: Stay) -> None:
        self._is_unsettled = True
        resident.stay = None
        stay.gone.set()
        if stay.running is not None and stay.why_stopped is None:
            self._tell(EventKind.CRASHED, stay.model.key, "its process ended by itself")
        elif stay.running is not None or stay.why_stopped is not None:
            self._tell(EventKind.UNLOADED, stay.model.key, "its process is gone")
        if resident.is_removed:
            self._residents.pop(stay.model.key, None)
        self._pump()

    async def _settle_before_start(self, *, after_failure: bool) -> None:
        if self._is_unsettled or after_failure:
            self._is_unsettled = False
            await self._settle()

    # Who is there

    def _managed(self, key: str) -> Resident:
        resident = self._residents.get(key)
        if resident is None or resident.is_removed:
            known = ", ".join(model.key for model in self.config.models)
            raise UsageError(f"there is no model {key!r}; there are: {known}")
        return resident

    def _resident_of(self, model: ManagedModel) -> Resident:
        return Resident(model, SoftLimit(model, self._clock))

    def _externals_of(self, config: SupervisorConfig) -> dict[str, External]:
        """Those that did not change stay what they are, with what is in flight and their limits."""
        before = {external.model: external for external in self._externals.values()}
        models = [model for model in config.models if isinstance(model, ExternalModel)]
        return {model.key: before.get(model) or External(model, SoftLimit(model, self._clock)) for model in models}
