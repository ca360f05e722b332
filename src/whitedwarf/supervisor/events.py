"""What happens, as a stream of server-sent events for whoever watches: a snapshot first, then each event.

Promises: one event a message, nothing of a prompt; a comment now and then keeps the connection alive. Does not know
who watches.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import asdict
from typing import TypeVar

from whitedwarf.supervisor.answers import json_bytes
from whitedwarf.supervisor.asgi import Send, send_end, send_head, send_piece
from whitedwarf.supervisor.early import SSE_HEADERS
from whitedwarf.supervisor.status import Event

PING_EVERY_S = 15.0
Item = TypeVar("Item")


def message(kind: str, value: object) -> bytes:
    """One event."""
    return b"event: " + kind.encode() + b"\ndata: " + json_bytes(value) + b"\n\n"


async def stream_events(send: Send, snapshot: object, events: AsyncIterator[Event]) -> None:
    """Until there are no more."""
    await send_head(send, 200, SSE_HEADERS)
    await send_piece(send, message("status", snapshot))
    async with aclosing(with_pings(events, PING_EVERY_S)) as steps:
        async for event in steps:
            await send_piece(send, b":\n\n" if event is None else message(event.kind.value, asdict(event)))
    await send_end(send)


async def with_pings(items: AsyncIterator[Item], every_s: float) -> AsyncGenerator[Item | None, None]:
    """The same items, and None whenever none came for so long."""
    upcoming: asyncio.Task[Item] | None = None
    try:
        while True:
            upcoming = upcoming or asyncio.ensure_future(anext(items))
            done, _ = await asyncio.wait([upcoming], timeout=every_s)
            if not done:
                yield None
                continue
            try:
                item = upcoming.result()
            except StopAsyncIteration:
                return
            upcoming = None
            yield item
    finally:
        if upcoming is not None and not upcoming.done():
            upcoming.cancel()
            await asyncio.wait([upcoming])
