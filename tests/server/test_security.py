"""What an attacker sends, over raw sockets: forged names, ambiguous requests, floods, words that would be commands.

Beside it: test_auth.py and test_host_check.py (the rules alone), test_refusals.py (each dialect's refusals),
test_listen.py (slow and broken connections).
"""

import contextlib
import json
import logging
import socket
import stat
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import httpx2
import pytest

from server.serving import BODIES, JSON, PATIENCE_S, HandEngine, Running, says, serving, whole_answer
from server.test_listen import all_of
from whitedwarf.bench.serve_process import started
from whitedwarf.errors import UsageError
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.protocol.dialects import Dialect
from whitedwarf.respond import Road
from whitedwarf.server import body, listen
from whitedwarf.server.request_log import LogLines
from whitedwarf.web import connections
from whitedwarf.web.auth import ApiKeys
from whitedwarf.web.connections import most_connections

ROUTES = (
    *BODIES, "/v1/messages/count_tokens", "/v1/chat/completions/input_tokens", "/v1/models", "/v1/models/tiny",
    "/health", "/metrics", "/", "/nowhere",
)  # fmt: skip
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT")
POST = "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"


@pytest.fixture(scope="module")
def server(tokenizer: Tokenizer) -> Iterator[Running]:
    engine = HandEngine(play=says(tokenizer, ["Hi."]))
    with serving(engine, tokenizer) as running:
        yield running


def status(server: Running, request: str | bytes) -> int:
    """Of the first answer; 0 where the connection is closed without one."""
    with server.connect(request.encode() if isinstance(request, str) else request) as connection:
        start = connection.recv(65536)
    return int(start[9:12]) if start else 0


@pytest.mark.parametrize("method", METHODS)
def test_a_foreign_name_gets_nothing_from_any_route_by_any_method(server: Running, method: str) -> None:
    for path in ROUTES:
        for line in ("host: rebound.example", "host: localhost\r\norigin: https://evil.example"):
            assert status(server, f"{method} {path} HTTP/1.1\r\n{line}\r\n\r\n") == 403, (path, line)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1.rebound.example", "7f000001.rbndr.us", "localhost.example", "2130706433", "0x7f.0.0.1", "127.1",
        "[::1].evil.example", "[evil.example]", "localhost#.evil.example", "localhost?.evil.example",
        "localhost/.evil.example", "localhost\\.evil.example", "user@localhost", "localhost:80:80", "local\thost",
        "localhost, evil.example", "\xe9vil.example", "localhost:99999999", "%6cocalhost",
    ],
)  # fmt: skip
def test_a_host_that_only_looks_like_us_is_refused(server: Running, host: str) -> None:
    request = f"GET /v1/models HTTP/1.1\r\nhost: {host}\r\n\r\n".encode("latin-1")
    assert status(server, request) in (400, 403)


@pytest.mark.parametrize(
    "host", ["[::1]:8000", "[::ffff:127.0.0.1]", "[fe80::1%25en0]:8000", "127.0.0.1", "10.0.0.7:1"]
)
def test_addresses_of_both_kinds_are_no_names_to_rebind(server: Running, host: str) -> None:
    assert status(server, f"GET /v1/models HTTP/1.1\r\nhost: {host}\r\n\r\n") == 200


@pytest.mark.parametrize("target", ["http://evil.example/v1/models", "http://localhost/v1/models", "evil.example:443"])
def test_nobody_is_asked_on_behalf_of_another(server: Running, target: str) -> None:
    """An absolute request target is for proxies, which this is not."""
    assert status(server, f"GET {target} HTTP/1.1\r\nhost: localhost\r\n\r\n") == 404


@pytest.mark.parametrize(
    "lines",
    [
        "host: localhost\r\nhost: evil.example", "host: evil.example\r\nhost: localhost", "",
        "host : localhost", "host: localhost\r\n folded: x",
    ],
)  # fmt: skip
def test_a_host_that_is_not_told_once_is_refused(server: Running, lines: str) -> None:
    assert status(server, f"GET /v1/models HTTP/1.1\r\n{lines}\r\n\r\n") in (400, 403)


