"""From a process that was started to a server that answers: is it ours, is it healthy, what has it really got.

Promises: nothing is sent to a port before it is known whose it is, as far as the system tells; the end of the child
counts at once, whoever answers on its port. Does not start or end anything.
"""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass

import psutil

from whitedwarf.errors import WhitedwarfError
from whitedwarf.supervisor import start_failure
from whitedwarf.supervisor.child import Child
from whitedwarf.supervisor.config import ManagedModel
from whitedwarf.supervisor.failures import StartFailedError, UpstreamError
from whitedwarf.supervisor.listeners import Owner, owner_name, owner_of
from whitedwarf.supervisor.loading_text import loading_text, with_share
from whitedwarf.supervisor.patience import Patience
from whitedwarf.supervisor.sizes import files_bytes
from whitedwarf.supervisor.upstream import Address, Answer, Headers, ask

_ANSWER_S = 1.0
_FACTS_S = 10.0
_LOOK_S = 0.5
_MOMENT_S = 0.1
_BIND_S = 2.0
_DYING_S = 10.0  # a crash that leaves a core file has closed its connections long before it ends
_FOR_EVER_S = 1e6  # Patience ends it
_OK = 200
_WARM_UP = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1, "temperature": 0, "stream": False}


class PortTakenError(WhitedwarfError):
    """Somebody else has the port: another one has to be chosen."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the server says of itself; 0 and "" where it does not."""

    context_size: int = 0
    build: str = ""


@dataclass(frozen=True, slots=True)
class Started:
    """A child that should become a server: where, and how it is asked."""

    child: Child
    model: ManagedModel
    address: Address
    headers: Headers


