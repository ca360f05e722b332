"""`/__supervisor/…`: how things stand, and orders to load and unload, on every public port.

Promises: reading changes nothing; orders need POST and are answered when they have been carried out. Who may ask was
decided before (gate.py).
"""

import os
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict
from typing import Any, Protocol

from whitedwarf import __version__
from whitedwarf.errors import UsageError, WhitedwarfError
from whitedwarf.supervisor import answers
from whitedwarf.supervisor.asgi import (
    Receive,
    Request,
    Send,
    send_answer,
    send_end,
    send_head,
    send_piece,
)
from whitedwarf.supervisor.config import ExternalModel, Model, SupervisorConfig
from whitedwarf.supervisor.control_page import PAGE_HEADERS, PREFIX, page
from whitedwarf.supervisor.desk import Desk
from whitedwarf.supervisor.events import stream_events
from whitedwarf.supervisor.metrics import KIND, Metrics, resident_bytes
from whitedwarf.supervisor.present import while_there
from whitedwarf.supervisor.status import State
from whitedwarf.supervisor.upstream import Answer

_LINES, _MOST_LINES = 200, 10_000
_TEXT = "text/plain; charset=utf-8"
_ORDER, _READ, _FOLLOW = ("POST",), ("GET", "HEAD"), ("GET",)
_METHODS = {
    "": _READ,
    "status": _READ,
    "metrics": _READ,
    "events": _FOLLOW,
    "logs": _FOLLOW,
    "unload": _ORDER,
    "start": _ORDER,
}


class Log(Protocol):
    """What a model's process says (child_log.py)."""

    def tail(self, lines: int = 20) -> tuple[str, ...]:
        """The last lines."""
        ...

    def follow(self, lines: int = 20) -> AsyncIterator[str]:
        """The last lines, then each new one."""
        ...


LogOf = Callable[[str], Log | None]


def no_log(key: str) -> Log | None:
    """Where nobody keeps any."""
    return None


class Control:
    """Answers what is asked there."""

    def __init__(self, config: SupervisorConfig, desk: Desk, metrics: Metrics, log_of: LogOf) -> None:
        self._config = config
        self._desk = desk
        self._metrics = metrics
        self._log_of = log_of

    async def answer(self, model: Model, request: Request, receive: Receive, send: Send) -> None:
        """`model` is the one of the port, which is meant where none is named."""
        what = request.path[len(PREFIX) :]
        allowed = _METHODS.get(what)
        if allowed is None:
            await send_answer(send, answers.not_found())
        elif request.method == "OPTIONS":
            await send_answer(send, answers.preflight(request.header(b"origin")))
        elif request.method not in allowed:
            refused = answers.refusal(405, f"{request.path}: expected {allowed[0]}, got {request.method}")
            await send_answer(send, refused)
        elif request.method == "POST":
            told = await self._order(what, model, request)
            is_from_page = "text/html" in (request.header(b"accept") or "")  # which shows how it went
            await send_answer(send, answers.see_other(PREFIX) if is_from_page and told.status != 404 else told)
        else:
            await self._read(what, model, request, receive, send)

    # Orders

    async def _order(self, what: str, model: Model, request: Request) -> Answer:
        try:
            named = self._named(request)
            if what == "unload":
                return await self._unload(named, request)
            return await self._start(named or model)
        except UsageError as error:
            return answers.refusal(404, str(error), "not_found_error")
        except WhitedwarfError as error:
            return answers.failure(error)

    async def _unload(self, named: Model | None, request: Request) -> Answer:
        drains = request.parameter("drain") not in (None, "", "0", "false")
        stopped = await self._desk.unload(named.key if named else None, drain=drains)
        return answers.json_answer({"unloaded": list(stopped)})

    async def _start(self, model: Model) -> Answer:
        if isinstance(model, ExternalModel):
            return answers.refusal(400, f"{model.key!r} is a server that somebody else runs: it cannot be started here")
        await self._desk.start(model.key)
        return answers.json_answer({"started": model.key})

    def _named(self, request: Request) -> Model | None:
        name = request.parameter("model")
        if name is None:
            return None
        found = [one for one in self._config.models if one.key == name]
        found += [one for one in self._config.models if one.alias == name]
        if not found:
            known = ", ".join(one.key for one in self._config.models)
            raise UsageError(f"no model {name!r} in the config; expected one of {known}")
        return found[0]

    # Reading

    async def _read(self, what: str, model: Model, request: Request, receive: Receive, send: Send) -> None:
        if what == "events":
            await while_there(receive, stream_events(send, self._status(), self._desk.subscribe()))
        elif what == "logs":
            await self._logs(model, request, receive, send)
        else:
            await send_answer(send, self._told(what))

    def _told(self, what: str) -> Answer:
        if what == "metrics":
            return answers.text_answer(self._metrics.text(self._desk.status()), KIND)
        if what == "status":
            return answers.json_answer(self._status(), more=((b"cache-control", b"no-store"),))
        return answers.text_answer(page(self._desk.status()), "text/html; charset=utf-8", PAGE_HEADERS)

    def _status(self) -> dict[str, Any]:
        models = [{**asdict(one), "loaded": one.state == State.LOADED} for one in self._desk.status()]
        facts = {"version": __version__, "pid": os.getpid(), "config": str(self._config.source)}
        return {**facts, "uptime_s": self._metrics.uptime_s, "rss_bytes": resident_bytes(), "models": models}

    async def _logs(self, model: Model, request: Request, receive: Receive, send: Send) -> None:
        try:
            named = self._named(request) or model
            lines = _count(request.parameter("lines"))
        except UsageError as error:
            await send_answer(send, answers.refusal(400, str(error)))
            return
        log = self._log_of(named.key)
        if isinstance(named, ExternalModel):
            said = f"{named.key!r} is a server that somebody else runs: it has no log here"
            await send_answer(send, answers.refusal(404, said, "not_found_error"))
        elif log is None:
            await send_answer(send, answers.refusal(404, f"{named.key!r} has no log here", "not_found_error"))
        elif request.parameter("follow") in (None, "", "0", "false"):
            text = "".join(f"{line}\n" for line in log.tail(lines))
            await send_answer(send, answers.text_answer(text, _TEXT, ((b"x-content-type-options", b"nosniff"),)))
        else:
            await while_there(receive, _follow(send, log, lines))


async def _follow(send: Send, log: Log, lines: int) -> None:
    headers = ((b"content-type", _TEXT.encode()), (b"x-content-type-options", b"nosniff"))
    await send_head(send, 200, (*headers, (b"x-accel-buffering", b"no")))
    async for line in log.follow(lines):
        await send_piece(send, f"{line}\n".encode("utf-8", "replace"))
    await send_end(send)


def _count(text: str | None) -> int:
    if text is None:
        return _LINES
    if not text.isdecimal() or not 0 < int(text[:9]) <= _MOST_LINES:
        raise UsageError(f"lines: expected a number from 1 to {_MOST_LINES}, got {text[:40]!r}")
    return int(text)
