"""Connections that are slow, broken or greedy, and the address itself."""

import socket
import threading
import time

import pytest
from starlette.types import Receive, Scope, Send

from server.serving import PATIENCE_S, HandEngine, serving
from whitedwarf.engine.request import Token
from whitedwarf.errors import WhitedwarfError
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.server import listen
from whitedwarf.server.listen import Server
from whitedwarf.web.connections import MAX_HEAD_BYTES
from whitedwarf.web.sockets import address_of, bound_socket

HEAD = b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"


def all_of(connection: socket.socket) -> bytes:
    received = b""
    try:
        while piece := connection.recv(65536):
            received += piece
    except ConnectionResetError:
        pass
    return received


@pytest.mark.parametrize("start", [b"", b"GET / HT", b"GET /health HTTP/1.1\r\nhost: localhost\r\nx-slow: "])
def test_a_request_whose_headers_do_not_end_is_dropped(
    start: bytes, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listen, "HEADER_TIMEOUT_S", 0.3)
    with serving(HandEngine(), tokenizer) as server, server.connect(start) as connection:
        started_s = time.monotonic()
        try:
            while time.monotonic() - started_s < PATIENCE_S:  # a byte now and then does not help
                connection.sendall(b"a") if start else time.sleep(0.05)
                connection.settimeout(0.05)
                try:
                    if connection.recv(1) == b"":
                        break
                except TimeoutError:
                    continue
        except (ConnectionResetError, BrokenPipeError):
            pass
        assert time.monotonic() - started_s < PATIENCE_S / 2


def test_a_second_request_on_a_connection_has_a_deadline_too(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listen, "HEADER_TIMEOUT_S", 0.3)
    get = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"
    with serving(HandEngine(), tokenizer) as server, server.connect(get) as connection:
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        connection.sendall(b"GET /hea")
        assert b" 200 " not in all_of(connection)


def test_an_answer_may_take_longer_than_headers_may(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listen, "HEADER_TIMEOUT_S", 0.1)
    engine = HandEngine()
    body = b'{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"}]}'
    post = HEAD + b"content-length: %d\r\n\r\n" % len(body) + body
    with serving(engine, tokenizer) as server, server.connect(post) as connection:
        request = engine.next_request()
        connection.settimeout(0.5)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        assert not request.generation.is_cancelled


def test_headers_are_bounded(tokenizer: Tokenizer) -> None:
    with serving(HandEngine(), tokenizer) as server:
        with server.connect(b"GET / HTTP/1.1\r\nhost: localhost\r\n") as connection:
            try:
                for _ in range(4):
                    connection.sendall(b"x-much: " + b"a" * (MAX_HEAD_BYTES // 2) + b"\r\n")
            except (ConnectionResetError, BrokenPipeError):
                pass
            assert b" 200 " not in all_of(connection)
        assert server.client.get("/health").status_code == 200


@pytest.mark.parametrize(
    "garbage", [b"\x00\x01\x02\r\n\r\n", b"GET\r\n\r\n", b"\x16\x03\x01\x02\x00\x01", b"\r\n" * 100]
)
def test_garbage_harms_nobody(garbage: bytes, tokenizer: Tokenizer) -> None:
    with serving(HandEngine(), tokenizer) as server:
        server.connect(garbage).close()
        assert server.client.get("/health").status_code == 200


def test_an_address_in_use_is_told() -> None:
    with bound_socket("127.0.0.1", 0) as first:
        first.listen()
        with pytest.raises(WhitedwarfError, match=r"cannot listen on 127\.0\.0\.1 port"):
            bound_socket("127.0.0.1", first.getsockname()[1])
    for name in ("no.such.host.invalid", "a..b", "a" * 300, "é" * 80, ""):
        with pytest.raises(WhitedwarfError, match=f"cannot listen on {name}"):
            bound_socket(name, 0)


def test_the_address_is_told_as_clients_use_it() -> None:
    with bound_socket("localhost", 0) as listener:
        assert address_of(listener).startswith("http://")
        assert address_of(listener).endswith(f":{listener.getsockname()[1]}")


def test_a_client_that_does_not_read_is_dropped(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listen, "STALL_TIMEOUT_S", 0.3)
    engine = HandEngine(context_length=1_000_000)
    body = b'{"model":"m","max_tokens":900000,"stream":true,"messages":[{"role":"user","content":"x"}]}'
    post = HEAD + b"content-length: %d\r\n\r\n" % len(body) + body
    with serving(engine, tokenizer) as server, server.connect(post):
        request = engine.next_request()
        end_s = time.monotonic() + PATIENCE_S
        while not request.generation.is_cancelled and time.monotonic() < end_s:
            request.put(*[Token(5)] * 500)
            time.sleep(0.01)
        assert request.generation.is_cancelled
        assert server.client.get("/health").status_code == 200


def test_it_ends_when_what_it_serves_has_died() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        """Nobody asks it."""

    server = Server(app, drain_s=0, hurry=lambda: None, is_alive=lambda: False)
    with bound_socket("127.0.0.1", 0) as listener:
        listener.listen()
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        thread.join(60.0)
        assert not thread.is_alive()
    assert server.has_died
