"""uvicorn with our manners: bounded headers, deadlines for sending them and for reading answers, an orderly end.

Promises: there are never more connections than web/connections.py allows, and those that have asked for nothing make
room for new ones, so that a flood of silent connections keeps nobody out; after the first SIGTERM or SIGINT no new
connection is taken, running answers may end for `drain_s`, then they are told to be over; a second signal ends the
process at once with 130. Does not know what the application does.
"""

import asyncio
import logging
import os
import socket
import time
from collections.abc import Callable
from types import FrameType

import anyio
import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from whitedwarf.web.connections import MAX_HEAD_BYTES, Timer, make_room

HEADER_TIMEOUT_S = 10.0
STALL_TIMEOUT_S = 30.0
"""How long a client may leave what was sent to it unread."""
_IDLE_TIMEOUT_S = 75  # longer than clients keep unused connections, so that they close them first
_LAST_WORDS_S = 5.0  # for telling clients that answers are over
_INTERRUPTED = 130
_log = logging.getLogger(__name__)


class BoundedProtocol(H11Protocol):
    """Drops connections whose next request does not come to the end of its headers, or whose client does not read."""

    since_s = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._deadline = Timer(self._close_if_late)
        self._stall = Timer(transport.abort)  # closing would wait for the client to read what is left
        super().connection_made(transport)
        self.since_s = time.monotonic()
        # Whatever the client leaves unread is noticed, also the last words of an answer.
        transport.set_write_buffer_limits(high=0)
        self._deadline.start(self.loop, HEADER_TIMEOUT_S)
        make_room(one for one in self.connections if isinstance(one, BoundedProtocol))

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_between_requests():
            self._deadline.start(self.loop, HEADER_TIMEOUT_S)
        else:
            self._deadline.stop()

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.stop()
        self._stall.stop()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stall.start(self.loop, STALL_TIMEOUT_S)

    def resume_writing(self) -> None:
        self._stall.stop()
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

    def _is_between_requests(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _close_if_late(self) -> None:
        if self._is_between_requests():
            self.transport.close()


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
            h11_max_incomplete_event_size=MAX_HEAD_BYTES,
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