def test_a_second_origin_does_not_hide_behind_the_first(server: Running) -> None:
    origins = f"origin: {server.url}\r\norigin: https://evil.example"
    host = server.url.removeprefix("http://")
    assert status(server, f"GET /v1/models HTTP/1.1\r\nhost: {host}\r\n{origins}\r\n\r\n") == 403


SECRET = "sk-" + "Aa0-" * 10
NEARLY = [
    *(SECRET[:length] for length in range(len(SECRET))), SECRET + "x", SECRET.lower(), SECRET.upper(), "*", "%",
    *(SECRET[:at] + "?" + SECRET[at + 1 :] for at in range(len(SECRET))), "a" * 30_000,
]  # fmt: skip


def test_only_the_whole_key_is_a_key(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    decided: list[bool] = []
    compare = ApiKeys.admits.__globals__["hmac"].compare_digest
    monkeypatch.setattr("hmac.compare_digest", lambda a, b: decided.append(compare(a, b)) or decided[-1])
    with serving(HandEngine(), tokenizer, keys=ApiKeys(["other", SECRET, "third"])) as server:
        for key in NEARLY:
            assert server.client.get("/v1/models", headers={"x-api-key": key}).status_code == 401
        assert decided == [False] * 6 * len(NEARLY)  # the same work for each, whatever it shares with a key
        for headers in ({"x-api-key": SECRET}, {"authorization": f"bearer {SECRET}"}, {"x-api-key": "third"}):
            assert server.client.get("/v1/models", headers=headers).status_code == 200


def test_a_key_in_the_address_or_in_a_cookie_is_none(tokenizer: Tokenizer) -> None:
    with serving(HandEngine(), tokenizer, keys=ApiKeys([SECRET])) as server:
        for name in ("key", "api_key", "api-key", "x-api-key", "access_token", "authorization"):
            assert server.client.get(f"/v1/models?{name}={SECRET}").status_code == 401
        assert server.client.get("/v1/models", headers={"cookie": f"x-api-key={SECRET}"}).status_code == 401


def test_a_key_may_have_any_letters(tokenizer: Tokenizer) -> None:
    with serving(HandEngine(), tokenizer, keys=ApiKeys(["clé-ключ"])) as server:
        for key, expected in (("clé-ключ", 200), ("clé-ключь", 401)):
            head = f"GET /v1/models HTTP/1.1\r\nhost: localhost\r\nx-api-key: {key}\r\n\r\n"
            assert status(server, head) == expected


def test_no_key_is_ever_told(tokenizer: Tokenizer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    offered = "sk-offered-by-a-stranger"
    headers = {"authorization": f"Bearer {offered}", **JSON}
    with serving(HandEngine(), tokenizer, keys=ApiKeys([SECRET])) as server:
        said = "".join(server.client.request(m, p, headers=headers).text for m in ("GET", "POST") for p in ROUTES)
        good = {"x-api-key": SECRET}
        for path in (*ROUTES, "/v1/models/none"):
            said += server.client.get(path, headers=good).text + server.client.post(path, json=[], headers=good).text
    log = "".join(LogLines().format(record) for record in caplog.records)
    for secret in (offered, SECRET):
        assert secret not in said
        assert secret not in log


def test_the_key_file_that_is_checked_is_the_one_that_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown, private = tmp_path / "shown", tmp_path / "private"
    for path, mode in ((shown, 0o644), (private, 0o600)):
        path.write_text("key\n")
        path.chmod(mode)
    facts = private.stat()
    monkeypatch.setattr(Path, "stat", lambda path: facts)  # as if exchanged after it was opened
    with pytest.raises(UsageError, match="others may use it"):
        ApiKeys.from_file(shown)


TRICKS = [
    "../../etc/passwd", "..%2f..%2fetc%2fpasswd", "%2e%2e/%2e%2e/etc/passwd", "....//etc/passwd", "..%5c..%5cwin.ini",
    "%00", "tiny%00", "tiny%00.gguf", "tiny/", "/tiny", "tiny%20", "file:///etc/passwd", "%252e%252e%252f", "TINY",
    "%c0%ae%c0%ae/", "%ff", "%0d%0aset-cookie:%20a=b", "tiny%0a", "a" * 60_000, "%F0%9F%A6%94",
]  # fmt: skip


@pytest.mark.parametrize("name", TRICKS, ids=lambda name: name[:24])
def test_a_model_id_never_becomes_a_path(server: Running, name: str) -> None:
    with server.connect(
        f"GET /v1/models/{name} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode()
    ) as c:
        answer = all_of(c)
    start, _, told = answer.partition(b"\r\n\r\n")
    assert start.startswith(b"HTTP/1.1 404 ")
    assert b"set-cookie" not in start
    assert b"root:" not in told
    assert len(told) < 1000


def test_a_hundred_megabytes_are_refused_before_they_are_sent(server: Running) -> None:
    sent, piece = 0, b" " * 65536
    with server.connect(POST.format(path="/v1/messages").encode() + b"content-length: 104857600\r\n\r\n") as connection:
        with contextlib.suppress(ConnectionError):
            while sent < 104_857_600:
                sent += connection.send(piece)
        assert all_of(connection).startswith(b"HTTP/1.1 413 ") or sent < 16 << 20
    assert sent < 16 << 20  # what the kernel took meanwhile
    answer = server.client.post("/v1/messages", content=b" " * (100 << 20), headers=JSON)
    assert answer.status_code == 413


def test_a_body_without_end_is_given_up(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vars(body.reading)["__wrapped__"], "__defaults__", (body.MAX_BODY_BYTES, 0.3))
    for rest in ("transfer-encoding: chunked\r\n\r\n4\r\n[1, \r\n", "content-length: 100\r\n\r\n[1, "):
        with server.connect((POST.format(path="/v1/messages") + rest).encode()) as connection:
            end_s = time.monotonic() + PATIENCE_S
            with contextlib.suppress(ConnectionError, TimeoutError):
                connection.settimeout(0.05)
                while time.monotonic() < end_s:  # a byte now and then does not help
                    with contextlib.suppress(TimeoutError):
                        assert connection.recv(12) == b"HTTP/1.1 408"
                        break
                    connection.sendall(b"1\r\n \r\n" if "chunked" in rest else b" ")
            assert time.monotonic() < end_s


def test_many_large_bodies_together_are_bounded(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body.ReadingRoom.__init__, "__defaults__", (100_000,))
    head = POST.format(path="/v1/messages").encode() + b"content-length: 60000\r\n\r\n"
    with serving(HandEngine(), tokenizer) as server, contextlib.ExitStack() as stack:
        slow = stack.enter_context(server.connect(head + b" " * 59_999))
        answers = [status(server, head + b" " * 59_000) for _ in range(3)]
        assert answers == [503] * 3
        slow.sendall(b" ")
        assert slow.recv(12) == b"HTTP/1.1 400"  # it was read, and is no JSON
        assert server.client.post("/v1/messages", content=b" " * 90_000, headers=JSON).status_code == 400


def test_bodies_count_until_they_have_been_read(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body.ReadingRoom.__init__, "__defaults__", (100_000,))
    is_read, may_be_read = threading.Event(), threading.Event()

    def count_slowly(road: Road, asked: bytes, dialect: Dialect) -> int:
        is_read.set()
        assert may_be_read.wait(PATIENCE_S)
        return len(asked)

    monkeypatch.setattr(Road, "count_tokens", count_slowly)
    with serving(HandEngine(), tokenizer) as server, ThreadPoolExecutor() as pool:
        ask = partial(server.client.post, "/v1/messages/count_tokens", content=b" " * 60_000, headers=JSON)
        first = pool.submit(ask)
        assert is_read.wait(PATIENCE_S)
        assert ask().status_code == 503
        may_be_read.set()
        assert first.result(PATIENCE_S).json() == {"input_tokens": 60_000}
        assert ask().status_code == 200


SMUGGLED = "GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n"
AMBIGUOUS = {
    "both lengths": "content-length: 0\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "both, the other way": f"transfer-encoding: chunked\r\ncontent-length: {len(SMUGGLED)}\r\n\r\n0\r\n\r\n{SMUGGLED}",
    "two lengths": "content-length: 2\r\ncontent-length: 40\r\n\r\n{}" + SMUGGLED,
    "a list of lengths": "content-length: 2, 40\r\n\r\n{}" + SMUGGLED,
    "a signed length": "content-length: +2\r\n\r\n{}" + SMUGGLED,
    "a negative length": "content-length: -1\r\n\r\n{}" + SMUGGLED,
    "a hexadecimal length": "content-length: 0x2\r\n\r\n{}" + SMUGGLED,
    "an endless length": f"content-length: {'9' * 5000}\r\n\r\n{{}}" + SMUGGLED,
    "an unknown coding": "transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "chunked twice": "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "a coding of another name": "transfer-encoding: xchunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "a space before the colon": "transfer-encoding : chunked\r\ncontent-length: 2\r\n\r\n{}" + SMUGGLED,
    "a negative chunk": "transfer-encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n" + SMUGGLED,
    "a chunk size that is none": "transfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n" + SMUGGLED,
    "a chunk of the wrong size": "transfer-encoding: chunked\r\n\r\n1\r\n{}\r\n0\r\n\r\n" + SMUGGLED,
    "a huge chunk": "transfer-encoding: chunked\r\n\r\nfffffffffffffffffffff\r\n{}\r\n0\r\n\r\n" + SMUGGLED,
    "an endless chunk extension": f"transfer-encoding: chunked\r\n\r\n2;{'a' * 200_000}\r\n{{}}\r\n0\r\n\r\n"
    + SMUGGLED,
}


@pytest.mark.parametrize("path", ["/v1/messages", "/nowhere"])
@pytest.mark.parametrize("rest", AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_a_request_whose_end_is_uncertain_hides_no_other(
    server: Running, path: str, rest: str, caplog: pytest.LogCaptureFixture
) -> None:
    with server.connect((POST.format(path=path) + rest).encode()) as connection:
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_WR)
        answer = all_of(connection)
    assert b"whitedwarf_requests" not in answer  # what /metrics says
    assert answer[9:12] in (b"400", b"404", b"413", b"501", b"")
    assert server.client.get("/health").status_code == 200
    assert not [record for record in caplog.records if record.exc_info]


def test_headers_without_end_are_given_up(server: Running) -> None:
    with server.connect(b"GET / HTTP/1.1\r\nhost: localhost\r\n") as connection:
        with contextlib.suppress(ConnectionError):
            for number in range(200_000):
                connection.sendall(b"x-%d: y\r\n" % number)
            pytest.fail("200,000 headers were taken")
        assert b" 200 " not in all_of(connection)


def crowd(server: Running, size: int, said: bytes, stack: contextlib.ExitStack) -> None:
    for _ in range(size):
        connection = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S))
        with contextlib.suppress(ConnectionError):
            connection.sendall(said)


