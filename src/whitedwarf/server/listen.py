"""uvicorn with our manners: bounded headers, deadlines for sending them and for reading answers, an orderly end.

Promises: there are never more than MAX_CONNECTIONS, and those that have asked for nothing make room for new ones, so
that a flood of silent connections keeps nobody out; after the first SIGTERM or SIGINT no new connection is taken,
running answers may end for `drain_s`, then they are told to be over; a second signal ends the process at once with 130.
Does not know what the application does.
"""

import asyncio
import logging
import os
import resource
import socket
import time
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

import anyio
import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS = 1000
"""And no more than half of the files that the process may have open."""
MAX_HEADER_BYTES = 64 << 10
HEADER_TIMEOUT_S = 10.0
STALL_TIMEOUT_S = 30.0
"""How long a client may leave what was sent to it unread."""
_IDLE_TIMEOUT_S = 75  # longer than clients keep unused connections, so that they close them first
_LAST_WORDS_S = 5.0  # for telling clients that answers are over
_INTERRUPTED = 130
_log = logging.getLogger(__name__)


class BoundedProtocol(H11Protocol):
    """Drops connections whose next request does not come to the end of its headers, or whose client does not read."""

    _deadline: asyncio.TimerHandle | None = None
    _stall: asyncio.TimerHandle | None = None
    since_s = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.since_s = time.monotonic()
        # Whatever the client leaves unread is noticed, also the last words of an answer.
        transport.set_write_buffer_limits(high=0)
        self._start_deadline()
        _make_room(self.connections)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_between_requests():
            self._start_deadline()
        else:
            self._stop_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_deadline()
        self._stop_stall()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        # Aborted, because closing would wait for the client to read what is left.
        self._stall = self.loop.call_later(STALL_TIMEOUT_S, self.transport.abort)

    def resume_writing(self) -> None:
        self._stop_stall()
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """What came is no HTTP; there is nothing to say where an answer has been begun."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
            if self.cycle is not None:
                self.cycle.disconnected = True  # or the application would answer once more
                self.cycle.message_event.set()
        else:
            self.transport.close()

    @property
    def is_owed_an_answer(self) -> bool:
        """Whether a whole request has come that was not answered yet."""
        return not self._is_between_requests() and not self.cycle.more_body

    def _stop_stall(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def _is_between_requests(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _start_deadline(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(HEADER_TIMEOUT_S, self._close_if_late)

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _close_if_late(self) -> None:
        self._deadline = None
        if self._is_between_requests():
            self.transport.close()


def most_connections() -> int:
    """How many there may be: files are needed for other things, too."""
    return min(MAX_CONNECTIONS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)


def _make_room(connections: Iterable[Any]) -> None:
    """Where there are too many, drop one: the oldest that is not owed an answer; the new one is among them."""
    live = [one for one in connections if isinstance(one, BoundedProtocol) and not one.transport.is_closing()]
    if len(live) > most_connections():
        idle = (one for one in live if not one.is_owed_an_answer)
        min(idle, key=lambda one: one.since_s).transport.abort()


class Server(uvicorn.Server):
    """One listening server. `hurry` ends running answers early; it may block, and runs in a thread.

    `announce` is called once requests are answered and signals end it in order. It also ends, in order, when what it
    serves is not `is_alive` any more: who watches over it starts it again.
    """

    def __init__(
        self,
        app: ASGIApp,
        drain_s: float,
        hurry: Callable[[], None],
        announce: Callable[[], None] = lambda: None,
        is_alive: Callable[[], bool] = lambda: True,
    ) -> None:
        config = uvicorn.Config(
            app,
            http=BoundedProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=MAX_HEADER_BYTES,
            timeout_keep_alive=_IDLE_TIMEOUT_S,
        )
        super().__init__(config)
        self._drain_s = drain_s
        self._hurry = hurry
        self._announce = announce
        self._is_alive = is_alive
        self.has_died = False

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal came. It is not raised again after an orderly end, which uvicorn would do."""
        if self.should_exit:
            os._exit(_INTERRUPTED)  # at once: neither the loop nor the engine may be able to end
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer."""
        await super().startup(sockets)
        self._announce()

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second: whether to end."""
        self.has_died = not self._is_alive()
        return await super().on_tick(counter) or self.has_died

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let running answers end, but not for ever."""
        live = (one for one in self.server_state.connections if isinstance(one, BoundedProtocol))
        running = sum(one.is_owed_an_answer for one in live)
        _log.info("stopping", extra={"running": running, "drain_s": self._drain_s})
        deadline = asyncio.create_task(self._hurry_later())
        try:
            await super().shutdown(sockets)
        finally:
            deadline.cancel()

    async def _hurry_later(self) -> None:
        await asyncio.sleep(self._drain_s)
        await anyio.to_thread.run_sync(self._hurry)
        await asyncio.sleep(_LAST_WORDS_S)
        for connection in list(self.server_state.connections):
            connection.transport.abort()  # a client that does not read must not keep us here
