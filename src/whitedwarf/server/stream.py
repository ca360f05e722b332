"""From a running answer to what goes over the wire, and back: the news that the client has gone.

Promises: the first bytes go out at once; a client never waits longer than KEEPALIVE_S for a sign of life; every `data:`
line is JSON in UTF-8; when the client leaves, the answer is cancelled — streaming or not, queueing, prefilling or
decoding; an answer of which much is there at once lets others have their turn. A client that does not read counts as
one that left: see listen.py.
"""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from typing import Any

import anyio
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from whitedwarf.engine.event_feed import EventFeed
from whitedwarf.errors import WhitedwarfError
from whitedwarf.protocol.dialects import Dialect, Told
from whitedwarf.reply import Answering

log = logging.getLogger(__name__)

KEEPALIVE_S = 4.0


async def told_pieces(reply: Answering, keepalive_s: float = KEEPALIVE_S) -> AsyncGenerator[list[Told], None]:
    """The answer piece by piece, with signs of life where nothing else comes; the first one at once."""
    feed: EventFeed[Any] = EventFeed(reply.generation)
    yield reply.begin()
    while not reply.is_over:
        yield await _next_told(reply, feed, keepalive_s)


async def _next_told(reply: Answering, feed: EventFeed[Any], keepalive_s: float) -> list[Told]:
    """What is told next. Progress that is not told (a prompt being read) does not put off the sign of life."""
    loop = asyncio.get_running_loop()
    due_s = loop.time() + keepalive_s
    while True:
        events = await feed.next(max(0.0, due_s - loop.time()))
        if (told := taken(reply, events)) or reply.is_over:
            return told
        if loop.time() >= due_s:
            return reply.keepalive()


def taken(reply: Answering, events: list[Any]) -> list[Told]:
    """What tells the events; a bug of ours still ends the answer in the dialect's own way."""
    try:
        return reply.take(events)
    except Exception:
        log.exception("answer_failed")
        return reply.fail(WhitedwarfError("the server failed while it told this answer; its log says why"))


async def collect_all(reply: Answering) -> None:
    """The answer to its end, for its body: without signs of life."""
    feed: EventFeed[Any] = EventFeed(reply.generation)
    reply.collect(reply.begin())
    while not reply.is_over:
        reply.collect(taken(reply, await feed.next()))


def wire(told: Iterable[Told], dialect: Dialect) -> bytes:
    """Server-sent events."""
    return "".join([_event(event, dialect) for event in told]).encode()


def _event(event: Told, dialect: Dialect) -> str:
    data = json.dumps(event, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return f"event: {event['type']}\ndata: {data}\n\n" if dialect.names_events else f"data: {data}\n\n"


async def unless_gone(receive: Receive, work: Callable[[], Awaitable[None]]) -> bool:
    """Do the work while the client is there; whether it was to the end. The body has to be read before.

    No server cancels a handler that is not streaming (spec/libraries.md 2), so it is done here for both kinds.
    """
    is_done = False
    async with anyio.create_task_group() as group:
        group.start_soon(_cancel_when_gone, receive, group.cancel_scope)
        await work()
        is_done = True
        group.cancel_scope.cancel()
    return is_done


async def _cancel_when_gone(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


class StreamedReply(Response):
    """An answer as server-sent events; `close` runs when it has ended, one way or another."""

    def __init__(
        self,
        reply: Answering,
        dialect: Dialect,
        headers: Mapping[str, str],
        close: Callable[[], None],
        keepalive_s: float = KEEPALIVE_S,
    ) -> None:
        super().__init__(
            headers={**headers, "cache-control": "no-cache", "x-accel-buffering": "no"}, media_type="text/event-stream"
        )
        del self.headers["content-length"]
        self._reply = reply
        self._dialect = dialect
        self._close = close
        self._keepalive_s = keepalive_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await unless_gone(receive, lambda: self._tell(send))
        finally:
            self._reply.leave()
            self._close()

    async def _tell(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async with contextlib.aclosing(told_pieces(self._reply, self._keepalive_s)) as pieces:
            async for told in pieces:
                await send({"type": "http.response.body", "body": wire(told, self._dialect), "more_body": True})
        await send({"type": "http.response.body", "body": self._last_line(), "more_body": False})

    def _last_line(self) -> bytes:
        is_told = self._reply.failure is None and self._dialect.last_line is not None
        return f"data: {self._dialect.last_line}\n\n".encode() if is_told else b""
