"""The sockets that clients connect to: uvicorn's httptools protocol with our manners, without uvicorn's server.

Promises: heads of requests are bounded in size and time, connections in number, and those that have asked for nothing
make room for new ones; pipelined requests are answered in their order; a client that has only ended its own side
(shutdown(WR)) gets its answers, while one that has gone is noticed at once; the end is orderly and bounded. Nothing
ticks while nothing happens, no header is added to answers, and no signal is touched. Does not know what the
application does.

Not uvicorn.Server: that wakes ten times a second and takes the signals.
"""

import asyncio
import logging
import socket
import time
from collections.abc import Iterable
from functools import partial
from typing import Any

import httptools
import uvicorn
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from whitedwarf.supervisor.asgi import WRITE, Application
from whitedwarf.web.connections import MAX_HEAD_BYTES, Timer, make_room

MOST_PIPELINED = 64
_READ_AT_ONCE_BYTES = 16 << 10
HEAD_TIMEOUT_S = 10.0
STALL_TIMEOUT_S = 60.0
"""How long a client may leave what was sent to it unread."""
IDLE_TIMEOUT_S = 75  # longer than clients keep unused connections, so that they close them first
PROBE_AFTER_S = (0.0, 0.05, 0.5, 2.0)
"""When a client that ended its side is asked whether it is still there: the second answer tells."""
_BACKLOG = 512

_SILENT = logging.Logger("uvicorn told nobody", logging.CRITICAL + 1)
"""uvicorn has a line for each answer that was cut, which is ordinary here."""


class _Flow(FlowControl):
    """uvicorn's, which goes on reading whenever a request is looked at, whatever waits behind it."""

    is_held = False

    def resume_reading(self) -> None:
        if not self.is_held:
            super().resume_reading()


