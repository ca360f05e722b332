"""Bodies as they come over the wire: their type, coding and length. Raw sockets, because libraries are tidy."""

import gzip
import json
import re

import pytest

from server.serving import BODIES, JSON, PATIENCE_S, HandEngine, Running, says, serving
from whitedwarf.prompt.tokenizer import Tokenizer

ALL = pytest.mark.parametrize("path", [*BODIES, "/v1/messages/count_tokens", "/v1/chat/completions/input_tokens"])
PLACE = "/v1/messages"
BODY = json.dumps(BODIES[PLACE]).encode()


def exchange(server: Running, head: str, body: bytes = b"") -> bytes:
    """All that comes back on a connection of its own, until it is closed."""
    with server.connect(head.replace("\n", "\r\n").encode() + b"\r\n\r\n" + body) as connection:
        received = b""
        while piece := connection.recv(65536):
            received += piece
    return received


def head(*lines: str, path: str = PLACE, version: str = "1.1") -> str:
    first = [f"POST {path} HTTP/{version}", "host: localhost", "content-type: application/json", "connection: close"]
    return "\n".join([*first, *lines])


@ALL
@pytest.mark.parametrize("coding", ["gzip", "zstd", "br", "deflate", "gzip, identity", "GZIP"])
def test_a_compressed_body_is_415_and_says_what_to_do(path: str, coding: str, tokenizer: Tokenizer) -> None:
    engine = HandEngine()
    with serving(engine, tokenizer) as server:
        answer = server.client.post(path, content=gzip.compress(BODY), headers={**JSON, "content-encoding": coding})
    assert answer.status_code == 415
    assert "send it uncompressed" in answer.json()["error"]["message"]
    assert engine.submitted.empty()


def test_identity_is_no_coding(tokenizer: Tokenizer) -> None:
    with serving(HandEngine(play=says(tokenizer, ["Hi"])), tokenizer) as server:
        answer = server.client.post(PLACE, content=BODY, headers={**JSON, "content-encoding": "identity"})
    assert answer.status_code == 200


@ALL
@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_a_body_without_a_length_is_411(path: str, version: str, tokenizer: Tokenizer) -> None:
    with serving(HandEngine(), tokenizer) as server:
        answer = exchange(server, head(path=path, version=version), BODY)
        assert answer.startswith(b"HTTP/1.1 411 ")
        assert b"Content-Length" in answer
        assert server.client.get("/health").status_code == 200


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_chunks_of_any_size_make_one_body(size: int, tokenizer: Tokenizer) -> None:
    pieces = [BODY[start : start + size] for start in range(0, len(BODY), size)]
    body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    with serving(HandEngine(play=says(tokenizer, ["Hi"])), tokenizer) as server:
        assert exchange(server, head("transfer-encoding: chunked"), body).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "lines",
    [
        ("content-length: -1",),
        ("content-length: x",),
        ("content-length: 3", "content-length: 4"),
        ("transfer-encoding: gzip",),
        ("transfer-encoding: gzip, chunked",),
    ],
)
def test_a_length_that_makes_no_sense_is_refused(lines: tuple[str, ...], tokenizer: Tokenizer) -> None:
    engine = HandEngine()
    with serving(engine, tokenizer) as server:
        assert re.match(rb"HTTP/1\.1 (400|501) ", exchange(server, head(*lines), BODY))
        assert server.client.get("/health").status_code == 200
    assert engine.submitted.empty()


def test_a_body_is_sent_when_it_is_asked_for(tokenizer: Tokenizer) -> None:
    first = head(f"content-length: {len(BODY)}", "expect: 100-continue").replace("\n", "\r\n").encode() + b"\r\n\r\n"
    with serving(HandEngine(play=says(tokenizer, ["Hi"])), tokenizer) as server, server.connect(first) as connection:
        assert connection.recv(65536).startswith(b"HTTP/1.1 100 ")
        connection.sendall(BODY)
        received = b""
        while piece := connection.recv(65536):
            received += piece
    assert received.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(("line", "status"), [("content-length: 99999999", 413), ("content-encoding: gzip", 415)])
def test_a_body_that_is_refused_is_not_asked_for(line: str, status: int, tokenizer: Tokenizer) -> None:
    length = [] if "length" in line else [f"content-length: {len(BODY)}"]
    with serving(HandEngine(), tokenizer) as server:
        answer = exchange(server, head(line, *length, "expect: 100-continue"))
    assert answer.startswith(b"HTTP/1.1 %d " % status)


def test_a_body_that_comes_late_does_not_count_as_none(tokenizer: Tokenizer) -> None:
    first = head(f"content-length: {len(BODY)}").replace("\n", "\r\n").encode() + b"\r\n\r\n"
    engine = HandEngine(play=says(tokenizer, ["Hi"]))
    with serving(engine, tokenizer) as server, server.connect(first) as connection:
        connection.settimeout(0.2)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        connection.settimeout(PATIENCE_S)
        connection.sendall(BODY)
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
