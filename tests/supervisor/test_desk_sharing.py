"""Several models at one desk: who gets the place, and that nobody is forgotten or thrown out."""

import pytest

from fakes.launches import managed
from fakes.rooms import guests, room, turns
from whitedwarf.supervisor.config import SwapPolicy
from whitedwarf.supervisor.failures import QueueFullError, StartFailedError, UnloadedError, WaitedTooLongError
from whitedwarf.supervisor.status import State

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


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


async def test_no_model_gives_its_place_up_for_one_that_cannot_start() -> None:
    async with room(managed("a"), managed("b", is_preloaded=True)) as at:
        await at.ask("a")
        at.launches.missing = {"b"}
        for _ in range(2):
            with pytest.raises(StartFailedError):
                await at.ask("b")
        assert (at.status("a").state, at.status("b").state) == (State.LOADED, State.FAILED)
        at.launches.missing.clear()
        with pytest.raises(StartFailedError):  # remembered for a while
            await at.ask("b")
        await at.desk.start("b")
        assert at.launches.starts == ["b", "a", "b"]


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
