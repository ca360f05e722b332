#!/usr/bin/env python3
"""A program that the DSH plugin takes for `whitedwarf supervise CONFIG`, and that misbehaves on order.

CONFIG is JSON: {"ports": […], "log": FILE, "bind_after_s": 0, "bind_with": 1, "unload_s": 0, "models": […],
"die": "words"}. Each port answers /__supervisor/status, unload and start; the log gets a JSON line for each thing that
happens. As the real one, it ends with code 1 when a port is taken.
"""

import json
import os
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

TOLD: dict[str, Any] = {}


def note(what: str, **more: object) -> None:
    line = json.dumps({"what": what, "pid": os.getpid(), "at_s": time.monotonic(), **more})
    with Path(TOLD["log"]).open("a") as file:
        file.write(line + "\n")


def count(what: str) -> int:
    return sum(json.loads(line)["what"] == what for line in Path(TOLD["log"]).read_text().splitlines())


class Server(ThreadingHTTPServer):
    allow_reuse_address = True
    daemon_threads = True


class Handler(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        note("get", path=self.path)
        if TOLD.get("api_key") and self.headers["Authorization"] != f"Bearer {TOLD['api_key']}":
            self._answer(401, {"error": {"message": "Invalid API Key"}})
        elif self.path == "/__supervisor/status":
            self._answer(200, {"pid": os.getpid(), "config": sys.argv[-1], "models": TOLD.get("models", [])})
        else:
            self._answer(404, {"error": {"message": "File Not Found"}})

    def do_POST(self) -> None:
        note("post", path=self.path)
        if self.path.startswith("/__supervisor/unload"):
            time.sleep(TOLD.get("unload_s", 0))
            self._answer(200, {"unloaded": []})
        elif self.path.startswith("/__supervisor/start?model=bad"):
            self._answer(400, {"error": {"message": "bad: the file is not there", "type": "x", "code": 400}})
        elif self.path.startswith("/__supervisor/start"):
            self._answer(200, {})
        else:
            self._answer(404, {})
        note("answered", path=self.path)

    def _answer(self, status: int, said: object) -> None:
        body = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def end(*_: object) -> None:
    note("term")
    os._exit(0)


def main() -> None:
    TOLD.update(json.loads(Path(sys.argv[-1]).read_text()))
    signal.signal(signal.SIGTERM, end)
    note("born", argv=sys.argv[1:])
    if TOLD.get("die"):
        sys.exit(TOLD["die"])
    time.sleep(TOLD.get("bind_after_s", 0))
    while count("born") < TOLD.get("bind_with", 1):  # so many have been started
        time.sleep(0.02)
    try:
        servers = [Server(("127.0.0.1", port), Handler) for port in TOLD["ports"]]
    except OSError as error:
        sys.exit(f"a port is taken: {error}")
    note("bound")
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    signal.pause()


if __name__ == "__main__":
    main()
