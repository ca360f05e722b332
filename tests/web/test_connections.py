"""Which connection goes when there are too many, and how many there may be."""

import asyncio
import resource
from collections.abc import Callable
from typing import Any, cast

import pytest

from whitedwarf.web.connections import MAX_CONNECTIONS, Timer, make_room, most_connections


class Wire:
    """A transport that only remembers its end."""

    def __init__(self) -> None:
        self.is_over = False

    def abort(self) -> None:
        self.is_over = True

    def is_closing(self) -> bool:
        return self.is_over


class One:
    """A connection."""

    def __init__(self, since_s: float, *, is_owed: bool = False) -> None:
        self.since_s = since_s
        self.is_owed_an_answer = is_owed
        self.transport = cast("asyncio.Transport", Wire())

    @property
    def is_there(self) -> bool:
        return not self.transport.is_closing()


def test_the_oldest_that_is_owed_nothing_makes_room() -> None:
    working, old, new = One(1, is_owed=True), One(2), One(3)
    make_room([working, old, new], 2)
    assert [one.is_there for one in (working, old, new)] == [True, False, True]


def test_where_all_are_owed_an_answer_nobody_goes() -> None:
    working = [One(since_s, is_owed=True) for since_s in range(3)]
    make_room(working, 2)
    assert all(one.is_there for one in working)


def test_those_that_close_already_do_not_count() -> None:
    ended, old, new = One(0), One(1), One(2)
    ended.transport.abort()
    make_room([ended, old, new], 2)
    assert old.is_there


@pytest.mark.parametrize(
    ("limit", "most"), [(resource.RLIM_INFINITY, MAX_CONNECTIONS), (100_000, MAX_CONNECTIONS), (240, 100), (10, 1)]
)
def test_files_bound_connections(monkeypatch: pytest.MonkeyPatch, limit: int, most: int) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (limit, limit))
    assert most_connections() == most


class Loop:
    """Calls when it is told to."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], object]] = []

    def call_later(self, seconds: float, call: Callable[[], object]) -> Any:
        self.calls.append(call)
        return self

    def cancel(self) -> None:
        self.calls.clear()


def test_a_timer_calls_once_and_may_be_stopped_and_started_again() -> None:
    loop, called = Loop(), []
    timer = Timer(lambda: called.append(1))
    for _ in range(2):
        timer.start(cast("asyncio.AbstractEventLoop", loop), 1.0)
    assert len(loop.calls) == 1
    timer.stop()
    assert loop.calls == []
    timer.start(cast("asyncio.AbstractEventLoop", loop), 1.0)
    loop.calls.pop()()
    timer.start(cast("asyncio.AbstractEventLoop", loop), 1.0)
    assert (called, len(loop.calls)) == ([1], 1)
