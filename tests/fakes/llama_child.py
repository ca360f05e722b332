#!/usr/bin/env python3
"""A program that behaves as llama-server does, and misbehaves on order: the child in the supervisor's tests.

How it lives is said by options (`--load-s 2`, `--die-loading 1`, …), how it answers one request by the body's field
`fake`: {"events": 3, "pause_s": 0.1, "then": "end" | "die" | "hang" | "cut", "head_s": 0, "before": "die" | "hang"}.
`--log FILE` gets a JSON line for each thing that happens, with the pid and the monotonic clock, which all processes of
a machine share. Tokens are counted as one for each byte of the messages' texts, as real llama-server counts the Markov
model's. Agents cannot say `fake`: for them an option says what is answered (`--reply`, `--summary`) and when. Other
options are accepted, as a real command line has many.
"""

import argparse
import json
import os
import signal
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import FrameType
from typing import Any


def options(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("-m", "--model", default="")
    parser.add_argument("-a", "--alias", default="fake")
    parser.add_argument("-c", "--ctx-size", type=int, default=4096)
    parser.add_argument("--real-ctx", type=int, default=0, help="what /props says, where it is less than asked for")
    parser.add_argument("--slot-save-path", default="")
    parser.add_argument("--log", default=os.environ.get("FAKE_CHILD_LOG", ""))
    parser.add_argument("--load-s", type=float, default=0.0)
    parser.add_argument("--progress", action="store_true", help="says on stderr how far loading is, ten times a second")
    parser.add_argument("--die-loading", type=int, default=0, metavar="CODE")
    parser.add_argument("--die-once", default="", metavar="FILE", help="of starts only the first dies: makes FILE")
    parser.add_argument("--say", default="")
    parser.add_argument("--never-healthy", action="store_true")
    parser.add_argument("--ignore-term", type=int, default=0, metavar="N", help="the first N SIGTERMs do nothing")
    parser.add_argument("--grandchild", action="store_true", help="starts a process of its own, which it forgets")
    parser.add_argument("--exit-code", type=int, default=0, help="after SIGTERM")
    parser.add_argument("--die-asked", type=int, default=0, metavar="N", help="dies over the Nth generation")
    parser.add_argument("--die-slowly-s", type=float, default=0.0, help="then closes its port, and dies so much later")
    parser.add_argument("--hang-asked", action="store_true", help="answers no generation")
    parser.add_argument("--slots", default="ok", choices=["ok", "busy", "refused", "hangs", "dies", "no restore"])
    parser.add_argument("--api-key", default="", help="asked for everywhere but at /health, as llama-server does")
    parser.add_argument("--props", default="", help="what /props answers, instead of facts")
    parser.add_argument("--reply", default="", help="what every stream says, instead of numbers")
    parser.add_argument("--summary", default="", help="what is said to DSH when it compacts")
    parser.add_argument("--answer-when", default="", metavar="FILE", help="streams wait until FILE is there")
    parser.add_argument("--answer-after-s", type=float, default=0.0, help="streams wait so long, as for a long prompt")
    parser.add_argument("--die-streaming", default="", metavar="FILE", help="dies in its first long stream: makes FILE")
    parser.add_argument("--bytes-per-token", type=int, default=1)
    parser.add_argument("--count", default="ok", choices=["ok", "404", "500", "slow", "garbage"])
    return parser.parse_known_args(words)[0]


class Life:
    """What has happened so far, and the log of it."""

    def __init__(self, told: argparse.Namespace) -> None:
        self.told = told
        self.ready_at_s = time.monotonic() + told.load_s
        self.terms = self.asked = 0
        self.is_doomed = bool(told.die_loading) and not (told.die_once and Path(told.die_once).exists())
        self._lock = threading.Lock()

    def note(self, what: str, **more: object) -> None:
        if not self.told.log:
            return
        facts = {"what": what, "pid": os.getpid(), "at_s": time.monotonic(), "alias": self.told.alias}
        line = json.dumps({**facts, **more})
        with self._lock, Path(self.told.log).open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    @property
    def is_ready(self) -> bool:
        return not (self.told.never_healthy or self.is_doomed) and time.monotonic() >= self.ready_at_s

    def terminate(self, signum: int, frame: FrameType | None) -> None:
        self.terms += 1
        self.note("term", count=self.terms)
        if self.terms > self.told.ignore_term:
            os._exit(self.told.exit_code)


def count_of(body: dict[str, Any], bytes_per_token: int = 1) -> int:
    total = 0
    for message in body.get("messages") or []:
        content = message.get("content") or ""
        parts = [content] if isinstance(content, str) else [part.get("text") or "" for part in content]
        total += sum(len(part.encode()) for part in parts)
    return (total + (len(json.dumps(body["tools"])) if body.get("tools") else 0)) // bytes_per_token


def last_text(body: dict[str, Any]) -> str:
    content = (body.get("messages") or [{}])[-1].get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text") or "" for part in content)


def overflow(tokens: int, context: int) -> bytes:
    said = f"request ({tokens} tokens) exceeds the available context size ({context} tokens), try increasing it"
    error = {"code": 400, "message": said, "type": "exceed_context_size_error", "n_prompt_tokens": tokens}
    return json.dumps({"error": {**error, "n_ctx": context}}, separators=(",", ":")).encode()


NO_KEY = b'{"error":{"message":"Invalid API Key","type":"authentication_error","code":401}}'


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "llama.cpp", ""
    life: Life

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        self.life.note("get", path=self.path)
        if not self.life.is_ready:
            self._loading()
        elif path in ("/health", "/v1/health"):
            self._answer(200, b'{"status":"ok"}')
        elif not self._has_key():
            self._answer(401, NO_KEY)
        elif path in ("/v1/models", "/models"):
            model = {"id": self.life.told.alias, "object": "model", "owned_by": "llamacpp"}
            self._answer(200, json.dumps({"object": "list", "data": [model]}).encode())
        elif path == "/props" and self.life.told.props:
            self._answer(200, self.life.told.props.encode())
        elif path == "/props":
            props = {
                "default_generation_settings": {"n_ctx": self._context()},
                "total_slots": 1,
                "build_info": "fake-1",
            }
            self._answer(200, json.dumps(props).encode())
        elif path == "/slots":
            slot = {"id": 0, "n_ctx": self._context(), "is_processing": self.life.told.slots == "busy"}
            self._answer(200, json.dumps([slot]).encode())
        elif path == "/metrics":
            self._answer(200, b"llamacpp:prompt_tokens_total 1\n", "text/plain; version=0.0.4")
        else:
            self._not_found()

    def do_POST(self) -> None:
        raw = self._body()
        path = self.path.split("?")[0]
        if not self.life.is_ready:
            self._loading()
            return
        if not self._has_key():
            self._answer(401, NO_KEY)
            return
        try:
            body = json.loads(raw or b"{}")
        except ValueError as error:
            self._answer(400, json.dumps({"error": {"code": 400, "message": str(error)}}).encode())
            return
        if path.endswith(("/input_tokens", "/count_tokens")):
            self._count(body)
        elif path.startswith("/slots/"):
            self._slot(path, body)
        elif path.endswith(("/chat/completions", "/completions", "/responses", "/messages")):
            self._generate(body, raw)
        else:
            self._not_found()

    def _generate(self, body: dict[str, Any], raw: bytes) -> None:
        tokens, order = self._tokens(body), body.get("fake") or {}
        self.life.note(
            "ask",
            path=self.path,
            tokens=tokens,
            size=len(raw),
            max_tokens=body.get("max_tokens"),
            mark=body.get("mark"),
            tools=len(body.get("tools") or []),
            last=last_text(body)[:200],
        )
        self.life.asked += 1
        if order.get("before") == "die" or self.life.asked == self.life.told.die_asked:
            self._die()
        if order.get("before") == "hang" or self.life.told.hang_asked:
            self._hang()
            return
        if tokens >= self._context():
            self._answer(400, overflow(tokens, self._context()))
            return
        time.sleep(order.get("head_s", 0))
        if body.get("stream"):
            self._hold()
            self._stream(body, order)
        else:
            choice = {"index": 0, "message": {"role": "assistant", "content": "OK"}, "finish_reason": "stop"}
            answer = {"object": "chat.completion", "model": self.life.told.alias, "choices": [choice]}
            self._answer(200, json.dumps({**answer, "mark": body.get("mark")}).encode())
        self.life.note("answered", mark=body.get("mark"))

    def _stream(self, body: dict[str, Any], order: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("X-Accel-Buffering", "no")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for index, text in enumerate(self._texts(body, order)):
                self._chunk(self._event(index, {"content": text}, None))
                time.sleep(order.get("pause_s", 0))
                if index == 1:
                    self._die_streaming(body)
            self._finish(body, order.get("then", "end"))
        except OSError:
            self.life.note("left", mark=body.get("mark"))
            self.close_connection = True

    def _hold(self) -> None:
        """Streams only: warming up is no stream."""
        time.sleep(self.life.told.answer_after_s)
        while self.life.told.answer_when and not Path(self.life.told.answer_when).exists():
            time.sleep(0.02)

    def _texts(self, body: dict[str, Any], order: dict[str, Any]) -> list[str]:
        told = self.life.told
        reply = told.summary if told.summary and "compaction engine" in last_text(body) else told.reply
        if reply and not order:
            return [f"{word} " for word in reply.split(" ")]
        return [f"{index} " for index in range(order.get("events", 3))]

    def _die_streaming(self, body: dict[str, Any]) -> None:
        """Only in an answer to an agent that has tools: beside it DSH asks for a title."""
        first = self.life.told.die_streaming
        if first and body.get("tools") and not Path(first).exists():
            Path(first).touch()
            self.wfile.flush()
            os.kill(os.getpid(), signal.SIGKILL)

    def _finish(self, body: dict[str, Any], then: str) -> None:
        if then == "die":
            os._exit(9)
        if then == "hang":
            self._hang()
        elif then == "cut":
            self.close_connection = True
        else:
            self._chunk(self._event(0, {}, "stop"))
            if (body.get("stream_options") or {}).get("include_usage"):
                usage = {"prompt_tokens": self._tokens(body), "completion_tokens": 5}
                event = {"id": "fake", "object": "chat.completion.chunk", "created": 1, "choices": [], "usage": usage}
                self._chunk(b"data: " + json.dumps(event).encode() + b"\n\n")
            self._chunk(b"data: [DONE]\n\n")
            self.wfile.write(b"0\r\n\r\n")

    def _event(self, index: int, delta: dict[str, str], reason: str | None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        event = {"id": f"fake-{index}", "object": "chat.completion.chunk", "model": self.life.told.alias}
        return b"data: " + json.dumps({**event, "created": 1, "choices": [choice]}).encode() + b"\n\n"

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _die(self) -> None:
        if self.life.told.die_slowly_s:
            self.server.socket.close()
            self.connection.shutdown(socket.SHUT_RDWR)
            time.sleep(self.life.told.die_slowly_s)
        os._exit(9)

    def _hang(self) -> None:
        """Until the other side closes."""
        try:
            while self.connection.recv(1):
                pass
        except OSError:
            pass
        self.life.note("left")
        self.close_connection = True

    def _count(self, body: dict[str, Any]) -> None:
        self.life.note("count")
        how = self.life.told.count
        if how == "slow":
            time.sleep(60)
        if how in ("404", "500"):
            self._answer(int(how), b'{"error":{"message":"no","type":"x","code":%s}}' % how.encode())
        elif how == "garbage":
            self._answer(200, b"<html>")
        else:
            self._answer(200, b'{"input_tokens":%d,"object":"response.input_tokens"}' % self._tokens(body))

    def _slot(self, path: str, body: dict[str, Any]) -> None:
        action, how = self.path.partition("action=")[2], self.life.told.slots
        place = Path(self.life.told.slot_save_path) / Path(body.get("filename") or "x").name
        self.life.note("slot", action=action, name=body.get("filename"))
        if how == "refused" or (how == "no restore" and action == "restore"):
            self._answer(501, b'{"error":{"code":501,"message":"no","type":"not_supported_error"}}')
        elif how in ("hangs", "dies"):
            place.write_bytes(b"ha")
            self._hang() if how == "hangs" else os._exit(9)
        elif action == "save":
            place.write_bytes(b"state")
            self._answer(200, b'{"id_slot":0,"n_saved":5,"n_written":5}')
        elif place.exists():
            self._answer(200, b'{"id_slot":0,"n_restored":5,"n_read":5}')
        else:
            self._answer(
                400, b'{"error":{"code":400,"message":"Unable to restore slot","type":"invalid_request_error"}}'
            )

    def _has_key(self) -> bool:
        keys = [f"Bearer {key}" for key in self.life.told.api_key.split(",") if key]
        return not keys or self.headers.get("Authorization") in keys

    def _tokens(self, body: dict[str, Any]) -> int:
        return count_of(body, self.life.told.bytes_per_token)

    def _context(self) -> int:
        return self.life.told.real_ctx or self.life.told.ctx_size

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _loading(self) -> None:
        self._answer(503, b'{"error":{"message":"Loading model","type":"unavailable_error","code":503}}')

    def _not_found(self) -> None:
        self._answer(404, b'{"error":{"message":"File Not Found","type":"not_found_error","code":404}}')

    def _answer(self, status: int, body: bytes, kind: str = "application/json; charset=utf-8") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if status >= 400:
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()
        self.wfile.write(body)


def die_while_loading(life: Life) -> None:
    if life.told.die_once:
        Path(life.told.die_once).touch()
    time.sleep(life.told.load_s)
    print(life.told.say or "E failed to load model", file=sys.stderr, flush=True)
    life.note("died loading")
    os._exit(life.told.die_loading)


def say_progress(life: Life) -> None:
    while not life.is_ready:
        print(f"loading: {life.ready_at_s - time.monotonic():.1f} s left", file=sys.stderr, flush=True)
        time.sleep(0.1)


def main() -> None:
    told = options(sys.argv[1:])
    life = Handler.life = Life(told)
    signal.signal(signal.SIGTERM, life.terminate)
    life.note("born", port=told.port, argv=sys.argv, parent=os.getppid())
    if told.grandchild and os.fork() == 0:
        life.note("grandchild")
        time.sleep(600)
        os._exit(0)
    try:
        server = ThreadingHTTPServer((told.host, told.port), Handler)
    except OSError as error:
        print(
            f"E couldn't bind HTTP server socket, hostname: {told.host}, port: {told.port} ({error})", file=sys.stderr
        )
        sys.exit(1)
    server.daemon_threads = True
    print(told.say or "listening", file=sys.stderr, flush=True)
    if told.progress:
        threading.Thread(target=say_progress, args=(life,), daemon=True).start()
    if life.is_doomed:
        threading.Thread(target=die_while_loading, args=(life,), daemon=True).start()
    server.serve_forever(poll_interval=0.05)


if __name__ == "__main__":
    main()