class Readiness:
    """One start, watched."""

    def __init__(self, started: Started, patience: Patience, tell: Callable[[str], None]) -> None:
        self._started = started
        self._child = started.child
        self._patience = patience
        self._tell = tell
        self._told: str | None = None
        self._worked_bytes = 0
        self._looked_s = 0.0
        self._file_bytes = files_bytes(started.model.path)

    async def healthy(self) -> Owner:
        """Wait until it is; CHILD, or UNKNOWN where the system does not tell whose the port is.

        StartFailedError where it ends or takes too long, PortTakenError where it has no port.
        """
        owner = Owner.NOBODY
        while True:
            self._look()
            self._tell_progress()
            if owner is not Owner.CHILD:
                owner = self._owner()
            if owner is not Owner.NOBODY and await self._is_healthy():
                break
            self._check_patience("it was not ready")
            await self._pause(_pause_s(self._patience.waited_s))
        if owner is Owner.UNKNOWN:
            await self._check_identity()
        return owner

    async def facts(self) -> Facts:
        """From /props; nothing where it has none."""
        try:
            answer = await self._ask("GET", "/props", timeout_s=_FACTS_S)
        except UpstreamError:
            await self._check_life()
            return Facts()
        return _facts(answer.body) if answer.status == _OK else Facts()

    async def warm_up(self) -> str | None:
        """One token. None if it came, else what came instead: who lives may serve something else than chat.

        StartFailedError where it ends over it, or nothing comes in the time that the start has.
        """
        body = json.dumps(_WARM_UP | {"model": self._started.model.alias}).encode()
        asking = asyncio.ensure_future(self._ask("POST", "/v1/chat/completions", body, timeout_s=_FOR_EVER_S))
        try:
            while not (await asyncio.wait([asking], timeout=_LOOK_S))[0]:
                self._look()
                self._check_patience("it was healthy, but wrote not one token")
            answer = asking.result()
        except UpstreamError as error:
            await self._check_life()
            if not await self._is_healthy():
                await self._pause(_DYING_S)
            return f"the warm-up request failed: {error}"
        finally:
            asking.cancel()
        if answer.status == _OK:
            return None
        return f"the warm-up request was refused with status {answer.status}: {_beginning(answer.body)}"

    async def settle(self) -> None:
        """The pause that follows; the child's end in it is a failure, too."""
        await self._pause(self._started.model.settle_s)

    async def _ask(self, method: str, target: str, body: bytes = b"", *, timeout_s: float = _ANSWER_S) -> Answer:
        kind = ((b"Content-Type", b"application/json"),) if body else ()
        started = self._started
        return await ask(started.address, method, target, (*started.headers, *kind), body, timeout_s=timeout_s)

    async def _is_healthy(self) -> bool:
        try:
            return (await self._ask("GET", "/health")).status == _OK
        except UpstreamError:
            return False

    def _owner(self) -> Owner:
        port = self._started.address.port
        owner = owner_of(port, self._child.pid)
        if owner is Owner.STRANGER:
            raise PortTakenError(f"port {port} is used by {owner_name(port) or 'another program'}")
        return owner

    async def _check_identity(self) -> None:
        """The system does not say whose the port is: it must at least call itself as the model is called."""
        try:
            answer = await self._ask("GET", "/v1/models", timeout_s=_FACTS_S)
        except UpstreamError as error:
            await self._check_life()
            raise self._failed(f"who answers on its port did not say who it is: {error}") from error
        if self._started.model.alias not in _model_ids(answer.body):
            await self._check_life()
            port = self._started.address.port
            raise PortTakenError(f"port {port} is answered by a server without model {self._started.model.alias!r}")
        await self._pause(_BIND_S)  # a name can be the same: a child that could not bind ends now

    def _look(self) -> None:
        """See whether it gets on."""
        if self._patience.waited_s >= self._looked_s:
            self._worked_bytes = _worked_bytes(self._child.pid)
            self._looked_s = self._patience.waited_s + _LOOK_S
        self._patience.saw(self._child.log.total_bytes, self._worked_bytes)

    def _tell_progress(self) -> None:
        text = with_share(loading_text(self._child.log.tail()), self._worked_bytes, self._file_bytes)
        if text is not None and text != self._told:
            self._told = text
            self._tell(text)

    def _check_patience(self, what: str) -> None:
        if self._patience.is_over and not self._child.has_exited:
            waited_s = self._patience.waited_s
            raise self._failed(f"{what} after {waited_s:.0f} s; a slower model needs a larger start timeout")

    def _failed(self, why: str) -> StartFailedError:
        return start_failure.failure(self._started.model.key, why, self._child.log.tail(), permanent=False)

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._child.exited()
        except TimeoutError:
            return
        await self._check_life()

    async def _check_life(self) -> None:
        """Raise what its end means, if it has ended. Who is about to may take a moment to do so."""
        try:
            async with asyncio.timeout(_MOMENT_S):
                await self._child.exited()
        except TimeoutError:
            return
        code = await self._child.wait_exit()
        log = self._child.log.tail(200)
        if start_failure.is_port_taken(log):
            raise PortTakenError(f"port {self._started.address.port} was taken while the model started")
        raise start_failure.ended(self._started.model.key, code, log)


def _pause_s(waited_s: float) -> float:
    """Between two looks: short where a start is short, and never much of what has been waited."""
    return min(0.01 + waited_s / 200, 0.1)


def _worked_bytes(pid: int) -> int:
    """What it has read or holds, whichever is more: that grows while a model is loaded, whatever the log says."""
    try:
        process = psutil.Process(pid)
        counters = process.io_counters() if hasattr(process, "io_counters") else None
        read: int = getattr(counters, "read_chars", 0) or getattr(counters, "read_bytes", 0)
        return max(int(process.memory_info().rss), read)
    except (psutil.Error, OSError):
        return 0


def _facts(body: bytes) -> Facts:
    props = _object(body)
    settings = props.get("default_generation_settings")
    context = settings.get("n_ctx") if isinstance(settings, dict) else None
    return Facts(
        context_size=context if type(context) is int and context > 0 else 0,
        build=str(props.get("build_info") or ""),
    )


def _model_ids(body: bytes) -> set[str]:
    listed = _object(body).get("data")
    found: set[str] = set()
    for entry in listed if isinstance(listed, list) else []:
        if isinstance(entry, dict):
            names = [entry.get("id"), *(aliases if isinstance(aliases := entry.get("aliases"), list) else [])]
            found |= {name for name in names if isinstance(name, str)}
    return found


def _object(body: bytes) -> dict[str, object]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _beginning(body: bytes) -> str:
    return " ".join(body[:300].decode("utf-8", "replace").split())
