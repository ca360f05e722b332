"""Orders to the desk: unload, drain, another config, the end; and what it tells."""

import asyncio

import pytest

from fakes.launches import FakeClock, FakeLaunches, config_of, external, managed, start_failed
from fakes.rooms import begun, guests, room, turns
from whitedwarf.errors import UsageError
from whitedwarf.supervisor.desk import Desk
from whitedwarf.supervisor.failures import StartFailedError, UnloadedError
from whitedwarf.supervisor.status import EventKind, State

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


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


async def test_what_is_going_on_ends_with_the_order_to_stop_and_by_nothing_else() -> None:
    async with room(managed("a"), external("x")) as at:
        at.launches.ends_slowly = True
        for key in "ax":
            async with at.desk.visit(key) as visit, visit.until_stopped():
                await turns()
        with pytest.raises(TimeoutError):
            async with at.desk.visit("a") as visit, visit.until_stopped():
                raise TimeoutError
        async with at.desk.visit("a") as visit:
            order = await begun(at.desk.unload())
            with pytest.raises(UnloadedError, match="unloaded by order"):  # the process is still there
                async with visit.until_stopped():
                    await asyncio.Event().wait()
            assert not order.done()
        at.launches.last.may_go.set()
        await order


async def test_a_renewed_request_ends_with_the_process_that_it_came_to() -> None:
    async with room(managed("a")) as at, at.desk.visit("a") as visit:

        async def renewed() -> None:
            async with visit.until_stopped():
                at.launches.last.die()
                assert (await visit.renew()).pid == 2
                await asyncio.Event().wait()

        asking = await begun(renewed())
        assert not asking.done()
        await at.desk.unload()
        with pytest.raises(UnloadedError, match="unloaded by order"):
            await asking


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


async def test_a_start_that_fails_after_its_entry_changed_is_told_to_those_who_waited_before() -> None:
    async with room(managed("a")) as at:
        at.launches.holds = True
        at.launches.fails = [start_failed(is_permanent=True)]
        [early] = await guests(at, "a")
        assert await at.desk.reload(config_of(managed("a", arguments=("other",)))) == ("a",)
        [late] = await guests(at, "a")
        at.launches.let_load("a")
        assert isinstance(await early.error(), StartFailedError)
        await turns()
        assert late.is_in
        assert at.launches.last.model.arguments == ("other",)
        assert at.status("a").failure is None
        await late.leave()


async def test_another_config_keeps_what_goes_on_at_an_external_server() -> None:
    async with room(external("x"), external("y")) as at:
        x, y = await guests(at, "x", "y")
        await at.desk.reload(config_of(external("x"), external("y", "http://127.0.0.1:2")))
        assert [at.status(key).in_flight for key in "xy"] == [1, 0]
        await x.leave()
        await y.leave()
        assert [at.status(key).in_flight for key in "xy"] == [0, 0]


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

    launches = FakeLaunches()
    desk = Desk(config_of(managed("a")), launches, FakeClock(), settle)
    async with asyncio.timeout(10):
        running = asyncio.create_task(desk.run())
        async with desk.visit("a"):
            assert settled == []
        await desk.unload()
        launches.fails = [start_failed()]
        async with desk.visit("a"):
            assert settled == [1, 1]  # and after a start that may have failed for want of memory
        running.cancel()
        await asyncio.wait([running])


async def test_a_second_order_waits_for_the_end_of_a_load_as_the_first_does() -> None:
    async with room(managed("a")) as at:
        at.launches.holds = at.launches.ends_slowly = True
        await guests(at, "a")
        one, two = await begun(at.desk.unload("a")), await begun(at.desk.unload())
        [late] = await guests(at, "a")
        assert at.launches.most_alive == 1
        assert (one.done(), two.done()) == (False, False)
        at.launches.ends_slowly = at.launches.holds = False
        at.launches.alive[0].may_go.set()
        await turns()
        assert (one.result(), two.result()) == (("a",), ("a",))
        assert late.is_in
        assert at.launches.most_alive == 1
        await late.leave()


async def test_a_model_that_left_the_config_is_not_started_for_a_request_that_it_failed() -> None:
    """Also not where its process is gone by then: the others go on."""
    async with room(managed("a", group="g"), managed("b", group="g")) as at:
        for is_gone in (False, True):
            await at.desk.reload(config_of(managed("a", group="g"), managed("b", group="g")))
            [guest] = await guests(at, "a")
            await at.desk.reload(config_of(managed("b", group="g")))
            at.launches.last.die()
            if is_gone:
                await turns()
            assert guest.visit is not None
            with pytest.raises(UnloadedError, match="no longer in the config"):
                await guest.visit.renew()
            await guest.leave()
            await at.ask("b")
            await at.desk.unload()
        assert at.launches.starts == ["a", "b", "a", "b"]
