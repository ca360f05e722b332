"""A hub on this machine, as much of one as huggingface_hub asks for: tree, HEAD and GET of files, redirects, ranges.

It misbehaves as told: cuts answers, is busy, sends wrong bytes, ignores ranges, wants a token. Large files (the LFS
kind) are redirected to a store under another host name, as the real hub does.
"""

import contextlib
import hashlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote, unquote, urlsplit

REPO = "org/models"
COMMIT = "c0ffee" + "0" * 34
BRANCH = "main"


@dataclass
class FakeHub:
    """What it holds, how it behaves, and what it was asked."""

    files: dict[str, bytes] = field(default_factory=dict)
    small: set[str] = field(default_factory=set)  # these are no LFS files: git's digest, no redirect
    token: str | None = None
    status: int | None = None  # answers everything with it
    cuts: list[int] = field(default_factory=list)  # the next answers with a file's bytes end after so many
    busy: int = 0  # so many answers of files are 503
    retry_after: str = ""  # what these say
    corrupt: bool = False
    ignores_ranges: bool = False
    talks_nonsense: bool = False  # in lists of files
    url: str = ""
    store_url: str = ""
    seen: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    on_bytes: threading.Event = field(default_factory=threading.Event)  # set when a file's bytes begin to flow
    gate: threading.Event | None = None  # the second half of every file waits for it

    def digest(self, path: str) -> str:
        data = self.files[path]
        if path in self.small:
            return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
        return hashlib.sha256(data).hexdigest()

    def ranges(self) -> list[str]:
        """The ranges that were asked of the store, in order."""
        return [headers.get("range", "") for method, path, headers in self.seen if path.startswith("/store/")]


@contextlib.contextmanager
def running(hub: FakeHub) -> Iterator[FakeHub]:
    """Serve `hub` until the end of the block."""

    class Handler(_Handler):
        fake = hub

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False
    hub.url = f"http://127.0.0.1:{server.server_port}"
    hub.store_url = f"http://localhost:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield hub
    finally:
        if hub.gate:
            hub.gate.set()
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    fake: FakeHub
    timeout = 10

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.fake.seen.append((self.command, path, {key.lower(): value for key, value in self.headers.items()}))
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the client has had enough
            if path.startswith("/store/"):
                self._bytes(path.removeprefix("/store/"))
            elif self.fake.status:
                self._fail(self.fake.status)
            elif self.fake.token and self.headers.get("Authorization") != f"Bearer {self.fake.token}":
                self._fail(401)
            else:
                self._route(path)

    def _route(self, path: str) -> None:
        tree, resolve = f"/api/models/{REPO}/tree/", f"/{REPO}/resolve/"
        if path.startswith(tree):
            self._tree() if path.removeprefix(tree) in (BRANCH, COMMIT) else self._fail(404, "RevisionNotFound")
        elif path.startswith(resolve):
            revision, _, name = path.removeprefix(resolve).partition("/")
            self._file(name) if revision in (BRANCH, COMMIT) else self._fail(404, "RevisionNotFound")
        else:
            self._fail(404, "RepoNotFound")

    def _fail(self, status: int, code: str = "") -> None:
        self.send_response(status)
        if code:
            self.send_header("X-Error-Code", code)
        if self.fake.retry_after:
            self.send_header("Retry-After", self.fake.retry_after)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _tree(self) -> None:
        entries: list[dict[str, object]] = [{"type": "directory", "path": "folder", "oid": "0" * 40, "size": 0}]
        for path, data in self.fake.files.items():
            entry: dict[str, object] = {"type": "file", "path": path, "oid": "0" * 40, "size": len(data)}
            if path not in self.fake.small:
                entry["lfs"] = {"oid": self.fake.digest(path), "size": len(data), "pointerSize": 134}
            entries.append(entry)
        body = b"<html>Welcome</html>" if self.fake.talks_nonsense else json.dumps(entries).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _file(self, name: str) -> None:
        if name not in self.fake.files:
            self._fail(404, "EntryNotFound")
        elif self.command == "GET" and self.fake.busy > 0:
            self.fake.busy -= 1
            self._fail(503)
        elif name in self.fake.small:
            self._bytes(name)
        else:
            self.send_response(302)
            self._identify(name)
            self.send_header("X-Linked-Size", str(len(self.fake.files[name])))
            self.send_header("X-Linked-Etag", f'"{self.fake.digest(name)}"')
            self.send_header("Location", f"{self.fake.store_url}/store/{quote(name)}")
            self.send_header("Content-Length", "0")
            self.end_headers()

    def _identify(self, name: str) -> None:
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("ETag", f'"{self.fake.digest(name)}"')

    def _bytes(self, name: str) -> None:
        data = self.fake.files[name]
        start, end = self._range(len(data))
        body = data[start:end]
        if self.fake.corrupt and body:
            body = bytes([body[0] ^ 1]) + body[1:]
        is_part = "Range" in self.headers and not self.fake.ignores_ranges
        self.send_response(206 if is_part else 200)
        self._identify(name)
        if is_part:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self._flow(body)

    def _flow(self, body: bytes) -> None:
        if self.fake.cuts:
            body = body[: self.fake.cuts.pop(0)]
            self.close_connection = True
        half = len(body) // 2
        self.wfile.write(body[:half])
        self.wfile.flush()
        self.fake.on_bytes.set()
        if self.fake.gate:
            self.fake.gate.wait(60)
        self.wfile.write(body[half:])

    def _range(self, size: int) -> tuple[int, int]:
        asked = self.headers.get("Range")
        if asked is None or self.fake.ignores_ranges:
            return 0, size
        first, _, last = asked.removeprefix("bytes=").partition("-")
        return int(first), min(size, (int(last) + 1) if last else size)
