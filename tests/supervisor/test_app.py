"""Who answers what on a model's port (spec/supervisor.md 1.3, 2.3, 2.4, 2.12, 2.24), over a desk without processes."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from fakes.desk import (
    STREAM_HEAD,
    Client,
    Supervised,
    answer,
    asked,
    chunk,
    get,
    left,
    post,
    read_request,
    server,
    supervised,
)
from whitedwarf.supervisor import asgi
from whitedwarf.supervisor.failures import QueueFullError, StartFailedError, UnloadedError, WaitedTooLongError
from whitedwarf.supervisor.limits import Overflow
from whitedwarf.supervisor.upstream import Address

pytestmark = pytest.mark.anyio
DOWN = Address("127.0.0.1", 9)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def down() -> AsyncIterator[Supervised]:
    """A managed model that is not loaded, and nobody behind it."""
    async with supervised(DOWN) as it:
        it.desk.is_loaded = False
        yield it


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head, body = await read_request(reader)
    writer.write(answer(json.dumps({"head": head.decode(), "body": body.decode()}).encode()))


@pytest.mark.parametrize("path", ["/health", "/v1/health"])
async def test_health_is_the_supervisors_own_and_wakes_nothing(down: Supervised, path: str) -> None:
    status, headers, body = await asked(down.port, get(path))
    assert (status, body) == (200, b'{"status":"ok"}')
    assert headers["content-type"] == "application/json; charset=utf-8"
    assert down.desk.visits == []


@pytest.mark.parametrize("path", ["/models", "/v1/models"])
async def test_models_tell_the_state_and_wake_nothing(down: Supervised, path: str) -> None:
    async def state() -> str:
        (model,) = json.loads((await asked(down.port, get(path)))[2])["data"]
        assert model["id"] == "one"
        assert model["meta"] == {"n_ctx": 32768}
        return str(model["status"]["value"])

    assert await state() == "unloaded"
    down.desk.loading_text = "half of it"
    assert await state() == "loading"
    down.desk.is_loaded = True
    assert await state() == "loaded"
    assert down.desk.visits == []


@pytest.mark.parametrize("path", ["/props", "/metrics", "/slots", "/", "/v1/whatever"])
async def test_questions_about_an_unloaded_model_get_503_and_wake_nothing(down: Supervised, path: str) -> None:
    status, headers, body = await asked(down.port, get(path))
    assert (status, headers["connection"]) == (503, "close")
    assert json.loads(body)["error"]["type"] == "unavailable_error"
    assert down.desk.visits == []
    down.desk.loading_text = "half of it"
    _, _, body = await asked(down.port, get(path))
    assert body == b'{"error":{"message":"Loading model","type":"unavailable_error","code":503}}'


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
async def test_what_is_no_post_is_forwarded_to_a_loaded_model_without_a_visit(method: str) -> None:
    async with server(echo) as address, supervised(address) as it:
        status, _, body = await asked(it.port, get("/props?x=%20y", method=method))
        assert status == 200
        assert json.loads(body)["head"].startswith(f"{method} /props?x=%20y HTTP/1.1\r\n")
        assert it.desk.visits == []


async def test_a_post_visits_the_desk_and_its_bytes_arrive_unchanged() -> None:
    said = b'{ "messages" : [ {"content":"caf\xc3\xa9\\r\\n"} ],\r\n "model":"anything" }'
    async with server(echo) as address, supervised(address) as it:
        status, _, body = await asked(it.port, post(said, "/v1/chat/completions?a=b"))
        told = json.loads(body)
        assert status == 200
        assert told["body"].encode() == said
        assert told["head"].startswith("POST /v1/chat/completions?a=b HTTP/1.1\r\n")
        assert it.desk.visits == [("one", None)]
        assert it.desk.in_flight == 0


async def test_invalid_json_is_for_the_model_to_refuse() -> None:
    async with server(echo) as address, supervised(address) as it:
        assert json.loads((await asked(it.port, post(b"{nonsense")))[2])["body"] == "{nonsense"


async def test_options_are_answered_here_as_llama_server_does(down: Supervised) -> None:
    status, headers, body = await asked(down.port, get("/v1/chat/completions", method="OPTIONS"))
    assert (status, body) == (200, b"")
    assert headers["access-control-allow-methods"] == "GET, POST"
    assert headers["access-control-allow-headers"] == "*"
    assert down.desk.visits == []


async def test_an_overflow_is_llama_servers_byte_for_byte_and_is_not_forwarded(down: Supervised) -> None:
    down.desk.over.says = Overflow(1215, 512)
    status, headers, body = await asked(down.port, post({"stream": True}, "/v1/chat/completions?x=1"))
    assert body == (
        b'{"error":{"code":400,"message":"request (1215 tokens) exceeds the available context size (512 tokens), '
        b'try increasing it","type":"exceed_context_size_error","n_prompt_tokens":1215,"n_ctx":512}}'
    )
    assert (status, headers["content-length"], headers["connection"]) == (400, "193", "close")
    assert headers["content-type"] == "application/json; charset=utf-8"
    assert down.desk.over.asked == ["/v1/chat/completions?x=1"]


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (
            StartFailedError("no such file", is_permanent=True, log_tail=("E bad", "E worse")),
            400,
            "invalid_request_error",
        ),
        (StartFailedError("it died", is_permanent=False, log_tail=("E bad",)), 503, "unavailable_error"),
        (QueueFullError("64 requests wait"), 429, "rate_limit_error"),
        (WaitedTooLongError("the other model is busy"), 503, "unavailable_error"),
        (UnloadedError("unloaded by order"), 503, "unavailable_error"),
        (RuntimeError("a bug of ours"), 500, "server_error"),
    ],
)
async def test_failures_have_the_status_that_makes_clients_do_what_helps(
    down: Supervised, error: Exception, status: int, kind: str
) -> None:
    down.desk.fails = error
    got, headers, body = await asked(down.port, post({}))
    told = json.loads(body)["error"]
    assert (got, told["code"], told["type"], headers["connection"]) == (status, status, kind, "close")
    if isinstance(error, StartFailedError):
        assert str(error) in told["message"]
        assert all(line in told["message"] for line in error.log_tail)
    assert ("retry-after" in headers) == (status in (429, 503))


async def test_a_bug_of_ours_is_logged_and_answered(
    down: Supervised, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(down.desk, "status", broken)
    assert (await asked(down.port, get("/v1/models")))[0] == 500
    assert "a bug" in caplog.text
    assert (await asked(down.port, get("/health")))[0] == 200


async def test_another_models_name_is_refused_and_any_other_name_is_not() -> None:
    async with server(echo) as address, supervised(address, kinds=("managed", "managed")) as it:
        status, _, body = await asked(it.port, post({"model": "two", "messages": []}))
        assert status == 404
        assert f"'two' is at port {it.ports[1]}" in json.loads(body)["error"]["message"]
        assert it.desk.visits == []
        for said in ({"model": "one"}, {"model": "gpt-4"}, {"messages": [{"model": "two"}]}, {"text": '"model":"two"'}):
            assert (await asked(it.port, post(said)))[0] == 200
        assert (await asked(it.ports[1], post({"model": "two"})))[0] == 200
        assert [key for key, _ in it.desk.visits] == ["one"] * 4 + ["two"]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/responses"])
@pytest.mark.parametrize(
    ("said", "seconds"),
    [(0, 0), ("0", 0), ("10m", 600), (-1, -1), ("-1", -1), (None, None), ("1h30m", 5400), (1.5, 1.5)],
)
async def test_keep_alive_means_the_same_on_every_route(path: str, said: object, seconds: float | None) -> None:
    async with server(echo) as address, supervised(address) as it:
        assert (await asked(it.port, post({"keep_alive": said}, path)))[0] == 200
        assert it.desk.visits == [("one", seconds)]


@pytest.mark.parametrize("said", ["soon", "10 m", True, [], "", "10m5", "1e400"])
async def test_a_keep_alive_that_means_nothing_is_refused(down: Supervised, said: object) -> None:
    status, _, body = await asked(down.port, post({"keep_alive": said}))
    assert status == 400
    assert "keep_alive: expected seconds" in json.loads(body)["error"]["message"]
    assert down.desk.visits == []


async def test_a_body_that_is_too_large_is_told_also_to_a_client_that_sends_on() -> None:
    async with supervised(DOWN, max_body_bytes=1000) as it:
        for request in (post(b"x" * 200_000), _chunked(b"x" * 900, b"y" * 900)):
            status, _, body = await asked(it.port, request)
            assert status == 413
            assert "at most 1000 bytes" in json.loads(body)["error"]["message"]
        assert it.desk.visits == []


async def test_a_chunked_upload_arrives_with_a_length() -> None:
    async with server(echo) as address, supervised(address) as it:
        told = json.loads((await asked(it.port, _chunked(b'{"a":', b"1}")))[2])
        assert told["body"] == '{"a":1}'
        assert "content-length: 7\r\n" in told["head"].lower()
        assert "transfer-encoding" not in told["head"].lower()


async def test_a_body_of_30_mib_arrives() -> None:
    async def measure(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, body = await read_request(reader)
        writer.write(answer(b"%d" % len(body)))

    async with server(measure) as address, supervised(address) as it:
        assert (await asked(it.port, post(b"x" * (30 << 20))))[2] == b"%d" % (30 << 20)


async def test_a_slow_body_holds_nothing(down: Supervised) -> None:
    client = await Client.to(down.port)
    request = post({"x": 1})
    for byte in request[:-1]:
        await client.send(bytes([byte]))
    assert (await asked(down.port, get("/health")))[0] == 200
    assert down.desk.visits == []
    await client.close()


async def test_a_body_that_ends_before_its_length_wakes_nothing(down: Supervised) -> None:
    client = await Client.to(down.port)
    await client.send(post({"x": 1})[:-1])
    client.writer.write_eof()
    assert await client.reader.read() == b""
    assert down.desk.visits == []
    await client.close()


async def test_a_body_that_is_longer_than_its_length_ends_there() -> None:
    async with server(echo) as address, supervised(address) as it:
        client = await Client.to(it.port)
        await client.send(post({"x": 1}) + b"and more")
        assert json.loads((await client.answer())[2])["body"] == '{"x": 1}'
        assert await client.reader.read() == b""
        assert len(it.desk.visits) == 1
        await client.close()


async def test_a_body_that_stops_coming_is_given_up(down: Supervised, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asgi, "BODY_STALL_S", 0.1)
    client = await Client.to(down.port)
    await client.send(post({"x": 1})[:-1])
    status, headers, _ = await client.answer()
    assert (status, headers["connection"]) == (408, "close")
    assert await client.reader.read() == b""
    assert down.desk.visits == []
    await client.close()


async def test_external_servers_get_everything() -> None:
    async with server(echo) as address:
        far = Address(address.host, address.port, prefix="/v1")
        async with supervised(far, kinds=("external",)) as it:
            it.desk.is_loaded = False
            for request, line in [
                (get("/health"), "GET /health "),
                (get("/v1/models"), "GET /v1/models "),
                (post({"model": "two", "keep_alive": "whatever"}), "POST /v1/chat/completions "),
                (post({}, "/chat/completions"), "POST /v1/chat/completions "),
            ]:
                status, _, body = await asked(it.port, request)
                assert status == 200
                assert json.loads(body)["head"].startswith(line)


async def test_an_external_server_that_is_down_is_told_at_once() -> None:
    async with supervised(DOWN, kinds=("external",)) as it:
        async with asyncio.timeout(1):
            status, _, body = await asked(it.port, post({}))
        assert status == 502
        assert "127.0.0.1 port 9" in json.loads(body)["error"]["message"]


async def test_a_client_that_leaves_while_it_waits_is_not_forwarded(down: Supervised) -> None:
    down.desk.gate.clear()
    client = await Client.to(down.port)
    await client.send(post({"stream": True}))
    while not down.desk.waiting:
        await asyncio.sleep(0.01)
    await client.close()
    async with asyncio.timeout(1):
        await down.desk.is_quiet.wait()
    assert 'outcome="left"} 1' in down.app.metrics.text(())


async def test_a_client_that_leaves_closes_the_connection_behind_at_once() -> None:
    gone = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(STREAM_HEAD + chunk(b"data: 1\n\n"))
        await left(reader)
        gone.set()

    async with server(talk) as address, supervised(address) as it:
        client = await Client.to(it.port)
        await client.send(post({"stream": True}))
        _, _headers = await client.head()
        assert await client.piece() == b"data: 1\n\n"
        await client.close()
        async with asyncio.timeout(1):
            await gone.wait()
            await it.desk.is_quiet.wait()


async def test_a_model_that_says_nothing_is_left_when_the_client_leaves() -> None:
    gone = asyncio.Event()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        await left(reader)
        gone.set()

    async with server(hang) as address, supervised(address) as it:
        client = await Client.to(it.port)
        await client.send(post({}))
        await asyncio.sleep(0.05)
        await client.close()
        async with asyncio.timeout(1):
            await gone.wait()


async def test_a_port_that_left_the_config_says_so(down: Supervised) -> None:
    down.app.reconfigure(replace(down.desk.config, models=()), None)
    assert (await asked(down.port, get("/health")))[0] == 404


def _chunked(*parts: bytes) -> bytes:
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(map(chunk, parts)) + b"0\r\n\r\n"
