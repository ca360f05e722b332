"""A web site on a port of its own: pages by their paths, and what was asked for."""

import contextlib
import gzip
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

CERTIFICATE = (
    Path(__file__).resolve().parents[1] / "golden/tls/site.test.pem"
)  # for site.test, made by openssl req -x509


@dataclass
class Site:
    port: int = 0
    pages: dict[str, tuple[int, dict[str, str], bytes]] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    is_over: threading.Event = field(default_factory=threading.Event)

    def page(
        self, path: str, body: str | bytes, content_type: str = "text/html; charset=utf-8", status: int = 200
    ) -> None:
        body = body.encode() if isinstance(body, str) else body
        self.pages[path] = (status, {"Content-Type": content_type} if content_type else {}, body)

    def redirect(self, path: str, location: str) -> None:
        self.pages[path] = (302, {"Location": location}, b"")

    def zipped(self, path: str, body: bytes) -> None:
        self.pages[path] = (200, {"Content-Type": "text/plain", "Content-Encoding": "gzip"}, gzip.compress(body))


@contextlib.contextmanager
def web_site(is_secure: bool = False) -> Iterator[Site]:
    """Until the end of the block. The path /slow sends a byte now and then for ever, /silent nothing."""
    site = Site()

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self):
            site.asked.append((self.path, dict(self.headers)))
            if self.path in ("/slow", "/silent"):
                self._dawdle()
                return
            status, headers, body = site.pages.get(self.path, (404, {"Content-Type": "text/html"}, b"<p>not here"))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(body)

        def _dawdle(self):
            with contextlib.suppress(OSError):
                if self.path == "/slow":
                    self.send_response(200)
                    self.send_header("Content-Type", "text/plain")
                    self.end_headers()
                while not site.is_over.is_set():
                    time.sleep(0.05)
                    if self.path == "/slow":
                        self.wfile.write(b"x")

        def log_message(self, *arguments):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    if is_secure:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(CERTIFICATE)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    site.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield site
    finally:
        site.is_over.set()
        server.shutdown()
        thread.join()
        server.server_close()
