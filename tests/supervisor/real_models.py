"""Models that are none of ours to fake, in a supervisor's config, and what is said to them."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil

from supervisor.children import free_port
from supervisor.supervisors import JSON, Supervisor
from whitedwarf.supervisor.upstream import Answer, Exchange, ask

NANO = Path(__file__).resolve().parents[2] / "src" / "whitedwarf" / "data" / "nano.gguf"


def entry(key: str, path: Path, **more: Any) -> dict[str, Any]:
    ports = {"publicPort": free_port(), "internalPort": free_port()}
    return {"name": key, "path": str(path), **ports, **more}


def pids_of(it: Supervisor) -> list[int]:
    return [child.pid for child in psutil.Process(it.pid).children()]


@asynccontextmanager
async def counting_processes(it: Supervisor) -> AsyncIterator[list[int]]:
    """How many model processes there were, looked at again and again within the block."""
    seen: list[int] = []

    async def look() -> None:
        while True:
            seen.append(len(pids_of(it)))
            await asyncio.sleep(0.01)

    looking = asyncio.create_task(look())
    try:
        yield seen
    finally:
        looking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await looking


async def say(it: Supervisor, key: str, text: str, **more: Any) -> Answer:
    body = {"messages": [{"role": "user", "content": text}], "temperature": 0, **more}
    return await ask(it.address(key), "POST", "/v1/chat/completions", JSON, json.dumps(body).encode(), timeout_s=60)


def content(answer: Answer) -> str:
    assert answer.status == 200, answer.body
    return str(json.loads(answer.body)["choices"][0]["message"]["content"])


async def rest(exchange: Exchange) -> bytes:
    return b"".join([piece async for piece in exchange.pieces()])
