"""From a model of the config to a server that is up: the one place where processes are started.

Promises: `launch` returns when the model answers, or raises StartFailedError and leaves nothing behind; cancelled, it
returns when what it started is gone; no request goes to whoever else may listen on the port. Does not know why a model
is started.
"""

import asyncio
import errno
import logging
import secrets
import shlex
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from itertools import count

import psutil

from whitedwarf.errors import WhitedwarfError
from whitedwarf.supervisor import start_failure
from whitedwarf.supervisor.arguments import without_keys
from whitedwarf.supervisor.child import SECOND_TERM_S, Child, Manners, spawn
from whitedwarf.supervisor.child_log import ChildLog
from whitedwarf.supervisor.clock import Clock
from whitedwarf.supervisor.commands import HOST, child_command, folder_name, state_folders
from whitedwarf.supervisor.config import Backend, ManagedModel, SupervisorConfig
from whitedwarf.supervisor.counting import server_key
from whitedwarf.supervisor.listeners import Claim, Owner, free_port, owner_name
from whitedwarf.supervisor.orphans import MARK, Record, Records
from whitedwarf.supervisor.patience import Patience
from whitedwarf.supervisor.readiness import Facts, PortTakenError, Readiness, Started
from whitedwarf.supervisor.slots import Slots
from whitedwarf.supervisor.upstream import Address, Headers

Progress = Callable[[str], None]
_MOST_PORTS = 5
_PERMANENT = (FileNotFoundError, PermissionError, NotADirectoryError, ValueError)  # processes and memory come back
_WRONG_WORDS = (errno.E2BIG, errno.ENOEXEC, errno.ELOOP, errno.ENAMETOOLONG)
_log = logging.getLogger(__name__)


class RunningModel:
    """A model that is up; see running.py. `warnings` is what people should know about it."""

    def __init__(self, started: Started, facts: Facts, slots: Slots, warnings: tuple[str, ...], took_s: float) -> None:
        self._child = started.child
        self._slots = slots
        self.address = started.address
        self.headers: Headers = started.headers
        self.context_size = facts.context_size
        self.warnings = warnings
        self.started_s = took_s
        self._saving: asyncio.Future[bool] | None = None

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._child.pid

    @property
    def has_exited(self) -> bool:
        """Whether the process has ended."""
        return self._child.has_exited

    def tail(self, lines: int = 20) -> tuple[str, ...]:
        """The last lines of its log."""
        return self._child.log.tail(lines)

    async def wait_exit(self) -> int:
        """Wait for the end of the process and of all it started."""
        return await self._child.wait_exit()

    async def stop(self, *, saves_state: bool = True) -> None:
        """End it; before that what it has read is saved, if it can be and it is not busy (slots.py)."""
        try:
            if saves_state and not self.has_exited:
                await self._save_once()
        finally:
            self._child.begin_stop()
        await self._child.stop()

    def kill(self) -> None:
        """End it at once, without waiting."""
        self._child.kill()

    async def _save_once(self) -> None:
        if self._saving is None:
            self._saving = asyncio.ensure_future(self._slots.save())
        try:
            await asyncio.wait([self._saving])
        finally:
            self._saving.cancel()


@dataclass(slots=True)
class _Attempt:
    """One start of a model: what it is told, and where its steps are told."""

    model: ManagedModel
    port: int
    log: ChildLog
    tell: Progress
    warnings: list[str]


