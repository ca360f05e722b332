"""The clients of a soak: good ones, whose answers are checked, and every kind of bad one.

Each function of CLIENTS plays one client from connection to end and returns in a word how it ended. It raises Violation
where the server breaks a promise.
"""

import contextlib
import http.client
import io
import random
import socket
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count

from server.soak_dialects import PATHS, Answer, Asked, Violation, expect

PATIENCE_S = 60.0
HEAD = "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
_NUMBERS = count(1)
_RESET = struct.pack("ii", 1, 0)


@dataclass
class Target:
    """The server, what it must answer to each question in each dialect, and the dice of one worker."""

    port: int
    max_tokens: int
    dice: random.Random
    alone: dict[tuple[str, str], Answer] = field(default_factory=dict)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)

    def ask(self) -> Asked:
        path, question = self.dice.choice(sorted(self.alone))
        tokens = self.dice.choice((self.max_tokens, self.max_tokens, self.dice.randint(1, self.max_tokens)))
        return Asked(path, f"soak-{next(_NUMBERS)}", question, tokens, self.dice.random() < 0.6)

    def check(self, asked: Asked, body: bytes) -> None:
        """The answer is what the same question got when nobody else was there, or the beginning of it."""
        answer, alone = asked.read(body), self.alone[asked.path, asked.question]
        expect(answer.prompt_tokens == alone.prompt_tokens, f"{asked} was counted as {answer.prompt_tokens}")
        if asked.max_tokens == self.max_tokens:
            expect(answer == alone, f"{asked}: {answer} where it was {alone} alone")
        else:
            expect(alone.text.startswith(answer.text.rstrip("\ufffd")), f"{asked}: {answer} is no part of {alone}")


def request_of(asked: Asked) -> bytes:
    body = asked.body
    return f"{HEAD.format(path=asked.path)}content-length: {len(body)}\r\n\r\n".encode() + body


def response_on(connection: socket.socket) -> http.client.HTTPResponse:
    response = http.client.HTTPResponse(connection, method="POST")
    response.begin()
    return response


def learn(target: Target, questions: tuple[str, ...]) -> None:
    """Ask everything once, alone."""
    for path in PATHS:
        for question in questions:
            asked = Asked(path, "soak-0", question, target.max_tokens, is_streamed=False)
            with target.connect() as connection:
                connection.sendall(request_of(asked))
                target.alone[path, question] = asked.read(response_on(connection).read())


def good(target: Target) -> str:
    """Asks and reads, two or three times on one connection."""
    with target.connect() as connection:
        for _ in range(target.dice.randint(1, 3)):
            asked = target.ask()
            connection.sendall(request_of(asked))
            response = response_on(connection)
            body = response.read()
            expect(response.status == 200, f"{asked} got {response.status} {body[:200]!r}")
            target.check(asked, body)
    return "answered"


def chunked(target: Target) -> str:
    """Sends its body in chunks, with pauses."""
    asked = target.ask()
    with target.connect() as connection:
        connection.sendall((HEAD.format(path=asked.path) + "transfer-encoding: chunked\r\n\r\n").encode())
        rest = asked.body
        while rest:
            size = target.dice.randint(1, 60)
            connection.sendall(b"%x\r\n%b\r\n" % (len(rest[:size]), rest[:size]))
            rest = rest[size:]
            time.sleep(target.dice.random() * 0.01)
        connection.sendall(b"0\r\n\r\n")
        target.check(asked, response_on(connection).read())
    return "answered"


def slow_reader(target: Target) -> str:
    """Reads a few bytes at a time."""
    asked = target.ask()
    with target.connect() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        connection.sendall(request_of(asked))
        response, body = response_on(connection), b""
        for _ in range(20):
            body += response.read(64)
            time.sleep(target.dice.random() * 0.1)
        target.check(asked, body + response.read())
    return "answered"


def leaver(target: Target) -> str:
    """Goes away at a random moment, politely or not."""
    with target.connect() as connection:
        request = request_of(target.ask())
        connection.sendall(request[: target.dice.choice((len(request), target.dice.randint(1, len(request))))])
        connection.settimeout(target.dice.random() * 0.4 + 0.001)
        with contextlib.suppress(TimeoutError):
            connection.recv(target.dice.randint(1, 4096))
        if target.dice.random() < 0.5:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    return "left"


