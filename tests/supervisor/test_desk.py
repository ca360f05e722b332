"""The desk over fake launches and a fake clock: who is loaded, for whom, and that nobody waits for ever."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest

from fakes.launches import FakeClock, FakeLaunches, config_of, external, managed, start_failed
from whitedwarf.errors import UsageError
from whitedwarf.supervisor.config import ExternalModel, ManagedModel, SwapPolicy
from whitedwarf.supervisor.desk import Desk, Visit
from whitedwarf.supervisor.failures import QueueFullError, StartFailedError, UnloadedError, WaitedTooLongError
from whitedwarf.supervisor.status import EventKind, ModelStatus, State

pytestmark = pytest.mark.anyio

Result = TypeVar("Result")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Room:
    """A desk that runs, and what is around it."""

    def __init__(self, *models: ManagedModel | ExternalModel, **more: Any) -> None:
        self.clock = FakeClock()
        self.launches = FakeLaunches()
        self.desk = Desk(config_of(*models, **more), self.launches, self.clock)

    def status(self, key: str) -> ModelStatus:
        return next(one for one in self.desk.status() if one.key == key)

    def later(self, seconds: float) -> None:
        self.clock.pass_(seconds)
        self.desk.look()

    async def ask(self, key: str, **more: Any) -> int:
        """A request that is answered at once; the pid that did it."""
        async with self.desk.visit(key, **more) as visit:
            return visit.running.pid


@asynccontextmanager
async def room(*models: ManagedModel | ExternalModel, **more: Any) -> AsyncIterator[Room]:
    async with asyncio.timeout(10):
        made = Room(*models, **more)
        running = asyncio.create_task(made.desk.run())
        await turns()
        try:
            yield made
        finally:
            running.cancel()
            await asyncio.wait([running])
            assert made.launches.alive == []
            assert running.cancelled()


async def turns() -> None:
    """Let everything happen that needs no time."""
    for _ in range(50):
        await asyncio.sleep(0)


class Guest:
    """A request that stays until it is told to go."""

    def __init__(self, at: Room, key: str, **more: Any) -> None:
        self._leave = asyncio.Event()
        self.visit: Visit | None = None
        self.task = asyncio.create_task(self._stay(at, key, more))

    async def _stay(self, at: Room, key: str, more: dict[str, Any]) -> None:
        async with at.desk.visit(key, **more) as self.visit:
            await self._leave.wait()

    @property
    def is_in(self) -> bool:
        return self.visit is not None and not self.task.done()

    async def leave(self) -> None:
        self._leave.set()
        await self.task
        await turns()

    async def walk_away(self) -> None:
        """The client hangs up."""
        self.task.cancel()
        await asyncio.wait([self.task])
        await turns()

    async def error(self) -> BaseException | None:
        await asyncio.wait([self.task])
        return self.task.exception()


async def guests(at: Room, *keys: str, **more: Any) -> list[Guest]:
    found = [Guest(at, key, **more) for key in keys]
    await turns()
    return found


async def begun(work: Awaitable[Result]) -> "asyncio.Future[Result]":
    task = asyncio.ensure_future(work)
    await turns()
    return task


# Starting


async def test_twenty_first_requests_share_one_start() -> None:
    async with room(managed("a")) as at:
        pids = await asyncio.gather(*(at.ask("a") for _ in range(20)))
        assert set(pids) == {1}
        at.later(100)
        await turns()
        assert at.status("a").state is State.UNLOADED
        assert set(await asyncio.gather(*(at.ask("a") for _ in range(20)))) == {2}


async def test_requests_are_counted_from_their_beginning_to_their_end() -> None:
    async with room(managed("a")) as at:
        at.launches.holds = True
        one, two = await guests(at, "a", "a")
        status = at.status("a")
        assert (status.state, status.waiting, status.in_flight, status.pid) == (State.LOADING, 2, 0, None)
        assert status.loading_text == "reading the file"
        at.launches.let_load("a")
        await turns()
        status = at.status("a")
        assert (status.state, status.waiting, status.in_flight, status.pid) == (State.LOADED, 0, 2, 1)
        assert status.idle_s is None
        assert status.release_in_s is None
        await one.leave()
        await two.walk_away()
        assert at.status("a").in_flight == 0
        assert at.status("a").release_in_s == 100


async def test_a_failed_start_is_tried_once_more() -> None:
    async with room(managed("a")) as at:
        at.launches.fails = [start_failed()]
        assert await at.ask("a") == 2
        assert at.status("a").failure is None
        assert at.status("a").start_count == 2


async def test_two_failed_starts_are_told_to_all_who_wait_and_remembered() -> None:
    async with room(managed("a")) as at:
        at.launches.fails = [start_failed(), start_failed()]
        errors = await asyncio.gather(*(at.ask("a") for _ in range(3)), return_exceptions=True)
        assert [type(error) for error in errors] == [StartFailedError] * 3
        assert len({id(error) for error in errors}) == 3
        assert at.status("a").state is State.FAILED
        assert "no such tensor" in (at.status("a").failure or "")
        with pytest.raises(StartFailedError) as told:
            await at.ask("a")
        assert told.value.retry_after_s == 5
        assert told.value.log_tail == ("E no",)
        assert at.launches.starts == ["a", "a"]
        at.clock.pass_(5)
        assert await at.ask("a") == 3


async def test_a_start_that_cannot_succeed_is_not_tried_again() -> None:
    async with room(managed("a")) as at:
        at.launches.fails = [start_failed(is_permanent=True)]
        with pytest.raises(StartFailedError):
            await at.ask("a")
        assert at.launches.starts == ["a"]


async def test_a_start_that_took_all_its_time_is_not_tried_again_and_all_hear_of_it() -> None:
    async with room(managed("a", start_timeout_s=300)) as at:
        at.launches.fails = [start_failed()]
        at.launches.while_loading = lambda: at.clock.pass_(300)
        errors = await asyncio.gather(*(at.ask("a") for _ in range(3)), return_exceptions=True)
        assert [type(error) for error in errors] == [StartFailedError] * 3
        assert at.launches.starts == ["a"]
        at.launches.while_loading = lambda: None
        at.clock.pass_(5)
        assert await at.ask("a") == 2  # and it does not stick (PS3)


async def test_failures_in_a_row_are_remembered_longer_and_an_order_to_start_forgets_them() -> None:
    async with room(managed("a")) as at:
        held = []
        for _ in range(6):
            at.launches.fails = [start_failed(is_permanent=True)]
            with pytest.raises(StartFailedError):
                await at.ask("a")
            with pytest.raises(StartFailedError) as told:
                await at.ask("a")
            held.append(told.value.retry_after_s)
            at.clock.pass_(told.value.retry_after_s or 0)
        assert held == [5, 10, 20, 40, 60, 60]
        at.launches.fails = [start_failed(is_permanent=True)]
        with pytest.raises(StartFailedError):
            await at.ask("a")
        await at.desk.start("a")
        assert at.status("a").state is State.LOADED
        assert at.status("a").failure is None


async def test_a_bug_while_starting_is_an_error_of_this_model_alone() -> None:
    async with room(managed("a"), external("x")) as at:

        def fall() -> None:
            raise ZeroDivisionError

        at.launches.while_loading = fall
        with pytest.raises(StartFailedError, match="ZeroDivisionError"):
            await at.ask("a")
        at.launches.alive.clear()
        assert await at.ask("x") == 0


async def test_a_client_that_leaves_a_cold_start_does_not_stop_it() -> None:
    async with room(managed("a")) as at:
        at.launches.holds = True
        [guest] = await guests(at, "a")
        await guest.walk_away()
        assert at.status("a").state is State.LOADING
        at.launches.let_load("a")
        await turns()
        assert at.status("a").state is State.LOADED
        assert await at.ask("a") == 1


# Ends that nobody ordered


async def test_a_crash_before_the_first_byte_is_renewed_once() -> None:
    async with room(managed("a")) as at:
        async with at.desk.visit("a") as visit:
            at.launches.last.die()
            assert (await visit.renew()).pid == 2
            assert at.status("a").in_flight == 1
            at.launches.last.die()
            with pytest.raises(StartFailedError, match="twice"):
                await visit.renew()
        assert at.launches.starts == ["a", "a"]
        await turns()
        assert at.status("a").state is State.UNLOADED


async def test_a_lost_connection_to_a_model_that_lives_is_no_reason_to_start_another() -> None:
    async with room(managed("a")) as at, at.desk.visit("a") as visit:
        assert (await visit.renew()).pid == 1


async def test_a_crash_in_the_middle_unloads_and_the_next_request_starts_again() -> None:
    async with room(managed("a")) as at:
        [guest] = await guests(at, "a")
        at.launches.last.die()
        await turns()
        assert at.status("a").state is State.UNLOADED
        assert await at.ask("a") == 2
        await guest.leave()  # it ends late, and counts for the process that is gone
        assert at.status("a").in_flight == 0


async def test_a_process_that_exits_oddly_when_stopped_is_stopped_once() -> None:
    async with room(managed("a", idle_timeout_s=1)) as at:
        at.launches.exit_code = 143
        await at.ask("a")
        at.later(1)
        await turns()
        at.later(1)
        await turns()
        assert at.launches.last.stops == 1
        assert at.status("a").state is State.UNLOADED
        assert at.status("a").failure is None
        assert await at.ask("a") == 2


# Being idle


async def test_idle_time_counts_from_the_end_of_the_last_request() -> None:
    async with room(managed("a")) as at:
        [guest] = await guests(at, "a")
        at.later(10_000)
        assert at.status("a").state is State.LOADED
        await guest.leave()
        at.later(99)
        assert at.status("a").release_in_s == 1
        assert await at.ask("a") == 1
        at.later(99)
        for _ in range(100):
            assert at.desk.peek("a") is not None  # looking is no use
        at.later(1)
        await turns()
        assert at.status("a").state is State.UNLOADED
        assert at.desk.peek("a") is None


async def test_the_reaper_looks_by_itself() -> None:
    async with room(managed("a", idle_timeout_s=1), check_interval_s=0.01) as at:
        await at.ask("a")
        at.clock.pass_(1)
        while at.status("a").state is not State.UNLOADED:
            await asyncio.sleep(0.01)


async def test_a_model_without_an_idle_time_stays() -> None:
    async with room(managed("a", idle_timeout_s=0)) as at:
        await at.ask("a")
        at.later(1e9)
        assert at.status("a").state is State.LOADED
        assert at.status("a").release_in_s is None


async def test_a_request_in_the_moment_of_the_release_is_answered() -> None:
    async with room(managed("a")) as at:
        at.launches.ends_slowly = True
        await at.ask("a")
        at.clock.pass_(100)
        [early] = await guests(at, "a")
        at.desk.look()
        assert at.status("a").state is State.LOADED
        await early.leave()
        at.later(100)
        [late] = await guests(at, "a")
        assert at.status("a").state is State.STOPPING
        assert not late.is_in
        at.launches.last.may_go.set()
        await turns()
        assert late.is_in
        assert at.launches.starts == ["a", "a"]
        at.launches.last.may_go.set()
        await late.leave()


@pytest.mark.parametrize(("keep_s", "stays_s"), [(None, 100), (30.0, 30), (1000.0, 1000), (-1.0, 1e9)])
async def test_a_request_says_how_long_its_model_stays(keep_s: float | None, stays_s: float) -> None:
    async with room(managed("a")) as at:
        await at.ask("a", keep_alive_s=keep_s)
        at.later(stays_s - 0.5)
        assert at.status("a").state is State.LOADED
        at.later(1)
        await turns()
        assert at.status("a").state is (State.LOADED if stays_s == 1e9 else State.UNLOADED)


async def test_a_request_may_release_its_model_at_its_end_and_others_finish() -> None:
    async with room(managed("a")) as at:
        [other] = await guests(at, "a")
        await at.ask("a", keep_alive_s=0)
        await turns()
        assert at.status("a").state is State.LOADED
        await other.leave()
        assert at.status("a").release_in_s == 100  # the last one asked for nothing special
        await at.ask("a", keep_alive_s=0)
        await turns()
        assert at.status("a").state is State.UNLOADED


# Sharing


async def test_ping_pong_never_has_two_processes_and_loses_nothing() -> None:
    async with room(managed("a"), managed("b")) as at:
        keys = ["a", "b"] * 10
        waiting = await guests(at, *keys)
        order = []
        while waiting:
            inside = [guest for guest in waiting if guest.is_in]
            order.append(len(inside))
            assert inside
            for guest in inside:
                await guest.leave()
                waiting.remove(guest)
        assert at.launches.most_alive == 1
        assert at.launches.starts == ["a", "b"]  # collated
        assert order == [10, 10]


async def test_a_request_for_another_model_waits_until_the_first_has_answered() -> None:
    async with room(managed("a"), managed("b")) as at:
        a, b = await guests(at, "a", "b")
        assert (a.is_in, b.is_in) == (True, False)
        assert at.status("b").waiting == 1
        await a.leave()
        assert b.is_in
        assert at.launches.starts == ["a", "b"]
        await b.leave()


async def test_a_load_that_somebody_waits_for_is_not_thrown_away() -> None:
    async with room(managed("a"), managed("b")) as at:
        at.launches.holds = True
        a, b = await guests(at, "a", "b")
        assert at.launches.starts == ["a"]
        at.launches.let_load("a")
        at.launches.let_load("b")
        await turns()
        assert a.is_in
        await a.leave()
        assert b.is_in
        assert at.launches.cancelled == []
        await b.leave()


async def test_a_load_that_nobody_waits_for_gives_way() -> None:
    async with room(managed("a"), managed("b")) as at:
        at.launches.holds = True
        at.launches.let_load("b")
        a, b = await guests(at, "a", "b")
        await a.walk_away()
        assert at.launches.cancelled == ["a"]
        assert b.is_in
        assert at.launches.most_alive == 1
        await b.leave()


async def test_an_interrupting_request_cuts_the_other_model_off() -> None:
    async with room(managed("a"), managed("b"), swap_policy=SwapPolicy.INTERRUPT) as at:
        [a] = await guests(at, "a")
        [b] = await guests(at, "b")
        assert b.is_in
        assert at.launches.running[0].has_exited
        assert at.launches.most_alive == 1
        assert a.visit is not None
        with pytest.raises(UnloadedError, match="another model"):
            await a.visit.renew()
        await a.leave()
        await b.leave()


async def test_an_old_wait_ends_the_run_of_the_model_that_is_up() -> None:
    async with room(managed("a"), managed("b")) as at:
        [first] = await guests(at, "a")
        [b] = await guests(at, "b")
        [second] = await guests(at, "a")
        assert second.is_in
        at.clock.pass_(30)
        [third] = await guests(at, "a")
        assert not third.is_in
        await first.leave()
        await second.leave()
        assert b.is_in
        await b.leave()
        assert third.is_in
        assert at.launches.starts == ["a", "b", "a"]
        await third.leave()


async def test_whoever_waits_for_a_place_too_long_is_told() -> None:
    async with room(managed("a"), managed("b"), swap_max_wait_s=60) as at:
        a, b = await guests(at, "a", "b")
        at.later(59)
        assert not b.task.done()
        at.later(1)
        error = await b.error()
        assert isinstance(error, WaitedTooLongError)
        assert "'b'" in str(error)
        assert "a" in str(error)
        await a.leave()


async def test_a_full_queue_is_told_at_once() -> None:
    async with room(managed("a", max_waiting=2)) as at:
        at.launches.holds = True
        waiting = await guests(at, "a", "a")
        with pytest.raises(QueueFullError, match="2 requests wait for model 'a'"):
            await at.ask("a")
        at.launches.let_load("a")
        await turns()
        assert await at.ask("a") == 1
        for guest in waiting:
            await guest.leave()


async def test_models_that_fit_together_stay_and_the_one_unused_longest_goes_first() -> None:
    models = [managed(key, memory_bytes=4, idle_timeout_s=0) for key in "abc"]
    async with room(*models, memory_budget_bytes=10) as at:
        for key in ("a", "b", "a"):
            await at.ask(key)
            at.clock.pass_(1)
        assert len(at.launches.alive) == 2
        await at.ask("c")
        assert [running.model.key for running in at.launches.alive] == ["a", "c"]
        assert at.launches.most_alive == 2


async def test_a_pinned_model_is_not_stopped_for_others() -> None:
    models = [managed(key, memory_bytes=4, idle_timeout_s=0, is_pinned=key == "a") for key in "abc"]
    async with room(*models, memory_budget_bytes=8) as at:
        for key in ("a", "b", "c", "b"):
            await at.ask(key)
            at.clock.pass_(1)
        assert at.launches.starts == ["a", "b", "c", "b"]
        assert at.status("a").state is State.LOADED


async def test_a_model_beyond_the_budget_runs_alone_and_is_told_of() -> None:
    models = [managed("small", memory_bytes=2 << 30), managed("big", memory_bytes=20 << 30)]
    async with room(*models, memory_budget_bytes=10 << 30) as at:
        await at.ask("small")
        await at.ask("big")
        assert [running.model.key for running in at.launches.alive] == ["big"]
        assert "20.0 GiB" in at.status("big").warnings[0]
        assert at.status("small").warnings == ()


async def test_models_of_a_group_stay_together_without_a_budget() -> None:
    async with room(managed("a", group="g"), managed("b", group="g"), managed("c")) as at:
        await at.ask("a")
        await at.ask("b")
        assert len(at.launches.alive) == 2
        await at.ask("c")
        assert [running.model.key for running in at.launches.alive] == ["c"]


# Orders


async def test_unloading_returns_when_the_process_is_gone_and_the_next_request_works() -> None:
    async with room(managed("a"), managed("b")) as at:
        assert await at.desk.unload() == ()
        at.launches.ends_slowly = True
        [guest] = await guests(at, "a")
        one, two = await begun(at.desk.unload()), await begun(at.desk.unload("a"))
        assert (one.done(), two.done()) == (False, False)
        [next_one] = await guests(at, "a")
        at.launches.last.may_go.set()
        assert await one == ("a",)
        assert await two == ("a",)
        await turns()
        assert next_one.is_in
        assert at.launches.most_alive == 1
        assert guest.visit is not None
        with pytest.raises(UnloadedError):
            await guest.visit.renew()
        at.launches.last.may_go.set()
        await guest.leave()
        await next_one.leave()


async def test_unloading_while_it_loads_ends_the_load_and_tells_who_waited() -> None:
    async with room(managed("a")) as at:
        at.launches.holds = True
        [guest] = await guests(at, "a")
        assert await at.desk.unload("a") == ("a",)
        assert isinstance(await guest.error(), UnloadedError)
        assert at.launches.cancelled == ["a"]
        assert at.status("a").state is State.UNLOADED
        at.launches.holds = False
        assert await at.ask("a") == 2


async def test_draining_lets_requests_end_and_later_ones_wait_for_the_next_start() -> None:
    async with room(managed("a")) as at:
        [guest] = await guests(at, "a")
        order = await begun(at.desk.unload("a", drain=True))
        [late] = await guests(at, "a")
        assert (order.done(), late.is_in) == (False, False)
        await guest.leave()
        assert await order == ("a",)
        await turns()
        assert late.is_in
        assert at.launches.starts == ["a", "a"]
        await late.leave()


async def test_draining_a_load_serves_those_who_waited_for_it() -> None:
    async with room(managed("a")) as at:
        at.launches.holds = True
        [guest] = await guests(at, "a")
        order = await begun(at.desk.unload(drain=True))
        at.launches.let_load("a")
        await turns()
        assert guest.is_in
        await guest.leave()
        assert await order == ("a",)


async def test_models_to_preload_are_loaded_before_anybody_asks() -> None:
    async with room(managed("a", is_preloaded=True), managed("b", is_preloaded=True)) as at:
        await turns()
        assert at.status("a").state is State.LOADED
        assert at.launches.starts == ["a"]  # the other one has no place, and stops nobody


async def test_an_unknown_model_is_named_with_those_that_there_are() -> None:
    async with room(managed("a"), external("x")) as at:
        with pytest.raises(UsageError, match="no model 'z'; there are: a, x"):
            await at.ask("z")
        with pytest.raises(UsageError):
            await at.desk.unload("z")
        with pytest.raises(UsageError):
            at.desk.peek("z")


async def test_an_external_model_is_counted_and_never_stopped() -> None:
    async with room(managed("a"), external("x", "http://127.0.0.1:11434/v1")) as at:
        [guest] = await guests(at, "x")
        await at.ask("a")
        status = at.status("x")
        assert (status.kind, status.state, status.in_flight) == ("external", State.LOADED, 1)
        assert await at.desk.unload("x") == ()
        assert await at.desk.unload() == ("a",)
        assert guest.is_in
        assert guest.visit is not None
        assert guest.visit.running.address.prefix == "/v1"
        assert (await guest.visit.renew()).pid == 0
        assert at.desk.peek("x") is not None
        await guest.leave()
        assert at.status("x").in_flight == 0


# Another config


async def test_another_config_keeps_what_did_not_change() -> None:
    async with room(managed("a", group="g"), managed("b", group="g")) as at:
        a, b = await guests(at, "a", "b")
        other = managed("b", group="g", arguments=("-m", "/other.gguf"))
        quick = managed("a", group="g", idle_timeout_s=7, internal_port=9999)
        assert await at.desk.reload(config_of(quick, other, managed("c", group="g"))) == ("b",)
        [late] = await guests(at, "b")
        assert (b.is_in, late.is_in) == (True, False)
        assert at.status("b").in_flight == 1
        await b.leave()
        assert late.is_in
        assert late.visit is not None
        assert at.launches.last.model == other
        assert at.launches.starts == ["a", "b", "b"]
        await a.leave()
        assert at.status("a").release_in_s == 7
        await at.ask("c")
        await late.leave()


async def test_a_model_that_left_the_config_finishes_what_it_has() -> None:
    async with room(managed("a"), managed("b")) as at:
        [a] = await guests(at, "a")
        [b] = await guests(at, "b")
        assert await at.desk.reload(config_of(managed("b"))) == ("a",)
        with pytest.raises(UsageError):
            await at.ask("a")
        assert [one.key for one in at.desk.status()] == ["b", "a"]
        assert not b.is_in
        await a.leave()
        assert b.is_in
        assert [one.key for one in at.desk.status()] == ["b"]
        await b.leave()


async def test_another_config_forgets_failures() -> None:
    async with room(managed("a")) as at:
        at.launches.fails = [start_failed(is_permanent=True)]
        with pytest.raises(StartFailedError):
            await at.ask("a")
        await at.desk.reload(config_of(managed("a")))
        assert await at.ask("a") == 2


# What is told


async def test_what_happens_is_told_to_those_who_listen() -> None:
    async with room(managed("a")) as at:
        seen: list[EventKind] = []

        async def listen() -> None:
            async for event in at.desk.subscribe():
                assert event.key == "a"
                seen.append(event.kind)

        listening = await begun(listen())
        await at.ask("a")
        await at.desk.unload()
        await at.ask("a")
        at.launches.last.die()
        await turns()
        at.launches.fails = [start_failed(is_permanent=True)]
        with pytest.raises(StartFailedError):
            await at.ask("a")
    await listening
    begun_and_ended = [EventKind.LOADING, EventKind.LOADED, EventKind.STOPPING, EventKind.UNLOADED]
    assert seen == [*begun_and_ended, *begun_and_ended[:2], EventKind.CRASHED, EventKind.LOADING, EventKind.FAILED]


async def test_a_real_context_below_the_soft_limit_lowers_it_and_warns() -> None:
    async with room(managed("a", soft_context_limit=3072)) as at:
        assert (at.status("a").soft_limit, at.status("a").warnings) == (3072, ())
        at.launches.context_size = 2048
        await at.ask("a")
        status = at.status("a")
        assert (status.soft_limit, status.context_size) == (1536, 2048)
        assert status.warnings == (
            "the server gives a request 2048 tokens of context, not the 4096 of the config",
            "soft limit lowered from 3072 to 1536, because the context has 2048 tokens",
        )


async def test_the_end_stops_everything_and_tells_everybody() -> None:
    async with room(managed("a", group="g"), managed("b", group="g"), managed("c")) as at:
        at.launches.holds = True
        at.launches.let_load("a")
        inside, loading, queued = await guests(at, "a", "b", "c")
        assert inside.is_in
    assert isinstance(await loading.error(), UnloadedError)
    assert isinstance(await queued.error(), UnloadedError)
    await inside.leave()
    with pytest.raises(UnloadedError):
        await at.ask("a")


async def test_before_a_start_that_follows_an_end_memory_may_settle() -> None:
    settled = []

    async def settle() -> None:
        settled.append(1)

    desk = Desk(config_of(managed("a")), FakeLaunches(), FakeClock(), settle)
    async with asyncio.timeout(10):
        running = asyncio.create_task(desk.run())
        async with desk.visit("a"):
            assert settled == []
        await desk.unload()
        async with desk.visit("a"):
            assert settled == [1]
        running.cancel()
        await asyncio.wait([running])