class Launcher:
    """Starts the models of a config, and has their logs."""

    def __init__(self, config: SupervisorConfig, clock: Clock = time.monotonic) -> None:
        self._config = config
        self._clock = clock
        self._records = Records(config.state_folder)
        self._logs: dict[str, ChildLog] = {}

    def reload(self, config: SupervisorConfig) -> None:
        """For starts from now on."""
        self._config = config

    def log(self, key: str) -> ChildLog:
        """What this model's processes say, also before the first and after the last."""
        if key not in self._logs:
            path = self._config.log_folder / f"{folder_name(key)}.log"
            self._logs[key] = ChildLog(path, self._config.max_log_bytes, self._clock)
        return self._logs[key]

    @staticmethod
    def foresee(model: ManagedModel) -> None:
        """StartFailedError for a model of which it is certain that it cannot start."""
        if str(model.path) in model.arguments and not model.path.exists():
            raise start_failure.failure(model.key, f"there is no file {model.path}", permanent=True)

    async def launch(self, model: ManagedModel, progress: Progress) -> RunningModel:
        """Start it and wait until it answers."""
        began_s = self._clock()
        self.foresee(model)
        warnings: list[str] = []
        tried: set[int] = set()
        while True:
            port = self._choose_port(model, tried, warnings)
            attempt = _Attempt(model, port, self.log(model.key), progress, warnings)
            try:
                return await self._try(attempt, began_s)
            except PortTakenError as error:
                tried.add(port)
                _log.warning("internal port taken model=%s port=%d why=%s", model.key, port, error)
                if len(tried) >= _MOST_PORTS:
                    why = f"{error}, and so were {len(tried) - 1} others that were tried"
                    raise start_failure.failure(model.key, why, permanent=False) from error

    def _choose_port(self, model: ManagedModel, tried: Collection[int], warnings: list[str]) -> int:
        avoided = {*tried, *(one.public_port for one in self._config.models)}
        avoided |= {one.internal_port for one in self._config.managed}
        after_tried = (port for port in count(max(tried, default=0) + 1) if port not in avoided)
        wanted = next(after_tried) if tried else model.internal_port
        try:
            port = free_port(wanted, HOST, avoided)
        except WhitedwarfError as error:
            raise start_failure.failure(model.key, str(error), permanent=False) from error
        warnings.clear()
        if port != model.internal_port:
            owner = owner_name(model.internal_port) or "another program"
            warnings.append(f"internal port {model.internal_port} is used by {owner}: this run uses {port}")
        return port

    async def _try(self, attempt: _Attempt, began_s: float) -> RunningModel:
        model = self._with_folders(attempt.model, attempt.warnings)
        argv = child_command(model, attempt.port, self._config.state_folder)
        mark = secrets.token_hex(8)
        child = await _spawn(attempt, argv, mark)
        try:
            self._record(attempt, child, argv, mark)
            started = Started(child, model, Address(HOST, attempt.port), _key_headers(model))
            return await self._make_ready(started, attempt, argv, began_s)
        except BaseException:
            await _end(child)
            raise

    async def _make_ready(self, started: Started, attempt: _Attempt, argv: list[str], began_s: float) -> RunningModel:
        model = started.model
        readiness = Readiness(started, Patience(model.start_timeout_s, self._clock), attempt.tell)
        if await readiness.healthy() is Owner.CHILD:
            started = replace(started, address=_watched(started))
        facts = await readiness.facts()
        attempt.tell("warming up")
        warning = await readiness.warm_up()
        if warning is not None:
            attempt.warnings.append(warning)
        slots = Slots(model, argv, facts.build, started.address, started.headers)
        await slots.restore()  # after the warm-up, which would have taken its slot
        await readiness.settle()
        if attempt.log.trouble is not None:
            attempt.warnings.append(attempt.log.trouble)
        return RunningModel(started, facts, slots, tuple(attempt.warnings), self._clock() - began_s)

    def _record(self, attempt: _Attempt, child: Child, argv: list[str], mark: str) -> None:
        child.when_gone(lambda: self._records.remove(child.pid))
        try:
            self._records.add(Record.of(attempt.model.key, child.pid, attempt.port, argv, mark))
        except psutil.Error:
            return  # it has ended already, which will be noticed
        except OSError as error:
            why = error.strerror or error
            attempt.warnings.append(
                f"cannot write to {self._config.state_folder} ({why}): should the supervisor be killed, this model's "
                "process may have to be ended by hand"
            )

    def _with_folders(self, model: ManagedModel, warnings: list[str]) -> ManagedModel:
        """The folders of what it keeps are made; where they cannot be, it keeps nothing."""
        for folder in state_folders(model, self._config.state_folder):
            try:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                why = error.strerror or error
                warnings.append(f"cannot make the folder {folder} ({why}): what the model has read is not kept")
                return replace(model, keeps_state=False)
        return model


def _watched(started: Started) -> Address:
    """Its port may be somebody else's as soon as it has died, before we have noticed."""
    return replace(started.address, is_ours=Claim(started.address.port, started.child.pid).holds)


def _key_headers(model: ManagedModel) -> Headers:
    key = server_key(model)
    return () if not key else ((b"Authorization", b"Bearer " + key.encode()),)


async def _spawn(attempt: _Attempt, argv: list[str], mark: str) -> Child:
    model = attempt.model
    attempt.log.begin(f"starting: {shlex.join(without_keys(argv))}")
    second_s = SECOND_TERM_S if model.backend is Backend.LLAMA_SERVER else None
    try:
        return await spawn(
            argv,
            log=attempt.log,
            environment={**dict(model.environment), MARK: mark},
            manners=Manners(model.stop_grace_s, second_s),
        )
    except (OSError, ValueError) as error:
        why = f"cannot run {argv[0]}: {getattr(error, 'strerror', None) or error}"
        raise start_failure.failure(model.key, why, permanent=_is_permanent(error)) from error


def _is_permanent(error: Exception) -> bool:
    return isinstance(error, _PERMANENT) or (isinstance(error, OSError) and error.errno in _WRONG_WORDS)


async def _end(child: Child) -> None:
    """Also for somebody who is cancelled, and again while waiting: nothing may be left behind."""
    child.begin_stop()
    cancelled: asyncio.CancelledError | None = None
    while True:
        try:
            await child.wait_exit()
            break
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
