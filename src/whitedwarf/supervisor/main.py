"""The supervisor's life: ports, what was left behind, the desk and the front, signals, and an end that leaves nothing.

SIGTERM and SIGINT end it in order: no new connections, models stopped, their streams cut with them; a second one kills
the models. SIGHUP reads the config again: what did not change goes on, and a config that cannot be used changes
nothing. Exit codes: 0 after SIGTERM, 130 after SIGINT, 1 where it could not begin or fell.
"""

import asyncio
import contextlib
import ctypes
import logging
import os
import signal
import socket
import sys
from dataclasses import replace
from enum import Enum, auto
from types import FrameType

from whitedwarf.errors import UsageError, WhitedwarfError
from whitedwarf.supervisor import memory
from whitedwarf.supervisor.app import make_app
from whitedwarf.supervisor.checks import keys_of
from whitedwarf.supervisor.config import SupervisorConfig
from whitedwarf.supervisor.config_file import read_config
from whitedwarf.supervisor.desk import Desk
from whitedwarf.supervisor.front import Front, new_loop
from whitedwarf.supervisor.launch import Launcher
from whitedwarf.supervisor.log_stream import LogStream
from whitedwarf.supervisor.orphans import stop_orphans
from whitedwarf.supervisor.public_ports import give_back, take_ports
from whitedwarf.web.auth import ApiKeys
from whitedwarf.web.connections import allow_files

DONE, FAILED, INTERRUPTED = 0, 1, 130
_STDERR = 2
_M_MMAP_THRESHOLD = -3
_SCATTERED_BYTES = 32 << 10
_DRAIN_S = 3.0
_HURRY_S = 2.0
log = logging.getLogger(__name__)


class _Order(Enum):
    """What a signal asks for."""

    TERMINATE = auto()
    INTERRUPT = auto()
    RELOAD = auto()
    FALL = auto()


def run_supervisor(config: SupervisorConfig, keys: ApiKeys | None) -> int:
    """Serve the models of a config until a signal; the exit code. WhitedwarfError where it cannot begin."""
    signal.signal(signal.SIGHUP, _too_early)  # it would end us until it is heeded
    _open_standard_streams()
    allow_files()
    _let_memory_go()
    _log_to_stderr()
    config = _with_budget(config, None)
    listeners = take_ports(config.host, config.models)
    try:
        for line in stop_orphans(config.state_folder):
            log.warning("%s", line)
        with asyncio.Runner(loop_factory=new_loop) as runner:
            return runner.run(_Supervision(config, keys).run(listeners))
    finally:
        give_back(listeners.values())


def _too_early(number: int, frame: FrameType | None) -> None:
    """The config has just been read."""


