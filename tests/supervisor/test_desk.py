"""The desk over fake launches and a fake clock: one start for all, what it remembers, what ends by itself."""

import asyncio
import inspect
import time

import pytest

from fakes.launches import external, managed, start_failed
from fakes.rooms import guests, room, turns
from whitedwarf.supervisor.desk import Desk
from whitedwarf.supervisor.failures import StartFailedError
from whitedwarf.supervisor.status import State

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


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


async def test_a_renewal_after_a_long_time_waits_for_its_place_anew() -> None:
    async with room(managed("a"), swap_max_wait_s=60) as at, at.desk.visit("a") as visit:
        at.later(1000)
        at.launches.last.die()
        assert (await visit.renew()).pid == 2


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


def test_no_clock_on_a_wall_is_asked() -> None:
    assert inspect.signature(Desk).parameters["clock"].default is time.monotonic


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