class FrontProtocol(HttpToolsProtocol):
    """One connection."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.logger = _SILENT
        self.access_log = False
        self.since_s = time.monotonic()
        self._answering: RequestResponseCycle | None = None
        self._is_in_head = False
        self._is_between_messages = True
        self._fresh_bytes = 0  # of what is being read, where a request begins with it
        self._raw_head_bytes = 0
        self._head_bytes = 0  # of its names and values, also when it comes in one piece
        self._deadline = Timer(self._close_if_late)
        # Aborted, because closing would wait for the client to read what is left.
        self._stall = Timer(lambda: self.transport.abort())
        self._probe: asyncio.TimerHandle | None = None
        self._held = b""  # has come, and is read later

    @property
    def is_owed_an_answer(self) -> bool:
        """Whether a whole request has come that was not answered yet."""
        if self._answering is None or self._answering.response_complete:
            return False
        return self._answering is not self.cycle or not self.cycle.more_body

    # asyncio calls these

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow: _Flow = _Flow(transport)
        self._deadline.start(self.loop, HEAD_TIMEOUT_S)
        make_room(one for one in self.connections if isinstance(one, FrontProtocol))

    def data_received(self, data: bytes) -> None:
        self._held += data
        self._go_on_reading()

    def _go_on_reading(self) -> None:
        """As long as there is not too much to answer already: who sends on and on without reading waits."""
        while self._held and len(self.pipeline) < MOST_PIPELINED and not self.transport.is_closing():
            piece, self._held = self._held[:_READ_AT_ONCE_BYTES], self._held[_READ_AT_ONCE_BYTES:]
            self._read(piece)
        self.flow.is_held = bool(self._held)
        if self.flow.is_held:
            self.flow.pause_reading()

    def _read(self, data: bytes) -> None:
        self._fresh_bytes = len(data) if self._is_between_messages else 0
        if self._is_in_head:
            self._raw_head_bytes += len(data)
        self._unset_keepalive_if_required()
        while data:
            data = self._parse(data)
        if self.transport.is_closing():
            return
        if self._is_in_head and self._raw_head_bytes > MAX_HEAD_BYTES:
            self._refuse_head()
        if self._is_between_requests():
            self._deadline.start(self.loop, HEAD_TIMEOUT_S)
        else:
            self._deadline.stop()

    def eof_received(self) -> bool:  # type: ignore[override]
        """The client sends no more. It may have gone, or wait for what it is owed."""
        if not self.is_owed_an_answer or self.cycle.more_body:
            return False
        self.cycle.keep_alive = False
        self._ask_whether_there(0)
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.stop()
        self._stall.stop()
        if self._probe is not None:
            self._probe.cancel()
        self.pipeline.clear()
        self._held = b""
        # uvicorn tells only the newest request, which need not be the one that is being answered.
        if self._answering is not None and not self._answering.response_complete:
            self._answering.disconnected = True
            self._answering.message_event.set()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stall.start(self.loop, STALL_TIMEOUT_S)

    def resume_writing(self) -> None:
        self._stall.stop()
        super().resume_writing()

    # httptools calls these

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_head = True
        self._is_between_messages = False
        self._raw_head_bytes, self._fresh_bytes = self._fresh_bytes, 0
        self._head_bytes = 0

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._count_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_in_head:  # what follows a body must not look as if it had been asked for before
            super().on_header(name, value)
        self._count_head(len(name) + len(value))

    def on_headers_complete(self) -> None:
        self._is_in_head = False
        if not self.parser.should_upgrade():
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():  # its body was not read
            return
        self._is_between_messages = True
        super().on_message_complete()

    # uvicorn calls these

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answering = cycle
        cycle.scope["extensions"] = {WRITE: partial(self._write, cycle)}  # type: ignore[dict-item]
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._held and len(self.pipeline) <= MOST_PIPELINED // 2:
            self._go_on_reading()
            self.flow.resume_reading()

    def send_400_response(self, msg: str) -> None:
        """What came is no HTTP; there is nothing to say while an answer is being given."""
        if self._answering is not None and not self._answering.response_complete:
            self._leave_after_answer(msg)
        elif self._head_bytes > MAX_HEAD_BYTES:
            self._refuse_head()
        else:
            super().send_400_response(msg)

    # ours

    def _parse(self, data: bytes) -> bytes:
        """What has still to be parsed."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as stop:
            return self._without_upgrade(data[stop.args[0] :])
        except httptools.HttpParserError:
            self.send_400_response("Invalid HTTP request received.")
        return b""

    def _without_upgrade(self, rest: bytes) -> bytes:
        """The request again, without its wish for another protocol, and what follows.

        Java's client has that wish in every first request, those with a body too. To answer in this protocol is to
        refuse it; but the parser ends with the head.
        """
        method = self.parser.get_method()
        if method == b"CONNECT":
            self.send_400_response("Invalid HTTP request received.")
            return b""
        head = [method + b" " + self.url + b" HTTP/" + self.parser.get_http_version().encode()]
        head += [name + b": " + value for name, value in self.headers if name != b"upgrade"]
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn has it: what is pipelined
        return b"\r\n".join([*head, b"", rest])

    def _write(self, cycle: RequestResponseCycle, piece: bytes) -> bool:
        """Go on with an answer at once, as send() does; False where that would have to wait or to count."""
        if self.flow.write_paused or cycle.disconnected or not cycle.chunked_encoding or cycle.response_complete:
            return False
        self.transport.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        return True

    def _leave_after_answer(self, message: str) -> None:
        """Of a pipeline's requests those that were read are answered; where the next begins is uncertain."""
        last = self.pipeline[0][0] if self.pipeline else self._answering
        assert last is not None
        last.keep_alive = False
        if last.more_body:  # the body itself is broken
            last.disconnected = True
            last.message_event.set()
            if last is self._answering and not last.response_started:
                super().send_400_response(message)
            self.transport.close()
        self.flow.pause_reading()

    def _count_head(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > MAX_HEAD_BYTES:
            raise OverflowError  # ends the parsing, and comes back as a call of send_400_response

    def _refuse_head(self) -> None:
        head = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        self.transport.write(head)
        self.transport.close()

    def _ask_whether_there(self, asked: int) -> None:
        """Send what no client sees but every one that has gone refuses: closing looks like shutdown(WR) until then.

        Before the head of an answer that is an interim one, within a chunked body the first zero of the next chunk's
        size. The refusal is noticed when sending the next time.
        """
        answer = self._answering
        if answer is None or answer.response_complete or asked == len(PROBE_AFTER_S) or self.transport.is_closing():
            return
        if asked and not answer.response_started and answer.scope["http_version"] == "1.1":
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        elif asked and answer.response_started and answer.chunked_encoding:
            self.transport.write(b"0")
        self._probe = self.loop.call_later(PROBE_AFTER_S[asked], self._ask_whether_there, asked + 1)

    def _is_between_requests(self) -> bool:
        return self._answering is None or (self._answering.response_complete and not self.pipeline)

    def _close_if_late(self) -> None:
        if self._is_between_requests():
            self.transport.close()


def new_loop() -> asyncio.AbstractEventLoop:
    """uvloop's where there is one: an event that comes alone then costs a client some 20 µs instead of 60."""
    try:
        import uvloop
    except ImportError:  # there is none for Windows
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class Front:
    """Listening sockets, all answered by one application in the running loop."""

    def __init__(self, app: Application) -> None:
        self._config = uvicorn.Config(
            app,
            http=FrontProtocol,
            interface="asgi3",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=IDLE_TIMEOUT_S,
        )
        self._config.load()
        self._state = ServerState()
        self._servers: dict[int, list[asyncio.Server]] = {}

    async def listen(self, sockets: Iterable[socket.socket]) -> None:
        """Begin to answer on these; may be called again for more."""
        loop = asyncio.get_running_loop()
        for listener in sockets:
            server = await loop.create_server(self._connection, sock=listener, backlog=_BACKLOG)
            self._servers.setdefault(listener.getsockname()[1], []).append(server)

    def stop_listening(self, port: int) -> None:
        """Take no new connection on this port; those that are there stay until their answers have been given."""
        self._close_servers(port)
        for connection in self._connections():
            if connection.server is not None and connection.server[1] == port:
                connection.shutdown()

    async def close(self, drain_s: float) -> None:
        """Take no new connection; let answers end for so long, then cut them. May be called again, with less time."""
        for port in list(self._servers):
            self._close_servers(port)
        for connection in self._connections():
            connection.shutdown()
        if self._state.tasks:
            await asyncio.wait(set(self._state.tasks), timeout=drain_s)
        running = set(self._state.tasks)
        for task in running:
            task.cancel()
        for connection in self._connections():
            connection.transport.abort()
        await asyncio.sleep(0)  # the end of a connection is told in the loop's next step
        if running:
            await asyncio.wait(running)

    @property
    def connection_count(self) -> int:
        """How many there are."""
        return len(self._state.connections)

    def _close_servers(self, port: int) -> None:
        for server in self._servers.pop(port):
            server.close()

    def _connection(self) -> FrontProtocol:
        return FrontProtocol(self._config, self._state, {})

    def _connections(self) -> list[FrontProtocol]:
        return [one for one in self._state.connections if isinstance(one, FrontProtocol)]
