"""Anything may happen at a desk in any order, and yet: never more processes than the rules allow, counts that are
right, and an end for every visit (hypothesis' state machine)."""

import asyncio
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, precondition, rule

from fakes.launches import config_of, managed, start_failed
from fakes.rooms import Guest, Room, turns
from whitedwarf.errors import UsageError, WhitedwarfError
from whitedwarf.supervisor.config import ManagedModel, SwapPolicy
from whitedwarf.supervisor.failures import StartFailedError
from whitedwarf.supervisor.status import State

KEYS = "abcd"
SIZES = {"a": 4, "b": 3, "c": 6, "d": 20}


def models_of(has_budget: bool) -> list[ManagedModel]:
    traits: dict[str, dict[str, Any]] = {
        "a": {},
        "b": {"group": "g"},
        "c": {"group": "g", "max_waiting": 2},
        "d": {"is_pinned": has_budget},
    }
    return [managed(key, memory_bytes=SIZES[key], idle_timeout_s=50, **traits[key]) for key in KEYS]


class DeskMachine(RuleBasedStateMachine):
    visitors = Bundle("visitors")

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.guests: list[Guest] = []
        self.orders: list[asyncio.Task[Any]] = []

    @initialize(budget=st.sampled_from([None, 7, 10]), policy=st.sampled_from(SwapPolicy), slow=st.booleans())
    def open(self, budget: int | None, policy: SwapPolicy, slow: bool) -> None:
        self.budget = budget
        self.room = self._make(budget, policy)
        self.room.launches.holds = slow
        self.room.launches.ends_slowly = slow
        self.running = self._task(self.room.desk.run())
        self._go_on()

    def _make(self, budget: int | None, policy: SwapPolicy) -> Room:
        async def make() -> Room:
            return Room(
                *models_of(budget is not None), memory_budget_bytes=budget, swap_policy=policy, swap_max_wait_s=200
            )

        return self.loop.run_until_complete(make())

    def _task(self, work: Any) -> "asyncio.Task[Any]":
        return self.loop.create_task(work)

    def _go_on(self) -> None:
        self.loop.run_until_complete(turns())

    @rule(target=visitors, key=st.sampled_from(KEYS), keep_s=st.sampled_from([None, None, 0.0, -1.0, 10.0]))
    def come(self, key: str, keep_s: float | None) -> Guest:
        async def enter() -> Guest:
            return Guest(self.room, key, keep_alive_s=keep_s)

        guest = self.loop.run_until_complete(enter())
        self.guests.append(guest)
        self._go_on()
        return guest

    @rule(guest=consumes(visitors), is_hurry=st.booleans())
    def go(self, guest: Guest, is_hurry: bool) -> None:
        if guest.is_in and not is_hurry:
            self.loop.run_until_complete(guest.leave())
        else:
            self.loop.run_until_complete(guest.walk_away())

    @rule(key=st.sampled_from(KEYS))
    def finish_loading(self, key: str) -> None:
        if (event := self.room.launches.loading.pop(key, None)) is not None:
            event.set()
        self._go_on()

    @rule()
    def finish_stopping(self) -> None:
        for running in list(self.room.launches.alive):
            running.may_go.set()
        self._go_on()

    @rule(index=st.integers(0, 3))
    def crash(self, index: int) -> None:
        alive = [one for one in self.room.launches.running if not one.has_exited]
        if index < len(alive):
            alive[index].die()
        self._go_on()

    @rule(guest=visitors)
    def renew(self, guest: Guest) -> None:
        if guest.is_in and not guest.has_renewed:
            assert guest.visit is not None
            if guest.visit.running.has_exited:
                guest.renew()
        self._go_on()

    @rule(is_permanent=st.booleans())
    def fail_next(self, is_permanent: bool) -> None:
        self.room.launches.fails.append(start_failed(is_permanent))

    @rule(key=st.sampled_from([None, *KEYS]), drain=st.booleans())
    def unload(self, key: str | None, drain: bool) -> None:
        self.orders.append(self._task(self.room.desk.unload(key, drain=drain)))
        self._go_on()

    @rule(seconds=st.sampled_from([0.0, 1.0, 29.0, 31.0, 60.0, 200.0]))
    def wait(self, seconds: float) -> None:
        async def look() -> None:
            self.room.later(seconds)

        self.loop.run_until_complete(look())
        self._go_on()

    @rule(changed=st.sets(st.sampled_from(KEYS)), removed=st.sets(st.sampled_from("ab")))
    def reload(self, changed: set[str], removed: set[str]) -> None:
        models = [
            managed(model.key, memory_bytes=SIZES[model.key], group=model.group, arguments=(model.key * 2,))
            if model.key in changed
            else model
            for model in models_of(self.budget is not None)
            if model.key not in removed
        ]
        config = config_of(*models, memory_budget_bytes=self.budget, swap_max_wait_s=200)
        self.loop.run_until_complete(self.room.desk.reload(config))
        self._go_on()

    @invariant()
    @precondition(lambda self: hasattr(self, "room"))
    def processes_keep_to_the_rules(self) -> None:
        alive = [running.model for running in self.room.launches.alive]
        keys = [model.key for model in alive]
        assert len(keys) == len(set(keys)), "one model is there twice"
        loose = [model for model in alive if not model.is_pinned]
        if self.budget is None:
            assert len(loose) <= 1 or {model.group for model in loose} == {"g"}
        elif len(loose) > 1:
            assert sum(model.memory_bytes for model in alive) <= self.budget

    @invariant()
    @precondition(lambda self: hasattr(self, "room"))
    def counts_are_those_of_the_guests(self) -> None:
        for status in self.room.desk.status():
            assert status.in_flight >= 0
            assert status.waiting >= 0
            if status.state is State.LOADED:
                inside = [
                    guest
                    for guest in self.guests
                    if guest.is_in and guest.visit is not None and guest.visit.running.pid == status.pid
                ]
                assert status.in_flight == len(inside)

    @invariant()
    @precondition(lambda self: hasattr(self, "room"))
    def only_errors_that_are_told_end_a_visit(self) -> None:
        for guest in self.guests:
            if guest.task.done() and not guest.task.cancelled() and (error := guest.task.exception()) is not None:
                assert isinstance(error, WhitedwarfError)
                if isinstance(error, StartFailedError):
                    assert "no such tensor" in str(error)

    def teardown(self) -> None:
        if hasattr(self, "room"):
            self._everybody_is_served()
            self.running.cancel()
            self.finish_stopping()
            self.loop.run_until_complete(asyncio.wait([self.running], timeout=30))
            assert self.running.done()
            assert self.room.launches.alive == []
            self._go_on()
            assert all(guest.task.done() for guest in self.guests if not guest.is_in)
            assert all(order.done() for order in self.orders)
            refused = {type(error) for order in self.orders if (error := order.exception()) is not None}
            assert refused <= {UsageError}  # of a model that the config has not
            for guest in self.guests:
                self.loop.run_until_complete(guest.walk_away())
        self.loop.close()

    def _everybody_is_served(self) -> None:
        """Once nothing fails and all who are in leave, nobody goes on waiting."""
        self.room.launches.fails.clear()
        for _ in range(40):
            for key in KEYS:
                self.finish_loading(key)
            self.finish_stopping()
            for guest in self.guests:
                if guest.is_in:
                    self.loop.run_until_complete(guest.leave())
        assert all(guest.task.done() for guest in self.guests), self.room.desk.status()


TestDeskMachine = DeskMachine.TestCase
TestDeskMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
