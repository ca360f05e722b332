"""Routes through stages in this process: one thread a stage, everything pickled on its way, and told what goes wrong.

A `Mishap` is asked for before every piece of work on every stage; `FakeRoutes` makes route after route over the same
layers, with new stages each time, as long as it `is_up`.
"""

import pickle
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, Literal

from whitedwarf.cluster.stage import Stage
from whitedwarf.cluster.work import Done, HashMismatch, IsCancelled, RouteBroken, StageError, StateOrder, Work
from whitedwarf.errors import Cancelled, ClusterError
from whitedwarf.model.transformer import Transformer

Mishap = Literal["die", "die after", "lose", "fail", "delay", "swap"]
Mishaps = Callable[[int, Work], Mishap | None]  # stage and work -> what goes wrong

DELAY_S = 0.03


def none(stage: int, work: Work) -> None:
    """All goes well."""


@dataclass(frozen=True, slots=True)
class Passing:
    """Work between two stages."""

    work: Work
    hops: tuple[Any, ...] = ()
    failure: Exception | None = None


class FakeRoute:
    """See whitedwarf.cluster.work.Route."""

    def __init__(self, models: Sequence[Transformer], generation: int, mishaps: Mishaps) -> None:
        self.generation = generation
        self.stages = tuple(model.held for model in models)
        self.parts = [Stage(model) for model in models]
        self.is_broken = False
        self._mishaps = mishaps
        self._pending: dict[int, Future[Done]] = {}
        self._lock = threading.Lock()
        self._inboxes: list[queue.Queue[bytes | None]] = [queue.Queue() for _ in models]
        self._threads = [
            threading.Thread(target=self._work, args=(place,), daemon=True) for place in range(len(models))
        ]
        for thread in self._threads:
            thread.start()

    def send(self, work: Work) -> "Future[Done]":
        future: Future[Done] = Future()
        with self._lock:
            if self.is_broken:
                future.set_exception(RouteBroken("the fake broke"))
                return future
            self._pending[work.number] = future
        self._inboxes[0].put(pickle.dumps(Passing(work)))
        return future

    def call(self, stage: int, method: str, *args: Any) -> Any:
        if self.is_broken:
            raise RouteBroken("the fake broke")
        found = getattr(self.parts[stage], method)(*pickle.loads(pickle.dumps(args)))
        return pickle.loads(pickle.dumps(found))

    def break_off(self) -> None:
        """As when a machine is gone."""
        with self._lock:
            self.is_broken = True
            pending, self._pending = self._pending, {}
        for future in pending.values():
            future.set_exception(RouteBroken("the fake broke"))
        for inbox in self._inboxes:
            inbox.put(None)

    def join(self) -> None:
        for thread in self._threads:
            thread.join(30)

    def _work(self, place: int) -> None:
        inbox = self._inboxes[place]
        while (data := inbox.get()) is not None and not self.is_broken:
            passing = pickle.loads(data)
            mishap = self._mishaps(place, passing.work)
            if mishap == "swap":
                try:
                    other = inbox.get(timeout=DELAY_S)
                except queue.Empty:
                    other = None
                if other is not None:
                    self._one(place, pickle.loads(other), None)
            self._one(place, passing, mishap)

    def _one(self, place: int, passing: Passing, mishap: Mishap | None) -> None:
        if mishap == "die":
            self.break_off()
            return
        if mishap == "delay":
            time.sleep(DELAY_S)
        work = passing.work if passing.failure is None else replace(passing.work, spans=(), streams=None)
        done, failure = self._done(place, work, mishap)
        failure = passing.failure or failure
        if mishap == "die after":
            self.break_off()
            return
        hops = (*passing.hops, *done.hops)
        if place + 1 < len(self.parts):
            onward = Passing(replace(passing.work, streams=done.streams), hops, failure)
            self._inboxes[place + 1].put(pickle.dumps(onward))
            return
        with self._lock:
            future = self._pending.pop(work.number, None)
        if future is not None and failure is not None:
            future.set_exception(failure)
        elif future is not None:
            future.set_result(replace(done, hops=hops))

    def _done(self, place: int, work: Work, mishap: Mishap | None) -> tuple[Done, Exception | None]:
        stage = self.parts[place]
        if mishap in ("lose", "fail"):
            drops = tuple(StateOrder("drop", span.session) for span in work.spans)
            work = replace(work, orders=(*work.orders, *drops))
        try:
            if mishap == "fail" and work.spans:
                stage.work(replace(work, spans=(), streams=None))
                raise StageError("the fake ran out of memory")
            return stage.work(work), None
        except (HashMismatch, StageError) as error:
            return Done(work.number), error


class FakeRoutes:
    """`limit_s`: how long `rebuild` waits for being up."""

    def __init__(self, models: Sequence[Transformer], mishaps: Mishaps = none, limit_s: float = 0.2) -> None:
        self.models = list(models)
        self.mishaps = mishaps
        self.limit_s = limit_s
        self.is_up = True
        self.made: list[FakeRoute] = []

    @property
    def route(self) -> FakeRoute:
        return self.made[-1]

    def rebuild(self, is_cancelled: IsCancelled) -> FakeRoute:
        until_s = time.monotonic() + self.limit_s
        while not self.is_up:
            if is_cancelled():
                raise Cancelled("nobody waits for a route")
            if time.monotonic() > until_s:
                first = self.models[0].held
                raise ClusterError(f"no member has layers {first.start} to {first.stop - 1}")
            time.sleep(0.005)
        self.made.append(FakeRoute(self.models, len(self.made) + 7, lambda stage, work: self.mishaps(stage, work)))
        return self.route

    def close(self) -> None:
        for route in self.made:
            route.break_off()
        for route in self.made:
            route.join()
