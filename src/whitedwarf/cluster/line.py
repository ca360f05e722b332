"""A coordinator's traffic with its stages: work under way, what waits to be told, and the route that carries both.

Promises: work goes out in order and its results are taken in order; what failed is noted in the states that it was of,
whoever happens to wait; after a broken route every state of before is lost, and knows it. Whoever uses it holds `lock`;
only `order`, and what drops sessions, may come from anywhere.
"""

import itertools
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from whitedwarf.cluster.boundary import Bits, Bytes
from whitedwarf.cluster.work import (
    Done,
    HashMismatch,
    IsCancelled,
    Route,
    RouteBroken,
    Routes,
    SpanWork,
    StageError,
    StateOrder,
    Work,
)
from whitedwarf.errors import Cancelled, ClusterError
from whitedwarf.model.steering import Steering

LISTEN_S = 0.05  # how long a cancel may have to wait
FEWEST_UNDER_WAY, MOST_UNDER_WAY = 2, 8
NO_GENERATION = -1


@dataclass(eq=False, slots=True, weakref_slot=True)
class Remote:
    """A session or a snapshot on all stages of one generation. Nobody holding it any longer, it is dropped there."""

    number: int
    generation: int


class Loser(Protocol):
    """A state, which may lose what the stages hold of it."""

    def lose(self, remote: Remote, failure: StageError | None) -> None: ...
    def has_passed(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Traveller:
    """A state on its way, and the session that it had when it set out."""

    state: Loser
    remote: Remote


@dataclass(frozen=True, slots=True, eq=False)
class Flight:
    """A piece of work under way."""

    travellers: tuple[Traveller, ...]
    future: "Future[Done]"
    is_replay: bool = False


@dataclass(slots=True)
class _Steerings:
    """Numbers of steerings, by their digests; 0 is none. `taught`: those that the stages of this route know."""

    numbers: dict[str, int] = field(default_factory=dict)
    known: dict[int, Steering] = field(default_factory=dict)
    taught: set[int] = field(default_factory=set)


class Line:
    """From the layers `behind` the coordinator's own to the last. `heard` gets every result: telemetry."""

    def __init__(self, routes: Routes, behind: range, heard: Callable[[Done], object] = lambda done: None) -> None:
        self.lock = threading.RLock()
        self.behind = behind
        self._routes = routes
        self._heard = heard
        self._route: Route | None = None
        self._number = 0
        self._numbers = itertools.count(1)
        self._orders: deque[StateOrder] = deque()
        self._under_way: deque[Flight] = deque()
        self._steerings = _Steerings()

    @property
    def generation(self) -> int:
        return NO_GENERATION if self._route is None else self._route.generation

    @property
    def stages(self) -> tuple[range, ...]:
        """The layers of each stage, as long as there is a route."""
        return () if self._route is None else self._route.stages

    @property
    def window(self) -> int:
        """How much work may be under way."""
        return min(max(len(self.stages) + 2, FEWEST_UNDER_WAY), MOST_UNDER_WAY)

    def is_here(self, remote: Remote | None) -> bool:
        """Whether the stages may have it; only they know for sure."""
        return remote is not None and remote.generation == self.generation

    def connect(self, is_cancelled: IsCancelled) -> None:
        """Have a route. ClusterError where there is none to be had, or none from here to the last layer."""
        if self._route is not None:
            return
        route = self._routes.rebuild(is_cancelled)
        ends = [self.behind.start, *(stage.stop for stage in route.stages)]
        if [stage.start for stage in route.stages] != ends[:-1] or ends[-1] != self.behind.stop:
            raise ClusterError(
                f"expected stages from layer {self.behind.start} to {self.behind.stop - 1}, got "
                f"{', '.join(f'{stage.start} to {stage.stop - 1}' for stage in route.stages) or 'none'}"
            )
        self._number, self._route = 0, route

    def order(self, order: StateOrder) -> None:
        """To be done before the next work; from any thread."""
        self._orders.append(order)

    def new_session(self, steering: int) -> Remote:
        """An empty one, under a steering that `steering_number` gave."""
        self.know(steering)
        remote = self.new_remote("session")
        self.order(StateOrder("new", remote.number, steering))
        return remote

    def new_remote(self, kind: str) -> Remote:
        """A number for a session or a snapshot, which the stages hear of when it is dropped."""
        remote = Remote(next(self._numbers), self.generation)
        number = remote.number
        drop = StateOrder("drop", number) if kind == "session" else StateOrder("drop_snapshot", snapshot=number)
        weakref.finalize(remote, self._orders.append, drop).atexit = False
        return remote

    def steering_number(self, steering: Steering | None) -> int:
        """The same for the same directions and scales."""
        if steering is None:
            return 0
        numbers = self._steerings.numbers
        number = numbers.setdefault(steering.digest, len(numbers) + 1)
        self._steerings.known[number] = steering
        return number

    def send(
        self,
        travellers: Sequence[Traveller] = (),
        spans: Sequence[SpanWork] = (),
        streams: Bytes | None = None,
        bits: Bits = 32,
        *,
        is_replay: bool = False,
    ) -> Flight:
        """Begin a piece of work with all that waits to be told. RouteBroken."""
        is_ack_only = all(span.logits == "none" for span in spans)
        work = Work(self._number, self._taken_orders(), tuple(spans), streams, bits, is_ack_only)
        self._number += 1
        flight = Flight(tuple(travellers), self._asked(lambda route: route.send(work)), is_replay)
        self._under_way.append(flight)
        return flight

    def settle(self, most: int, is_cancelled: IsCancelled) -> None:
        """Wait until at most so much is under way. What failed meanwhile is noted in its states. RouteBroken,
        Cancelled."""
        while len(self._under_way) > most:
            flight = self._under_way[0]
            with suppress(HashMismatch, StageError):
                self._landed(flight, is_cancelled)

    def result(self, flight: Flight, is_cancelled: IsCancelled) -> Done:
        """What a piece of work gave, or its error; all before it is settled, too."""
        self.settle(len(self._under_way) - self._under_way.index(flight), is_cancelled)
        return self._landed(flight, is_cancelled)

    def flush(self, is_cancelled: IsCancelled) -> None:
        """Everything that was sent or waits to be told has been done by all stages. RouteBroken, Cancelled."""
        if self._orders:
            self.send()
        self.settle(0, is_cancelled)

    def call(self, layer: int, method: str, *args: Any) -> Any:
        """Ask the stage that has a layer; after `flush`, if it is about what was sent. RouteBroken."""
        stage = next(place for place, layers in enumerate(self.stages) if layer in layers)
        return self._asked(lambda route: route.call(stage, method, *args))

    def close(self) -> None:
        """Nothing more is sent. The route is its maker's to end."""
        self._break()

    def _landed(self, flight: Flight, is_cancelled: IsCancelled) -> Done:
        """The oldest flight's end: it is under way no more, unless its waiting was cancelled."""
        try:
            done = _waited(flight.future, is_cancelled)
        except RouteBroken:
            self._break()
            raise
        except (HashMismatch, StageError) as error:
            self._under_way.popleft()
            failure = error if isinstance(error, StageError) else None
            for traveller in flight.travellers:
                traveller.state.lose(traveller.remote, failure)
            raise
        self._under_way.popleft()
        self._heard(done)
        if not flight.is_replay:
            for traveller in flight.travellers:
                traveller.state.has_passed()
        return done

    def _asked(self, ask: Callable[[Route], Any]) -> Any:
        if self._route is None:
            raise RouteBroken("there is no route to the other stages")
        try:
            return ask(self._route)
        except RouteBroken:
            self._break()
            raise

    def know(self, number: int) -> None:
        """Have all stages know a steering by the number that `steering_number` gave. RouteBroken."""
        if not number or number in self._steerings.taught:
            return
        steering = self._steerings.known[number]
        for stage in self.stages:
            self.call(stage.start, "steer", number, steering.directions, steering.ffn, steering.attention)
        self._steerings.taught.add(number)

    def _taken_orders(self) -> tuple[StateOrder, ...]:
        taken = []
        with suppress(IndexError):
            while True:
                taken.append(self._orders.popleft())
        return tuple(taken)

    def _break(self) -> None:
        """What was under way or was to be told was of this route."""
        self._route = None
        self._under_way.clear()
        self._orders.clear()
        self._steerings.taught.clear()


def _waited(future: "Future[Done]", is_cancelled: IsCancelled) -> Done:
    while True:
        try:
            return future.result(LISTEN_S)
        except NotYet:
            if is_cancelled():
                raise Cancelled("cancelled while other machines were computing") from None
