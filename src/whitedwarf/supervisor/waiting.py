"""Requests that wait for a model: each gets a stay at it, or the error that ends its waiting, once.

Promises: a request whose client left meanwhile takes nothing; numbers grow in the order of arrival. Does not decide
whose turn it is.
"""

import asyncio
from collections.abc import Container

from whitedwarf.errors import WhitedwarfError
from whitedwarf.supervisor.residence import Stay
from whitedwarf.supervisor.schedule import Ticket


class Waiter:
    """One request. `future` has what became of it; it is cancelled with the task that awaits it."""

    __slots__ = ("future", "ticket")

    def __init__(self, ticket: Ticket) -> None:
        self.ticket = ticket
        self.future: asyncio.Future[Stay | WhitedwarfError] = asyncio.get_running_loop().create_future()

    def admitted_to(self) -> Stay | None:
        """The stay that it was given, if it was."""
        outcome = self.future.result() if self.future.done() and not self.future.cancelled() else None
        return outcome if isinstance(outcome, Stay) else None


class Waiters:
    """All that wait at one desk, in the order of their arrival."""

    def __init__(self) -> None:
        self.last_number = 0
        self._waiters: dict[int, Waiter] = {}

    def __bool__(self) -> bool:
        return bool(self._waiters)

    @property
    def tickets(self) -> tuple[Ticket, ...]:
        """Of those whose clients are still there."""
        return tuple(waiter.ticket for waiter in self._waiters.values() if not waiter.future.done())

    def count(self, key: str) -> int:
        """How many wait for this model."""
        return sum(waiter.ticket.key == key for waiter in self._waiters.values())

    def join(self, key: str, arrived_s: float, *, is_polite: bool = False) -> Waiter:
        """Another one, at the end."""
        self.last_number += 1
        waiter = Waiter(Ticket(self.last_number, key, arrived_s, is_polite))
        self._waiters[self.last_number] = waiter
        return waiter

    def remove(self, waiter: Waiter) -> None:
        """Its client left."""
        self._waiters.pop(waiter.ticket.number, None)

    def ticket(self, number: int) -> Ticket:
        """Of the one with this number."""
        return self._waiters[number].ticket

    def answer(self, number: int, outcome: Stay | WhitedwarfError) -> None:
        """End the waiting of the one with this number."""
        waiter = self._waiters.pop(number)
        if not waiter.future.done():
            waiter.future.set_result(outcome)

    def numbers(self, keys: Container[str]) -> list[int]:
        """Of all who wait for one of these models."""
        return [number for number, waiter in self._waiters.items() if waiter.ticket.key in keys]
