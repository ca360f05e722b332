"""A clock that tests set, and models that come up and end when a test says so: the desk without processes."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from whitedwarf.supervisor.config import Backend, ExternalModel, ManagedModel, SupervisorConfig
from whitedwarf.supervisor.failures import StartFailedError
from whitedwarf.supervisor.upstream import Address


class FakeClock:
    """Seconds that pass only by order."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s

    def pass_(self, seconds: float) -> None:
        self.now_s += seconds


class FakeRunning:
    """A process that is up until it is stopped or a test ends it."""

    def __init__(self, launches: "FakeLaunches", model: ManagedModel, pid: int) -> None:
        self.model = model
        self.pid = pid
        self.address = Address("127.0.0.1", 20_000 + pid)
        self.context_size = launches.context_size
        self.exit_code: int | None = None
        self.stops = 0
        self.warnings: tuple[str, ...] = ()
        self.may_go = asyncio.Event()
        self._launches = launches
        self._exited = asyncio.Event()
        if not launches.ends_slowly:
            self.may_go.set()

    @property
    def has_exited(self) -> bool:
        return self.exit_code is not None

    def tail(self, lines: int = 20) -> tuple[str, ...]:
        return ()

    def die(self, code: int = 9) -> None:
        if self.exit_code is None:
            self.exit_code = code
            self._launches.alive.remove(self)
            self._exited.set()
            self.may_go.set()  # whoever stops it waits for no more

    def kill(self) -> None:
        self.die(-9)

    async def wait_exit(self) -> int:
        await self._exited.wait()
        assert self.exit_code is not None
        return self.exit_code

    async def stop(self) -> None:
        self.stops += 1
        if self.exit_code is None:
            await self.may_go.wait()
            self.die(self._launches.exit_code)


class FakeLaunches:
    """What the desk starts models with. `fails` holds the errors of the next starts, None for one that goes well."""

    def __init__(self) -> None:
        self.starts: list[str] = []
        self.running: list[FakeRunning] = []
        self.alive: list[FakeRunning] = []
        self.fails: list[StartFailedError | None] = []
        self.loading: dict[str, asyncio.Event] = {}
        self.cancelled: list[str] = []
        self.missing: set[str] = set()
        self.most_alive = 0
        self.context_size = 4096
        self.ends_slowly = False
        self.exit_code = 0
        self.holds = False
        self.while_loading: Callable[[], None] = lambda: None

    async def __call__(self, model: ManagedModel, progress: Callable[[str], None]) -> FakeRunning:
        self.starts.append(model.key)
        running = FakeRunning(self, model, len(self.starts))
        self.alive.append(running)
        self.most_alive = max(self.most_alive, len(self.alive))
        progress("reading the file")
        try:
            await asyncio.sleep(0)
            if self.holds:
                await self.loading.setdefault(model.key, asyncio.Event()).wait()
            self.while_loading()
        except asyncio.CancelledError:
            self.cancelled.append(model.key)
            await running.stop()
            raise
        if self.fails and (error := self.fails.pop(0)) is not None:
            running.die(1)
            raise error
        self.running.append(running)
        return running

    def foresee(self, model: ManagedModel) -> None:
        if model.key in self.missing:
            raise start_failed(is_permanent=True)

    def let_load(self, key: str) -> None:
        self.loading.setdefault(key, asyncio.Event()).set()

    @property
    def last(self) -> FakeRunning:
        return self.running[-1]


def managed(key: str, **more: Any) -> ManagedModel:
    model = ManagedModel(
        key=key,
        alias=key,
        path=Path(f"/nowhere/{key}.gguf"),
        public_port=8080,
        internal_port=9080,
        backend=Backend.LLAMA_SERVER,
        program=("llama-server",),
        arguments=("-m", f"/nowhere/{key}.gguf"),
        context_size=4096,
        idle_timeout_s=100.0,
    )
    return replace(model, **more)


def external(key: str, url: str = "http://127.0.0.1:1/v1") -> ExternalModel:
    return ExternalModel(key=key, alias=key, url=url, public_port=8090)


def config_of(*models: ManagedModel | ExternalModel, **more: Any) -> SupervisorConfig:
    folder = Path("/nowhere")
    config = SupervisorConfig(
        source=folder / "models.json", models=models, state_folder=folder, log_folder=folder, check_interval_s=3600.0
    )
    return replace(config, **more)


def start_failed(is_permanent: bool = False) -> StartFailedError:
    return StartFailedError("it did not come up: no such tensor", is_permanent=is_permanent, log_tail=("E no",))
