"""An endpoint as DeepSeek's: chat completions with logprobs, from a table of answers. It misbehaves as told."""

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "sk-0123456789abcdef"
PAGE = b"<!doctype html><title>Welcome to the hotel's network</title>"


@dataclass
class FakeEndpoint:
    """What it says, how it behaves, and what it was asked."""

    answers: dict[str, str] = field(default_factory=dict)  # by prompt; others are answered "Yes."
    faults: list[str] = field(default_factory=list)  # one for each of the next requests, "" for none
    refused: set[str] = field(default_factory=set)  # these prompts get 400
    not_listed: dict[str, int] = field(default_factory=dict)  # by prompt: so many more tokens in the usage
    retry_after: str = ""
    has_logprobs: bool = True
    key: str = KEY
    url: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    def prompts(self) -> list[str]:
        """What was asked, in order."""
        return [body["messages"][-1]["content"] for body in self.bodies]

    def reply(self, body: dict[str, Any]) -> dict[str, Any]:
        text = self.answers.get(body["messages"][-1]["content"], "Yes.")
        logprobs = None
        if body.get("logprobs") and self.has_logprobs:
            pieces = [text[i : i + 3].encode() for i in range(0, len(text), 3)]
            logprobs = {"content": [_step(piece, body["top_logprobs"]) for piece in pieces]}
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "logprobs": logprobs, "finish_reason": "length"}
        reply = {"id": "1", "object": "chat.completion", "model": body["model"], "choices": [choice]}
        missing = self.not_listed.get(body["messages"][-1]["content"])
        if missing is not None and logprobs is not None:
            reply["usage"] = {"completion_tokens": len(logprobs["content"]) + missing}
        return reply


def _step(piece: bytes, num_top: int) -> dict[str, Any]:
    top = [_token(piece, -0.25)] + [_token(b"other %d" % rank, -1.0 - rank) for rank in range(num_top - 1)]
    return _token(piece, -0.25) | {"top_logprobs": top}


def _token(data: bytes, logprob: float) -> dict[str, Any]:
    return {"token": data.decode("utf-8", "replace"), "logprob": logprob, "bytes": list(data)}


@contextlib.contextmanager
def running(fake: FakeEndpoint) -> Iterator[FakeEndpoint]:
    """Serve `fake` until the end of the block."""

    class Handler(_Handler):
        endpoint = fake

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False
    fake.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    endpoint: FakeEndpoint
    timeout = 10

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_POST(self) -> None:
        fake = self.endpoint
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        fake.bodies.append(body)
        fake.headers.append({name.lower(): value for name, value in self.headers.items()})
        fault = fake.faults.pop(0) if fake.faults else ""
        if fault:
            self._misbehave(fault, body)
        elif self.headers.get("Authorization") != f"Bearer {fake.key}":
            given = self.headers.get("Authorization", "").removeprefix("Bearer ")
            self._send(401, {"error": {"message": f"Your api key: {given} is invalid", "type": "authentication_error"}})
        elif not self.path.endswith("/chat/completions"):
            self._send(404, {"error": {"message": "no such path"}})
        elif body["messages"][-1]["content"] in fake.refused:
            self._send(400, {"error": {"message": "Content Exists Risk", "type": "invalid_request_error"}})
        else:
            self._send(200, fake.reply(body))

    def _misbehave(self, fault: str, body: dict[str, Any]) -> None:
        fake = self.endpoint
        match fault:
            case "cut":
                self._send(200, fake.reply(body), missing=40)
            case "page":
                self._raw(200, PAGE, "text/html")
            case "page 502":
                self._raw(502, b"<html><h1>Bad gateway</h1></html>", "text/html")
            case "huge":
                self._huge()
            case "not json":
                self._raw(200, b'{"choices": [', "application/json")
            case "strange":
                self._send(200, {"choices": []})
            case "nan":
                self._raw(200, b'{"choices": [{"message": {"content": "x"}, "n": NaN}]}', "application/json")
            case "elsewhere":
                self._raw(307, b"", "text/plain", {"Location": "http://127.0.0.1:1/chat/completions"})
            case "silence":
                time.sleep(0.5)
            case "hang up":
                self.close_connection = True
            case "echo":
                echo = fake.reply(body)
                echo["choices"][0]["message"]["content"] += " " + self.headers["Authorization"]
                echo["choices"][0]["logprobs"] = fake.reply(body)["choices"][0]["logprobs"]
                self._send(200, echo)
            case _:
                retry = {"Retry-After": fake.retry_after} if fake.retry_after else {}
                self._send(int(fault), {"error": {"message": f"told to say {fault}"}}, retry)

    def _send(self, status: int, value: object, headers: dict[str, str] | None = None, missing: int = 0) -> None:
        self._raw(status, json.dumps(value).encode(), "application/json", headers, missing)

    def _raw(
        self, status: int, data: bytes, kind: str, headers: dict[str, str] | None = None, missing: int = 0
    ) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data[: len(data) - missing])

    def _huge(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        with contextlib.suppress(OSError):  # the client leaves when it has had enough
            for _ in range(64):
                self.wfile.write(b" " * (1 << 20))