@pytest.mark.parametrize(
    "said",
    [b"", b"GET / HTTP/1.1\r\nx: ", POST.format(path="/v1/messages").encode() + b"content-length: 9000\r\n\r\n["],
    ids=["silent", "in the headers", "in the body"],
)
def test_a_flood_of_slow_connections_keeps_nobody_out(
    tokenizer: Tokenizer, said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 40)
    engine = HandEngine()
    request = json.dumps(BODIES["/v1/messages"]).encode()
    post = POST.format(path="/v1/messages").encode() + b"content-length: %d\r\n\r\n" % len(request) + request
    with serving(engine, tokenizer) as server, contextlib.ExitStack() as stack:
        running = stack.enter_context(server.connect(post))
        asked = engine.next_request()
        crowd(server, 500, said, stack)
        with httpx2.Client(base_url=server.url, timeout=PATIENCE_S) as newcomer:
            assert newcomer.get("/health").status_code == 200
        says(tokenizer, ["Still here."])(asked)
        assert b"Still here." in whole_answer(running)  # who was owed an answer gets it


def test_a_crowd_within_the_bound_is_left_alone(tokenizer: Tokenizer) -> None:
    with serving(HandEngine(), tokenizer) as server, contextlib.ExitStack() as stack:
        first = stack.enter_context(server.connect(b""))
        crowd(server, min(300, most_connections() - 50), b"", stack)
        first.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert first.recv(12) == b"HTTP/1.1 200"


