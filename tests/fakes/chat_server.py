"""A Chat Completions server that does exactly what a test says, also what no server should."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Handler = BaseHTTPRequestHandler
Step = Callable[[Handler], None]


def status(code: int, body: object = "", **headers: str) -> Step:
    """Refuse."""

    def answer(handler: Handler) -> None:
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        handler.send_response(code)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("content-length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data)

    return answer


def stream(*deltas: dict[str, Any], finish: str | None = "stop", wait: threading.Event | None = None) -> Step:
    """Say these; without `finish` the connection is cut in the middle. `wait`: after the first one."""

    def answer(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream; charset=utf-8")
        handler.end_headers()
        for number, delta in enumerate(deltas):
            _send(handler, {"choices": [{"delta": delta, "finish_reason": None}]})
            if wait is not None and number == 0:
                wait.wait(60)
        if finish is not None:
            _send(handler, {"choices": [{"delta": {}, "finish_reason": finish}]})
            _send(handler, {"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 5}})
            handler.wfile.write(b"data: [DONE]\n\n")

    return answer


def _send(handler: Handler, event: object) -> None:
    handler.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
    handler.wfile.flush()


@dataclass
class ChatServer:
    """`steps`: what it does to each question in turn, the last one again and again; `received`: their bodies."""

    url: str
    steps: list[Step]
    models: Step
    received: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)


@contextmanager
def chat_server(*steps: Step) -> Iterator[ChatServer]:
    """On loopback, until the end."""
    lock = threading.Lock()

    class Answering(Handler):
        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_GET(self) -> None:  # noqa: N802
            server.models(self)

        def do_POST(self) -> None:  # noqa: N802
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            with lock:
                step = server.steps.pop(0) if len(server.steps) > 1 else server.steps[0]
                server.received.append(body | {"path": self.path})
                server.keys.append(self.headers.get("authorization"))
            step(self)

    http = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    http.daemon_threads = True
    models = status(200, {"object": "list", "data": [{"id": "only"}]})
    server = ChatServer(f"http://127.0.0.1:{http.server_port}", list(steps), models)
    thread = threading.Thread(target=http.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        thread.join()
        http.server_close()
