"""Stand-ins for what lies behind the HTTP of the supervisor: a desk without processes, servers of a few bytes, clients.

The fake desk hands out addresses, and misbehaves on order; it counts what was asked of it. Raw servers say exactly
what a test wants said.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from whitedwarf.supervisor.app import App, make_app
from whitedwarf.supervisor.config import Backend, ExternalModel, ManagedModel, Model, SupervisorConfig
from whitedwarf.supervisor.control import no_log
from whitedwarf.supervisor.failures import StartFailedError
from whitedwarf.supervisor.front import Front
from whitedwarf.supervisor.limits import Overflow
from whitedwarf.supervisor.status import Event, EventKind, ModelStatus, State
from whitedwarf.supervisor.upstream import Address
from whitedwarf.web.sockets import bound_socket

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class FakeRunning:
    """A model at an address; no process."""

    address: Address
    context_size: int = 4096
    pid: int = 4711
    has_exited: bool = False
    warnings: tuple[str, ...] = ()

    def tail(self, lines: int = 20) -> tuple[str, ...]:
        return ("its last words",)

    async def wait_exit(self) -> int:
        return 0

    async def stop(self) -> None:
        self.has_exited = True


class FakeVisit:
    """A stay."""

    def __init__(self, desk: "FakeDesk", running: FakeRunning) -> None:
        self._desk = desk
        self._has_renewed = False
        self.running = running

    @asynccontextmanager
    async def until_stopped(self) -> AsyncIterator[None]:
        yield

    async def renew(self) -> FakeRunning:
        if self._has_renewed:
            raise StartFailedError("renewed twice", is_permanent=False)
        self._has_renewed = True
        self._desk.renewals += 1
        if self._desk.renewed is not None:
            self.running = FakeRunning(self._desk.renewed)
        return self.running


@dataclass
class FakeLimit:
    """A limit that says what it was told to."""

    says: Overflow | None = None
    asked: list[str] = field(default_factory=list)

    async def check(self, running: FakeRunning, target: str, body: bytes) -> Overflow | None:
        self.asked.append(target)
        return self.says


class FakeDesk:
    """Everything is loaded, at `address`, unless `is_loaded` is false; `gate` holds visits up; `fails` ends them."""

    def __init__(self, config: SupervisorConfig, address: Address) -> None:
        self.config = config
        self.running = FakeRunning(address)
        self.renewed: Address | None = None
        self.is_loaded = True
        self.fails: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.over = FakeLimit()
        self.loading_text: str | None = None
        self.in_flight = self.waiting = self.renewals = 0
        self.visits: list[tuple[str, float | None]] = []
        self.orders: list[tuple[Any, ...]] = []
        self.events: asyncio.Queue[Event | None] = asyncio.Queue()
        self.is_quiet = asyncio.Event()

    @asynccontextmanager
    async def visit(self, key: str, *, keep_alive_s: float | None = None) -> AsyncIterator[FakeVisit]:
        self.visits.append((key, keep_alive_s))
        self.is_quiet.clear()
        self.waiting += 1
        try:
            await self.gate.wait()
        finally:
            self.waiting -= 1
            if not self.in_flight and not self.waiting:
                self.is_quiet.set()
        if self.fails is not None:
            raise self.fails
        self.is_loaded = True
        self.in_flight += 1
        self.is_quiet.clear()
        try:
            yield FakeVisit(self, self.running)
        finally:
            self.in_flight -= 1
            if not self.in_flight and not self.waiting:
                self.is_quiet.set()

    def peek(self, key: str) -> FakeRunning | None:
        return self.running if self.is_loaded else None

    def limit(self, key: str) -> FakeLimit:
        return self.over

    async def start(self, key: str) -> None:
        self.orders.append(("start", key))
        if self.fails is not None:
            raise self.fails
        self.is_loaded = True

    async def unload(self, key: str | None = None, *, drain: bool = False) -> tuple[str, ...]:
        self.orders.append(("unload", key, drain))
        was_loaded, self.is_loaded = self.is_loaded, False
        return (key or self.config.models[0].key,) if was_loaded else ()

    def status(self) -> tuple[ModelStatus, ...]:
        return tuple(map(self._status, self.config.models))

    async def subscribe(self) -> AsyncIterator[Event]:
        while (event := await self.events.get()) is not None:
            yield event

    def happens(self, text: str) -> None:
        self.events.put_nowait(Event(EventKind.LOADED, "one", 1.5, text))

    def _status(self, model: Model) -> ModelStatus:
        waits = State.LOADING if self.waiting or self.loading_text else State.UNLOADED
        return ModelStatus(
            key=model.key,
            alias=model.alias,
            kind="managed" if isinstance(model, ManagedModel) else "external",
            state=State.LOADED if self.is_loaded else waits,
            public_port=model.public_port,
            in_flight=self.in_flight,
            waiting=self.waiting,
            loading_text=self.loading_text,
        )


def managed(port: int, key: str = "one", **more: Any) -> ManagedModel:
    said: dict[str, Any] = {"alias": key, "path": Path("/m.gguf"), "internal_port": 1, "program": ("x",), **more}
    return ManagedModel(key=key, public_port=port, backend=Backend.LLAMA_SERVER, arguments=(), **said)


def external(port: int, url: str, key: str = "far") -> ExternalModel:
    return ExternalModel(key=key, alias=key, url=url, public_port=port)


@dataclass
class Supervised:
    """A front that listens, with everything that a test may want to touch."""

    port: int
    desk: FakeDesk
    app: App
    front: Front
    ports: tuple[int, ...]


@asynccontextmanager
async def supervised(
    address: Address, *, kinds: tuple[str, ...] = ("managed",), keys: Any = None, log_of: Any = no_log, **settings: Any
) -> AsyncIterator[Supervised]:
    """A front over a fake desk whose models are all at `address`; one port for each of `kinds`."""
    sockets = [bound_socket("127.0.0.1", 0) for _ in kinds]
    ports = tuple(one.getsockname()[1] for one in sockets)
    names = ["one", "two", "three"]
    models: list[Model] = []
    for kind, port, name in zip(kinds, ports, names, strict=False):
        url = f"http://{address.authority}{address.prefix}"
        models.append(managed(port, name) if kind == "managed" else external(port, url, name))
    folder = Path("/nowhere")
    config = SupervisorConfig(
        source=folder / "models.json", models=tuple(models), state_folder=folder, log_folder=folder, **settings
    )
    async with asyncio.timeout(30):
        desk = FakeDesk(config, address)
        app = make_app(config, desk, keys, log_of)  # type: ignore[arg-type]
        front = Front(app)
        await front.listen(sockets)
        try:
            yield Supervised(ports[0], desk, app, front, ports)
        finally:
            await front.close(0)


@asynccontextmanager
async def server(talk: Talk) -> AsyncIterator[Address]:
    """A server that says what `talk` says, once for each connection."""
    running: set[asyncio.Task[None]] = set()

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        try:
            await talk(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            running.discard(task)
            writer.close()

    listener = await asyncio.start_server(once, "127.0.0.1", 0)
    try:
        yield Address("127.0.0.1", listener.sockets[0].getsockname()[1])
    finally:
        listener.close()
        for task in list(running):
            task.cancel()
        if running:
            await asyncio.wait(running)


async def read_request(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Head and body of what came."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        (int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")), 0
    )
    return head, await reader.readexactly(length)


async def left(reader: asyncio.StreamReader) -> None:
    """Wait until the other side has gone."""
    with suppress(ConnectionError):
        while await reader.read(1 << 16):
            pass


def answer(body: bytes, status: bytes = b"200 OK", kind: bytes = b"application/json") -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s" % (status, kind, len(body), body)


STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX-Accel-Buffering: no\r\nTransfer-Encoding: chunked\r\n\r\n"
)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def post(body: bytes | dict[str, Any], path: str = "/v1/chat/completions", more: bytes = b"") -> bytes:
    """A request in bytes."""
    data = json.dumps(body).encode() if isinstance(body, dict) else body
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n".encode()
    return head + more + b"Content-Length: %d\r\n\r\n" % len(data) + data


def get(path: str, more: bytes = b"", method: str = "GET") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n".encode() + more + b"\r\n"


class Client:
    """One connection, in bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def to(cls, port: int) -> "Client":
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 22))

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def head(self) -> tuple[int, dict[str, str]]:
        """The next head that is not an interim one."""
        while True:
            raw = await self.reader.readuntil(b"\r\n\r\n")
            first, *lines = raw.decode("latin-1").split("\r\n")[:-2]
            status = int(first.split(" ")[1])
            if status >= 200:
                return status, {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}

    async def body(self, headers: dict[str, str]) -> bytes:
        if "content-length" in headers:
            return await self.reader.readexactly(int(headers["content-length"]))
        parts = []
        while piece := await self.piece():
            parts.append(piece)
        return b"".join(parts)

    async def piece(self) -> bytes:
        """The next chunk; b"" for the last. IncompleteReadError where the connection was cut."""
        size = int((await self.reader.readuntil(b"\r\n")).strip(), 16)
        data = await self.reader.readexactly(size)
        await self.reader.readexactly(2)
        return data

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        status, headers = await self.head()
        return status, headers, await self.body(headers)

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()


async def asked(port: int, request: bytes) -> tuple[int, dict[str, str], bytes]:
    """One exchange on a connection of its own."""
    client = await Client.to(port)
    try:
        await client.send(request)
        status, headers = await client.head()
        if request.startswith((b"HEAD",)):
            return status, headers, b""
        return status, headers, await client.body(headers)
    finally:
        await client.close()


DOWN_STATUS = ModelStatus(key="one", alias="one", kind="managed", state=State.UNLOADED, public_port=1)
