"""One process of ours: started in a group of its own, heard, awaited once, and stopped with all it started.

Promises: nothing of it is left when `stop` or `wait_exit` return, neither a zombie nor what it had started itself; both
may be called by anybody at any time, and being cancelled in them only ends the waiting. Does not know what runs.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from whitedwarf.supervisor.child_log import ChildLog
from whitedwarf.supervisor.process_group import begin_options, is_group_alive, signal_group

SECOND_TERM_S = 2.5
_LOOK_AGAIN_S = 0.02
_LAST_WORDS_S = 0.5  # for what lies in the pipe, which somebody outside the group may hold open
_GIVE_UP_S = 5.0  # what was killed and stays is the kernel's


@dataclass(frozen=True, slots=True)
class Manners:
    """How a child is stopped: SIGTERM, another after `second_term_s` if that helps, SIGKILL after `grace_s`.

    llama-server needs the second one: with a stream open it does not look at the first for half a minute
    (spec/supervisor.md 0.7). For `whitedwarf serve` it would mean to end without saving (server/listen.py).
    """

    grace_s: float = 20.0
    second_term_s: float | None = SECOND_TERM_S


class Child:
    """See the module. Made by `spawn`."""

    def __init__(self, log: ChildLog, manners: Manners) -> None:
        self.log = log
        self.pid = 0
        self.exit_code: int | None = None
        self._manners = manners
        self._transport: asyncio.SubprocessTransport | None = None
        self._exited = asyncio.Event()
        self._gone = asyncio.Event()
        self._is_silent = False
        self._is_stopping = False
        self._timers: list[asyncio.TimerHandle] = []
        self._after: list[Callable[[], None]] = []

    @property
    def has_exited(self) -> bool:
        """Whether the process itself has ended; what it started may not have, yet."""
        return self.exit_code is not None

    async def exited(self) -> None:
        """Wait for that."""
        await self._exited.wait()

    async def wait_exit(self) -> int:
        """Wait until nothing is left; the exit code, or the signal that ended it as a negative number."""
        await self._gone.wait()
        assert self.exit_code is not None
        return self.exit_code

    async def stop(self) -> None:
        """End it, and wait until nothing is left."""
        self.begin_stop()
        await self._gone.wait()

    def begin_stop(self) -> None:
        """End it, without waiting."""
        if self._is_stopping or self.has_exited:
            return
        self._is_stopping = True
        self._signal(signal.SIGTERM)
        second_s = self._manners.second_term_s
        if second_s is not None and second_s < self._manners.grace_s:
            self._later(second_s, lambda: self._signal(signal.SIGTERM))
        self._later(self._manners.grace_s, self.kill)

    def kill(self) -> None:
        """End it without asking, and without waiting."""
        if not self._gone.is_set():
            self._signal(_KILL)

    def when_gone(self, call: Callable[[], None]) -> None:
        """Call this once nothing is left, at once if that is so."""
        if self._gone.is_set():
            call()
        else:
            self._after.append(call)

    def _signal(self, number: int) -> None:
        signal_group(self.pid, number)

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        self._timers.append(asyncio.get_running_loop().call_later(seconds, call))

    # _Wire calls these

    def born(self, transport: asyncio.SubprocessTransport) -> None:
        self._transport = transport
        self.pid = transport.get_pid()

    def fell_silent(self) -> None:
        self._is_silent = True

    def ended(self) -> None:
        assert self._transport is not None
        code = self._transport.get_returncode()
        self.exit_code = -1 if code is None else code
        self._exited.set()
        self._clear(0.0)

    def _clear(self, waited_s: float) -> None:
        """After the leader: whoever is left of the group gets a moment if it was told to end, else none."""
        is_alive = is_group_alive(self.pid)
        if is_alive and waited_s >= (SECOND_TERM_S if self._is_stopping else 0.0):
            self._signal(_KILL)
        if (is_alive and waited_s < _GIVE_UP_S) or (not self._is_silent and waited_s < _LAST_WORDS_S):
            self._later(_LOOK_AGAIN_S, lambda: self._clear(waited_s + _LOOK_AGAIN_S))
        else:
            self._finish()

    def _finish(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        assert self._transport is not None
        self._transport.close()
        self.log.end()
        self._gone.set()
        for call in self._after:
            call()
        self._after.clear()


class _Wire(asyncio.SubprocessProtocol):
    """What asyncio tells about the process."""

    def __init__(self, child: Child) -> None:
        self._child = child

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._child.born(cast(asyncio.SubprocessTransport, transport))  # uvloop's is none by its class

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self._child.log.write(data)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._child.fell_silent()

    def process_exited(self) -> None:
        self._child.ended()


async def spawn(
    argv: Sequence[str], *, log: ChildLog, environment: Mapping[str, str] | None = None, manners: Manners | None = None
) -> Child:
    """Start it: no input, output into the log, no file of ours, our environment and `environment` over it.

    OSError or ValueError where there is no such program or the words cannot be passed.
    """
    child = Child(log, manners or Manners())
    await asyncio.get_running_loop().subprocess_exec(
        lambda: _Wire(child),
        *argv,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, **(environment or {})},
        **begin_options(),
    )
    return child


_KILL = getattr(signal, "SIGKILL", signal.SIGTERM)  # Windows has one way to end a process