def test_answers_that_nobody_reads_do_not_hold_a_connection(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listen, "STALL_TIMEOUT_S", 0.3)
    monkeypatch.setattr(listen, "HEADER_TIMEOUT_S", 0.3)
    with serving(HandEngine(), tokenizer) as server:
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", server.port))
        connection.settimeout(0.5)
        with connection:
            end_s = time.monotonic() + PATIENCE_S
            with pytest.raises(ConnectionError):  # noqa: PT012
                while time.monotonic() < end_s:
                    with contextlib.suppress(TimeoutError):
                        connection.sendall(b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n" * 100)


NASTY = "x\r\nset-cookie: a=b\r\n\r\n<html>\x1b[2J\u2028\x00\ud83e"


def test_a_client_s_words_never_become_headers(server: Running) -> None:
    tool = {"type": NASTY, "name": NASTY}
    requests: list[tuple[str, dict[str, object]]] = [
        ("/v1/chat/completions", {"model": NASTY, "response_format": {"type": "json_object"}, "tools": [tool]}),
        ("/v1/responses", {"model": NASTY, "tools": [tool], "include": [NASTY]}),
        ("/v1/messages", {"model": NASTY, "tools": [tool], "mcp_servers": [{"name": NASTY}]}),
        ("/v1/completions", {"model": NASTY, "suffix": NASTY, "user": NASTY}),
    ]
    for path, members in requests:
        for is_streamed in (True, False):
            content = json.dumps({**BODIES[path], **members, "stream": is_streamed}).encode()
            head = f"{POST.format(path=path)}connection: close\r\ncontent-length: {len(content)}\r\n\r\n".encode()
            with server.connect(head + content) as connection:
                answer = all_of(connection)
            start = answer.partition(b"\r\n\r\n")[0]
            assert answer[9:12] in (b"200", b"400"), answer
            assert not [line for line in start.split(b"\r\n") if line.lower().startswith(b"set-cookie")]
            assert all(0x20 <= byte < 0x7F or byte in b"\r\n" for byte in start)
            answer.decode()  # half a character of theirs does not make ours invalid


def test_a_client_s_words_never_become_lines_of_the_log(server: Running, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    forged = "0101 00:00:00 request_ended dialect=chat end=done"
    words = f"x\n{forged}\r{forged}\u2028{forged}\x1b]0;title\x07"
    for path, plain in BODIES.items():
        server.client.post(path, json={**plain, "model": words})
        server.client.post(path, json={**plain, words: words, "messages": words, "input": {words: 1}})
    for target in ("/%0a" + forged.replace(" ", "%20"), "/v1/models/%0d%0a" + forged.replace(" ", "%20")):
        server.client.get(target)
    status(server, f"GET /v1/models HTTP/1.1\r\nhost: {forged}\r\n\r\n")
    assert caplog.records
    for record in caplog.records:
        line = LogLines().format(record)
        assert line.isprintable(), line


@pytest.mark.slow
def test_files_of_the_cache_are_for_nobody_else_and_strange_ones_are_left_alone(tmp_path: Path) -> None:
    folder, outside = tmp_path / "kv", tmp_path / "outside"
    outside.write_text("root:x:0:0")
    folder.mkdir(0o700)
    name = "0" * 40
    for trick in (f"{name}.kv", "..%2foutside.kv", "a\nb.kv", "x" * 200 + ".kv"):
        (folder / trick).symlink_to(outside)
    (folder / ("1" * 40 + ".kv")).mkdir()
    flags = ["--kv-disk-dir", str(folder), "--kv-cache-min-tokens", "16", "--kv-cache-boundary-align-tokens", "32"]
    with started([*flags, "--ctx", "2048"]) as server:
        ask = {"model": "../../outside", "prompt": "tell me more " * 80, "max_tokens": 4, "user": "../outside"}
        answer = httpx2.post(f"http://127.0.0.1:{server.port}/v1/completions", json=ask, timeout=PATIENCE_S)
        assert answer.status_code == 200
        assert server.stop() == 0
    written = [path for path in folder.iterdir() if path.is_file() and not path.is_symlink()]
    assert written
    assert {stat.S_IMODE(path.stat().st_mode) for path in written} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert all(len(path.stem) == 40 and set(path.stem) <= set("0123456789abcdef") for path in written)
    assert outside.read_text() == "root:x:0:0"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kv", "outside"]