def _open_standard_streams() -> None:
    """Where they are closed nothing else may get their numbers: a child would take it for its own output.

    Other files that we were started with are not for our children either, and uvloop closes none for them.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
    for name in os.listdir("/dev/fd"):  # noqa: PTH208  (numbers, not paths)
        if int(name) > 2:
            with contextlib.suppress(OSError):  # the folder itself, which is closed again
                os.set_inheritable(int(name), False)


def _let_memory_go() -> None:
    """Large requests leave nothing: by itself glibc keeps what they took, scattered, for the next one."""
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None
    if libc is not None and hasattr(libc, "mallopt"):  # musl has none
        libc.mallopt(_M_MMAP_THRESHOLD, _SCATTERED_BYTES)


def _log_to_stderr() -> None:
    logging.raiseExceptions = False  # a terminal that was closed is no reason to do anything
    form = "%(asctime)s %(levelname)s %(message)s"
    logging.basicConfig(handlers=[LogStream(_STDERR)], level=logging.INFO, format=form)


def _with_budget(config: SupervisorConfig, before: SupervisorConfig | None) -> SupervisorConfig:
    """An automatic budget is measured once: later, models of ours are in what is in use."""
    if not config.has_automatic_budget:
        return config
    is_known = before is not None and before.has_automatic_budget
    budget = before.memory_budget_bytes if before is not None and is_known else memory.automatic_budget()
    if budget is None:
        log.warning("this machine does not say how much memory it has: one model is loaded at a time")
    else:
        log.info("memory budget for models: %.1f GiB", budget / 2**30)
    return replace(config, memory_budget_bytes=budget)


class _Supervision:
    """From the ports to the end."""

    def __init__(self, config: SupervisorConfig, keys: ApiKeys | None) -> None:
        self._config = config
        self._launcher = Launcher(config)
        self._desk = Desk(config, self._launcher.launch, settle=memory.settled, foresee=self._launcher.foresee)
        self._app = make_app(config, self._desk, keys, self._launcher.log)
        self._front = Front(self._app)
        self._orders: asyncio.Queue[_Order] = asyncio.Queue()
        self._is_ending = False

    async def run(self, listeners: dict[int, socket.socket]) -> int:
        """Until an order to end; the exit code."""
        self._heed_signals()
        desk = asyncio.create_task(self._desk.run())
        desk.add_done_callback(lambda _: self._orders.put_nowait(_Order.FALL))
        try:
            await self._front.listen(listeners.values())
            for model in self._config.models:
                log.info("listening port=%d model=%s", model.public_port, model.key)
            order = await self._carry_out()
        finally:
            self._is_ending = True
            await self._end(desk)
        return {_Order.TERMINATE: DONE, _Order.INTERRUPT: INTERRUPTED}.get(order, FAILED)

    async def _carry_out(self) -> _Order:
        while (order := await self._orders.get()) is _Order.RELOAD:
            try:
                await self._reload()
            except WhitedwarfError as error:
                log.error("the config is not reloaded, all goes on as before: %s", error)
            except Exception:  # a bug of ours must not take the models down
                log.exception("the config was not reloaded, or not all of it")
        return order

    async def _end(self, desk: "asyncio.Task[None]") -> None:
        """Models and connections at the same time: streams end with their models."""
        log.info("ending")
        desk.cancel()
        for outcome in await asyncio.gather(desk, self._front.close(_DRAIN_S), return_exceptions=True):
            if isinstance(outcome, Exception):
                log.error("the supervisor fell", exc_info=outcome)
        log.info("ended")

    # Signals

    def _heed_signals(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self._ask_to_end, _Order.TERMINATE)
        loop.add_signal_handler(signal.SIGINT, self._ask_to_end, _Order.INTERRUPT)
        loop.add_signal_handler(signal.SIGHUP, self._orders.put_nowait, _Order.RELOAD)

    def _ask_to_end(self, order: _Order) -> None:
        if not self._is_ending:
            self._is_ending = True
            self._orders.put_nowait(order)
            return
        log.warning("asked to end again: models are killed")
        self._desk.hurry()
        # What is only being started ends with us (pdeathsig), or at the next start (orphans.py).
        asyncio.get_running_loop().call_later(_HURRY_S, os._exit, INTERRUPTED)

    # Another config

    def _check_lasting(self, config: SupervisorConfig) -> None:
        """Sockets stay as they were bound, and whatever runs has its record and its log where it began."""
        before = self._config
        for name, was, now in (
            ("host", before.host, config.host),
            ("stateDir", str(before.state_folder), str(config.state_folder)),
            ("logDir", str(before.log_folder), str(config.log_folder)),
            ("maxLog", before.max_log_bytes, config.max_log_bytes),
        ):
            if now != was:
                raise UsageError(f"{name} is {now!r} now, was {was!r}; that needs a restart")

    async def _reload(self) -> None:
        """All of it is checked, and new ports are taken, before anything changes."""
        config = _with_budget(read_config(self._config.source), self._config)
        keys = keys_of(config)
        self._check_lasting(config)
        before = {model.public_port for model in self._config.models}
        now = {model.public_port for model in config.models}
        added = take_ports(config.host, [model for model in config.models if model.public_port not in before])
        self._config = config
        self._launcher.reload(config)
        await self._desk.reload(config)
        self._app.reconfigure(config, keys)
        await self._front.listen(added.values())
        for port in before - now:
            self._front.stop_listening(port)
