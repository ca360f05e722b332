"""A real supervisor in a process of its own, over stand-ins for llama-server, and clients of it."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from supervisor.children import LLAMA_CHILD, events, free_port, is_alive, until
from whitedwarf.supervisor.failures import UpstreamDownError
from whitedwarf.supervisor.upstream import Address, Answer, Exchange, ask, begin

JSON = ((b"Content-Type", b"application/json"),)


class Supervisor:
    """One that runs, or has ended."""

    def __init__(self, folder: Path, config: dict[str, Any]) -> None:
        self.folder = folder
        self.source = folder / "models.json"
        self.said = folder / "said"
        self.config = config
        self.process: asyncio.subprocess.Process | None = None
        self.write(config)

    def write(self, config: dict[str, Any]) -> None:
        self.config = config
        self.source.write_text(json.dumps(config))

    async def begin(self) -> None:
        with self.said.open("ab") as said:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "whitedwarf.supervisor", str(self.source), stdin=asyncio.subprocess.DEVNULL,
                stdout=said, stderr=said
            )  # fmt: skip

    @property
    def text(self) -> str:
        return self.said.read_text(encoding="utf-8") if self.said.exists() else ""

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    async def code(self) -> int:
        assert self.process is not None
        return await self.process.wait()

    async def ready(self) -> None:
        last = self.config["models"][-1]["publicPort"]
        await until(lambda: f"listening port={last}" in self.text or (self.process and self.process.returncode))

    async def end(self, number: int = signal.SIGTERM) -> int:
        os.kill(self.pid, number)
        return await self.code()

    def address(self, key: str) -> Address:
        model = next(one for one in self.config["models"] if one["name"] == key)
        return Address("127.0.0.1", model["publicPort"])

    async def get(self, key: str, target: str) -> Answer:
        return await ask(self.address(key), "GET", target, timeout_s=20)

    async def order(self, key: str, target: str) -> Answer:
        return await ask(self.address(key), "POST", f"/__supervisor/{target}", timeout_s=30)

    async def status(self, key: str) -> dict[str, Any]:
        found = json.loads((await self.get(key, "/__supervisor/status")).body)["models"]
        return next(one for one in found if one["key"] == key)

    async def chat(self, key: str, words: str = "hi", **more: Any) -> Answer:
        body = {"messages": [{"role": "user", "content": words}], **more}
        return await ask(
            self.address(key), "POST", "/v1/chat/completions", JSON, json.dumps(body).encode(), timeout_s=30
        )

    async def stream(self, key: str, **fake: Any) -> Exchange:
        """A stream whose first event has come."""
        body = {"messages": [{"role": "user", "content": "go"}], "stream": True, "fake": {"pause_s": 0.05, **fake}}
        exchange = await begin(self.address(key), "POST", "/v1/chat/completions", JSON, json.dumps(body).encode())
        assert await exchange.next_bytes()
        return exchange

    def children(self, what: str = "born") -> list[dict[str, Any]]:
        return [event for event in events(self.folder / "events") if event["what"] == what]

    def living(self) -> list[int]:
        return [child["pid"] for child in self.children() if is_alive(child["pid"])]

    async def is_listening(self, port: int) -> bool:
        try:
            await ask(Address("127.0.0.1", port), "GET", "/health", timeout_s=5)
        except UpstreamDownError:
            return False
        return True


async def read_to_the_end(stream: Exchange) -> None:
    while await stream.next_bytes():
        pass


def config_of(folder: Path, *keys: str, words: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    """Models of these names, each with a stand-in that gets these words."""
    return {
        "llamaServer": {"bin": sys.executable, "args": [str(LLAMA_CHILD), "--log", str(folder / "events"), *words]},
        "stateDir": str(folder / "state"),
        "logDir": str(folder / "logs"),
        "startSettleSec": 0,
        "checkIntervalSec": 0.2,
        "models": [model_of(folder, key) for key in keys],
        **more,
    }


def model_of(folder: Path, key: str, **more: Any) -> dict[str, Any]:
    (folder / f"{key}.gguf").touch()
    ports = {"publicPort": free_port(), "internalPort": free_port()}
    return {
        "name": key,
        "path": str(folder / f"{key}.gguf"),
        "backend": "llama-server",
        "keepsState": False,
        **ports,
        **more,
    }


@asynccontextmanager
async def supervisor(folder: Path, config: dict[str, Any], limit_s: float = 60) -> AsyncIterator[Supervisor]:
    """Whatever happens, nothing of it is left; it is checked that it left nothing itself, if it was ended."""
    made = Supervisor(folder, config)
    async with asyncio.timeout(limit_s):
        await made.begin()
        try:
            await made.ready()
            yield made
        finally:
            if made.process is not None and made.process.returncode is None:
                await made.end(signal.SIGTERM)
            left = made.living()
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            assert left == []
