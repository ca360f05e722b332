"""A program that answers as llama-server does, as fast as Python can: what a supervisor is measured in front of.

Run as `python -m whitedwarf.bench.scripted_llama --port N --alias NAME`; other options are accepted, as a real command
line has many. A body's field `bench` says what to send: {"events": N, "size": BYTES, "pace_ms": M} for a stream whose
events tell the moment at which they were sent (time.monotonic_ns, which all processes of a machine share); nothing for
a short answer. Does not know who measures.
"""

import argparse
import asyncio
import json
import re
import time
from typing import Any, cast

SHORT_ANSWER = b'{"choices":[{"index":0,"message":{"role":"assistant","content":"OK"},"finish_reason":"stop"}]}'
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_MOST_WAITING_BYTES = 200_000


class ScriptedServer(asyncio.Protocol):
    """One connection."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._unread = b""
        self._stream: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._stream is not None:
            self._stream.cancel()

    def data_received(self, data: bytes) -> None:
        self._unread += data
        head, found, rest = self._unread.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        size = int(length[1]) if length else 0
        if not found or len(rest) < size:
            return
        self._unread = rest[size:]
        method, path, _ = head.split(b" ", 2)
        self._answer(method, path.partition(b"?")[0], rest[:size])

    def _answer(self, method: bytes, path: bytes, body: bytes) -> None:
        if path.endswith(b"input_tokens"):
            self._send(b'{"input_tokens":15000,"object":"response.input_tokens"}')
        elif method == b"POST":
            order = json.loads(body or b"{}").get("bench")
            if order is not None:
                self._stream = asyncio.ensure_future(self._send_events(order))
            else:
                self._send(SHORT_ANSWER)
        elif path.endswith(b"/models"):
            self._send(json.dumps({"object": "list", "data": [{"id": self._alias, "object": "model"}]}).encode())
        elif path == b"/props":
            self._send(b'{"default_generation_settings":{"n_ctx":32768},"total_slots":1,"build_info":"scripted"}')
        else:
            self._send(b'{"status":"ok"}')

    def _send(self, body: bytes) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        self._transport.write(head % len(body) + body)

    async def _send_events(self, order: dict[str, Any]) -> None:
        self._transport.write(STREAM_HEAD)
        start_s, pace_s = time.monotonic(), order["pace_ms"] / 1000
        padding = b"x" * max(0, order["size"] - 30)
        for index in range(order["events"]):
            if pace_s:
                await asyncio.sleep(max(0.0, start_s + index * pace_s - time.monotonic()))
            elif self._transport.get_write_buffer_size() > _MOST_WAITING_BYTES:
                await asyncio.sleep(0)
            event = b"data: %d %s\n\n" % (time.monotonic_ns(), padding)
            self._transport.write(b"%x\r\n%s\r\n" % (len(event), event))
        self._transport.write(b"0\r\n\r\n")


async def serve(port: int, alias: str) -> None:
    """Until the process ends."""
    server = await asyncio.get_running_loop().create_server(lambda: ScriptedServer(alias), "127.0.0.1", port)
    await server.serve_forever()


def main() -> None:
    """Read the options and serve."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--alias", default="scripted")
    told = parser.parse_known_args()[0]
    asyncio.run(serve(told.port, told.alias))


if __name__ == "__main__":
    main()
