"""Hundreds of requests while everything breaks that can: what became of each, and who broke what. Repeatable by seed.

Requests: whole and streamed answers, clients that leave, servers that die before or within an answer or say nothing.
Troubles meanwhile: the model's process killed, the supervisor killed and started again, suspended (a clock that jumps),
told to unload or to read its config again, and a stranger on an internal port who says that all is well.
"""

import asyncio
import contextlib
import json
import os
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from supervisor.supervisors import Supervisor
from whitedwarf.supervisor.failures import UpstreamCutError, UpstreamDownError
from whitedwarf.supervisor.upstream import Exchange, begin

KINDS = {"whole": 8, "stream": 8, "leaves": 3, "dies first": 1, "dies within": 1, "is cut": 1, "says nothing": 1}
LONGEST_S = 40.0
"""No request takes longer, whatever happens to it."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A request before it is made."""

    number: int
    key: str
    kind: str

    def body(self) -> bytes:
        fake: dict[str, object] = {"events": 5, "pause_s": 0.01}
        fake |= {
            "leaves": {"events": 500},
            "dies first": {"before": "die"},
            "dies within": {"then": "die"},
            "is cut": {"then": "cut"},
            "says nothing": {"before": "hang"},
        }.get(self.kind, {})
        text = f"request {self.number}"
        whole = {"messages": [{"role": "user", "content": text}], "mark": text, "fake": fake}
        return json.dumps({**whole, "stream": self.kind != "whole"}).encode()


@dataclass(slots=True)
class Tally:
    """What became of all requests. `wrong`: neither an answer nor one clear error."""

    outcomes: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    troubles: Counter[str] = field(default_factory=Counter)


def plans(seed: int, count: int, keys: str) -> list[Plan]:
    chance = random.Random(seed)
    kinds = chance.choices(list(KINDS), weights=list(KINDS.values()), k=count)
    return [Plan(number, chance.choice(keys), kind) for number, kind in enumerate(kinds)]


async def run(it: Supervisor, wanted: list[Plan], seed: int, at_once: int = 8) -> Tally:
    """Make all requests, some at once, with trouble after every ten or so."""
    tally, waiting = Tally(), iter(wanted)
    trouble = Trouble(it, random.Random(seed + 1), tally)

    async def ask_on() -> None:
        for plan in waiting:
            outcome = await _outcome(it, plan)
            tally.outcomes[outcome] += 1
            if outcome.startswith("wrong"):
                tally.wrong.append(f"{plan}: {outcome}")
            if outcome == "no connection":
                await trouble.over()
            elif plan.number % 12 == 11:
                await trouble.make()

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(ask_on())
    await trouble.end()
    return tally


async def _outcome(it: Supervisor, plan: Plan) -> str:
    try:
        async with asyncio.timeout(LONGEST_S):
            return await _ask(it, plan)
    except UpstreamCutError:
        return "cut"
    except UpstreamDownError:
        return "no connection"
    except TimeoutError:
        return "wrong: no end"


async def _ask(it: Supervisor, plan: Plan) -> str:
    exchange = begin(it.address(plan.key), "POST", "/v1/chat/completions", (), plan.body())
    if plan.kind == "says nothing":
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                return await _read(await exchange, plan)
        return "left"
    return await _read(await exchange, plan)


async def _read(exchange: Exchange, plan: Plan) -> str:
    async with exchange:
        if exchange.status == 200 and plan.kind == "leaves":
            await exchange.next_bytes()
            return "left"
        said = b"".join([piece async for piece in exchange.pieces()])
    if exchange.status != 200:
        return _refusal(exchange.status, said)
    return _answer(said, plan)


def _refusal(status: int, said: bytes) -> str:
    try:
        message = json.loads(said)["error"]["message"]
    except (ValueError, KeyError, TypeError):
        return f"wrong: {status} {said[:200]!r}"
    return str(status) if message else f"wrong: {status} without words"


def _answer(said: bytes, plan: Plan) -> str:
    if plan.kind == "whole":
        value = json.loads(said)
        is_right = value["mark"] == f"request {plan.number}" and value["model"] == plan.key
    else:
        is_right = said.endswith(b"data: [DONE]\n\n") and f'"model": "{plan.key}"'.encode() in said
    return "answer" if is_right else f"wrong: {said[-300:]!r}"


class Trouble:
    """Makes some, one kind after the other in any order, and takes back what has to be taken back."""

    def __init__(self, it: Supervisor, chance: random.Random, tally: Tally) -> None:
        self._it = it
        self._chance = chance
        self._tally = tally
        self._strangers = contextlib.AsyncExitStack()
        self._is_over = asyncio.Event()
        self._is_over.set()

    async def over(self) -> None:
        """Wait until what is being made has been made: who is told to wait does not ask at once again."""
        await self._is_over.wait()

    async def make(self) -> None:
        """One trouble, unless another one is being made."""
        if not self._is_over.is_set():
            return
        self._is_over.clear()
        makes = (self._kill_child, self._kill_child, self._unload, self._suspend, self._reload, self._steal, self._kill)
        make = self._chance.choice(makes)
        self._tally.troubles[make.__name__.strip("_")] += 1
        try:
            await make()
        finally:
            self._is_over.set()

    async def end(self) -> None:
        await self._strangers.aclose()

    async def _kill_child(self) -> None:
        living = self._it.living()
        if living:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._chance.choice(living), signal.SIGKILL)

    async def _unload(self) -> None:
        await self._it.order(self._chance.choice(self._it.config["models"])["name"], "unload")

    async def _suspend(self) -> None:
        os.kill(self._it.pid, signal.SIGSTOP)
        await asyncio.sleep(0.5)
        os.kill(self._it.pid, signal.SIGCONT)

    async def _reload(self) -> None:
        for model in self._it.config["models"]:
            model["idleTimeoutSec"] = self._chance.choice([0.5, 5, 500])
        self._it.write(self._it.config)
        os.kill(self._it.pid, signal.SIGHUP)

    async def _steal(self) -> None:
        await self._strangers.aclose()
        port = self._chance.choice(self._it.config["models"])["internalPort"]
        with contextlib.suppress(OSError):  # its model is up
            await self._strangers.enter_async_context(stranger(port))

    async def _kill(self) -> None:
        """And somebody starts it again, as systemd would."""
        os.kill(self._it.pid, signal.SIGKILL)
        await self._it.code()
        self._it.said.write_text("")
        await self._it.begin()
        await self._it.ready()


@asynccontextmanager
async def stranger(port: int) -> AsyncIterator[None]:
    """Somebody else's server, which finds itself healthy and answers everything."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            body = b'{"status":"ok","mark":"of a stranger","model":"stranger"}'
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
            writer.write(head + body)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", port)
    try:
        yield
    finally:
        server.close()
