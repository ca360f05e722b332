"""One life of a model's process, from the decision to start it until it is gone, as a value that the desk changes.

`Stay` is such a life; `Resident` is the model, which has at most one at a time and remembers how the last ones went.
Promises: a request that ends counts down the life it was in, also when that is long over. Does not decide anything.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from whitedwarf.supervisor import memory, policy
from whitedwarf.supervisor.config import ExternalModel, ManagedModel
from whitedwarf.supervisor.failures import StartFailedError
from whitedwarf.supervisor.limits import SoftLimit
from whitedwarf.supervisor.running import Running
from whitedwarf.supervisor.schedule import Needs, Place, Stage
from whitedwarf.supervisor.upstream import Address

Clock = Callable[[], float]


class Stay:
    """A life of a process. `end` is set when it is to be stopped or has exited, `gone` when nothing is left of it.

    `when_stopped` are called once, when it is ordered to end while they are there.
    """

    def __init__(self, model: ManagedModel, memory_bytes: int, now_s: float) -> None:
        self.model = model
        self.memory_bytes = memory_bytes
        self.running: Running | None = None
        self.launching: asyncio.Task[Running | StartFailedError] | None = None
        self.loading_text = ""
        self.in_flight = 0
        self.since_s = self.used_s = now_s
        self.kept_for_s = policy.kept_for_s(model, None)
        self.last_ticket: int | None = None
        self.why_closing: str | None = None
        self.why_stopped: str | None = None
        self.when_stopped: set[Callable[[], None]] = set()
        self.end = asyncio.Event()
        self.gone = asyncio.Event()

    @property
    def stage(self) -> Stage:
        """A process that has exited is on its way out, whoever has noticed."""
        if self.end.is_set() or (self.running is not None and self.running.has_exited):
            return Stage.STOPPING
        return Stage.LOADING if self.running is None else Stage.LOADED

    @property
    def place(self) -> Place:
        """As the schedule sees it."""
        return Place(
            needs=needs_of(self.model, self.memory_bytes),
            stage=self.stage,
            in_flight=self.in_flight,
            since_s=self.since_s,
            used_s=self.used_s,
            last_ticket=self.last_ticket,
        )

    def arrive(self, running: Running, now_s: float) -> None:
        """The process answers."""
        self.running = running
        self.since_s = self.used_s = now_s

    def close(self, last_ticket: int, why: str) -> None:
        """Take no request after this one; the schedule stops it when those before have ended."""
        if self.last_ticket is None:
            self.last_ticket, self.why_closing = last_ticket, why

    def stop(self, why: str) -> None:
        """Order its end; the task that owns the process does it. Only the first order counts: a launch that is
        cancelled twice might not wait any more until its process is gone."""
        if self.end.is_set():
            return
        self.why_stopped = why
        self.end.set()
        for call in self.when_stopped:
            call()
        if self.launching is not None:
            self.launching.cancel()

    def enter(self) -> None:
        """A request begins."""
        self.in_flight += 1

    def leave(self, now_s: float, keep_alive_s: float | None) -> None:
        """A request ends; the last one to do so says how long the model stays."""
        self.in_flight -= 1
        self.used_s = now_s
        self.kept_for_s = policy.kept_for_s(self.model, keep_alive_s)

    def release_in_s(self, now_s: float) -> float | None:
        """Until it is idle for long enough; None while it is not idle, or for ever."""
        if self.stage is not Stage.LOADED or self.in_flight or self.kept_for_s is None:
            return None
        return max(0.0, self.used_s + self.kept_for_s - now_s)


def is_same_process(one: ManagedModel, other: ManagedModel) -> bool:
    """Whether what runs for the one would do for the other: ports, times and limits are ours to change meanwhile."""
    return _process_of(one) == _process_of(other)


def _process_of(model: ManagedModel) -> ManagedModel:
    return replace(
        model,
        public_port=0,
        internal_port=0,
        soft_context_limit=0,
        soft_grace_s=0.0,
        idle_timeout_s=0.0,
        start_timeout_s=0.0,
        settle_s=0.0,
        stop_grace_s=0.0,
        max_waiting=0,
        memory_bytes=0,
        is_pinned=False,
        group=None,
        is_preloaded=False,
    )


def needs_of(model: ManagedModel, memory_bytes: int) -> Needs:
    """As the schedule sees them."""
    return Needs(key=model.key, memory_bytes=memory_bytes, is_pinned=model.is_pinned, group=model.group)


@dataclass(slots=True)
class Resident:
    """A managed model, and what the desk remembers of it."""

    model: ManagedModel
    limit: SoftLimit
    stay: Stay | None = None
    is_removed: bool = False
    start_count: int = 0
    last_start_s: float | None = None
    failure: StartFailedError | None = None
    failures_in_a_row: int = 0
    held_until_s: float = 0.0
    real_context: int = 0
    _memory_bytes: int = field(default=0)

    def memory_bytes(self) -> int:
        """What it is taken to need; asked again as long as there is no file."""
        if self._memory_bytes == 0:
            self._memory_bytes = memory.needed_bytes(self.model)
        return self._memory_bytes

    def change(self, model: ManagedModel) -> None:
        """Another entry of the config for the same key; what runs keeps its process, if it may, and gets the rest."""
        if self.stay is not None and is_same_process(self.stay.model, model):
            self.stay.model, self.stay.kept_for_s = model, policy.kept_for_s(model, None)
        elif self.stay is None:
            self.real_context = 0
        self.model, self._memory_bytes = model, 0
        self.limit.model = model
        self.forget_failure()

    def remember_failure(self, error: StartFailedError, now_s: float) -> None:
        """For a while others hear of it without another start."""
        self.failure = error
        self.failures_in_a_row += 1
        self.held_until_s = now_s + policy.hold_s(self.failures_in_a_row)

    def forget_failure(self) -> None:
        """It may be started again."""
        self.failure, self.failures_in_a_row, self.held_until_s = None, 0, 0.0

    def held_failure(self, now_s: float) -> StartFailedError | None:
        """What to say instead of starting, of its own for each who hears it."""
        if self.failure is None or now_s >= self.held_until_s:
            return None
        return again(self.failure, self.held_until_s - now_s)


def again(error: StartFailedError, retry_after_s: float | None) -> StartFailedError:
    """The same error for another listener: an exception that is raised twice collects both their tracebacks."""
    return StartFailedError(
        str(error), is_permanent=error.is_permanent, log_tail=error.log_tail, retry_after_s=retry_after_s
    )


@dataclass(slots=True)
class External:
    """A server that somebody else runs. It is always there as far as the desk is concerned; it is a Running."""

    model: ExternalModel
    limit: SoftLimit
    in_flight: int = 0
    pid: int = 0
    has_exited: bool = False
    warnings: tuple[str, ...] = ()
    address: Address = field(init=False)

    def __post_init__(self) -> None:
        self.address = Address.of_url(self.model.url)

    @property
    def context_size(self) -> int:
        """As the config says; 0 where it does not."""
        return self.model.context_size

    def tail(self, lines: int = 20) -> tuple[str, ...]:
        """There is no log of ours."""
        return ()

    async def wait_exit(self) -> int:
        """It does not end for us."""
        return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]

    async def stop(self) -> None:
        """It is not ours to stop."""

    def kill(self) -> None:
        """It is not ours to end."""