def half_closed(target: Target) -> str:
    """Says that it will say no more, and waits: for the whole answer or the end of the connection."""
    asked = target.ask()
    with target.connect() as connection:
        connection.sendall(request_of(asked))
        time.sleep(target.dice.random() * 0.1)
        connection.shutdown(socket.SHUT_WR)
        received = everything(connection)
    if b"\r\n\r\n" in received:
        with contextlib.suppress(http.client.HTTPException, ValueError, Violation):
            target.check(asked, next(responses_in(received)).read())
            return "half closed, answered"
    return "half closed, dropped"


def everything(connection: socket.socket) -> bytes:
    """What comes until the end of the connection, which has to come."""
    received = b""
    try:
        while piece := connection.recv(65536):
            received += piece
    except ConnectionResetError:
        pass
    except TimeoutError as error:
        raise Violation("the server left a connection open on which nothing more could come") from error
    return received


class _Shared(io.BytesIO):
    """Several responses in a row, for a parser that wants to close each."""

    def makefile(self, mode: str) -> "_Shared":
        return self

    def close(self) -> None:
        pass


def responses_in(received: bytes) -> Iterator[http.client.HTTPResponse]:
    shared = _Shared(received)
    while shared.tell() < len(received):
        response = http.client.HTTPResponse(shared, method="POST")  # type: ignore[arg-type]
        response.begin()
        yield response


def pipelining(target: Target) -> str:
    """Sends several requests before it reads the first answer."""
    all_asked = [target.ask() for _ in range(target.dice.randint(2, 4))]
    health = b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    with target.connect() as connection:
        connection.sendall(b"".join(map(request_of, all_asked)) + health)
        received = everything(connection)
    bodies = [(response.status, response.read()) for response in responses_in(received)]
    expect([status for status, _ in bodies] == [200] * (len(all_asked) + 1), f"pipelined, got {bodies}")
    for asked, (_, body) in zip(all_asked, bodies[:-1], strict=True):
        target.check(asked, body)
    return "answered"


def refused(target: Target, request: bytes, *, may_drop: bool = False) -> str:
    with target.connect() as connection:
        with contextlib.suppress(OSError):  # it has hung up already
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
        received = everything(connection)
    ok = received[9:10] == b"4" or (may_drop and not received)
    expect(ok, f"{request[:80]!r}… got {received[:200]!r}")
    return "refused"


def garbage(target: Target) -> str:
    return refused(target, target.dice.randbytes(target.dice.randint(1, 2000)) + b"\r\n\r\n", may_drop=True)


def huge_header(target: Target) -> str:
    start = b"GET /health HTTP/1.1\r\nhost: localhost\r\n"
    return refused(target, start + b"x-a: " + b"a" * target.dice.randint(100_000, 300_000), may_drop=True)


def many_headers(target: Target) -> str:
    lines = b"".join(b"x-%d: b\r\n" % number for number in range(20_000))
    return refused(target, b"GET /health HTTP/1.1\r\nhost: localhost\r\n" + lines, may_drop=True)


def oversized(target: Target) -> str:
    return refused(target, (HEAD.format(path=target.dice.choice(PATHS)) + "content-length: 100000000\r\n\r\n").encode())


def cut_off(target: Target) -> str:
    """Promises more of a body than it sends."""
    request = request_of(target.ask())
    return refused(target, request[: -target.dice.randint(1, 50)], may_drop=True)


def no_json(target: Target) -> str:
    body = target.dice.choice((b"{", b"[]", b"\xff", b"null", b'{"messages": 1}', b"[" * 5000, b'{"model": "\xff"}'))
    head = f"{HEAD.format(path=target.dice.choice(PATHS))}connection: close\r\ncontent-length: {len(body)}\r\n\r\n"
    with target.connect() as connection:
        connection.sendall(head.encode() + body)
        received = everything(connection)
    expect(received.startswith((b"HTTP/1.1 400", b"HTTP/1.1 422")), f"{body[:40]!r} got {received[:200]!r}")
    return "refused"


def flood(target: Target) -> str:
    """Many connections at once that say little or nothing."""
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(target.connect()) for _ in range(target.dice.randint(5, 40))]
        for connection in connections:
            with contextlib.suppress(ConnectionError):  # more of them than the server takes
                connection.sendall(
                    target.dice.choice((b"", b"\r\n", b"GET / HT", b"POST /v1/messages HTTP/1.1\r\nhost: l"))
                )
        time.sleep(target.dice.random() * 0.3)
    return "flooded"


CLIENTS: dict[Callable[[Target], str], int] = {
    good: 12, chunked: 3, slow_reader: 2, leaver: 6, half_closed: 2, pipelining: 2, garbage: 1, huge_header: 1,
    many_headers: 1, oversized: 1, cut_off: 1, no_json: 2, flood: 1,
}  # fmt: skip
"""How often each plays."""
