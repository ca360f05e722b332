"""Streams that wait get headers and comments, and failures after that are events (spec/supervisor.md 2.27)."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from fakes.desk import STREAM_HEAD, Client, answer, asked, chunk, post, read_request, server, supervised
from whitedwarf.supervisor import early
from whitedwarf.supervisor.answers import overflow, refusal
from whitedwarf.supervisor.early import event_of
from whitedwarf.supervisor.failures import StartFailedError, UnloadedError
from whitedwarf.supervisor.limits import Overflow
from whitedwarf.supervisor.upstream import Address

pytestmark = pytest.mark.anyio
DOWN = Address("127.0.0.1", 9)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early, "COMMENT_EVERY_S", 0.04)
    monkeypatch.setattr(early, "LOOK_EVERY_S", 0.02)


async def opened(port: int, path: str = "/v1/chat/completions", **more: object) -> AsyncIterator[Client]:
    """A client whose headers have come before its answer."""
    client = await Client.to(port)
    await client.send(post({"stream": True, **more}, path))
    status, headers = await client.head()
    assert (status, headers["content-type"], headers["x-accel-buffering"]) == (200, "text/event-stream", "no")
    assert await client.piece() == b":\n\n"
    yield client
    await client.close()


async def test_a_stream_that_waits_for_its_model_gets_headers_comments_and_then_its_answer() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(STREAM_HEAD + chunk(b"data: 1\n\n"))
        await asyncio.sleep(0.2)  # an answer that has begun gets no comments
        writer.write(chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")

    async with server(talk) as address, supervised(address, early_headers_after_s=0.05) as it:
        it.desk.gate.clear()
        async for client in opened(it.port):
            assert [await client.piece() for _ in range(3)] == [b":\n\n"] * 3
            it.desk.gate.set()
            rest = await client.body({})
            assert rest.replace(b":\n\n", b"") == b"data: 1\n\ndata: [DONE]\n\n"
            assert rest.endswith(b"data: 1\n\ndata: [DONE]\n\n")


async def test_an_answer_whose_headers_went_out_early_is_not_encoded() -> None:
    heads: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await read_request(reader))[0])
        writer.write(answer(b"{}"))

    for after_s, is_asked in ((30.0, False), (0.0, True)):
        async with server(talk) as address, supervised(address, early_headers_after_s=after_s) as it:
            await asked(it.port, post({"stream": True}, more=b"Accept-Encoding: gzip\r\n"))
            assert (b"accept-encoding: gzip" in heads[-1]) is is_asked


async def test_a_long_prompt_counts_as_waiting_too() -> None:
    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        await asyncio.sleep(0.2)
        writer.write(STREAM_HEAD + chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")

    async with server(slow) as address, supervised(address, early_headers_after_s=0.05) as it:
        async for client in opened(it.port):
            assert (await client.body({})).endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("said", [{"stream": False}, {}, {"text": '"stream": true'}, {"metadata": {"stream": True}}])
async def test_who_wants_no_stream_gets_a_plain_status_however_long_it_takes(said: dict[str, object]) -> None:
    async with supervised(DOWN, early_headers_after_s=0.02) as it:
        it.desk.gate.clear()
        it.desk.fails = UnloadedError("by order")
        asyncio.get_running_loop().call_later(0.2, it.desk.gate.set)
        assert (await asked(it.port, post(said)))[0] == 503


async def test_no_early_headers_with_zero() -> None:
    async with supervised(DOWN, early_headers_after_s=0) as it:
        it.desk.gate.clear()
        it.desk.fails = UnloadedError("by order")
        asyncio.get_running_loop().call_later(0.1, it.desk.gate.set)
        assert (await asked(it.port, post({"stream": True})))[0] == 503


async def test_an_overflow_found_late_is_an_event_with_the_same_text() -> None:
    async with supervised(DOWN, early_headers_after_s=0.02) as it:
        it.desk.gate.clear()
        it.desk.over.says = Overflow(1215, 512)
        async for client in opened(it.port):
            it.desk.gate.set()
            said = (await client.body({})).replace(b":\n\n", b"")
            assert said == b"data: " + overflow(1215, 512).body + b"\n\n"


async def test_a_refusal_of_the_model_found_late_is_an_event_with_its_bytes() -> None:
    body = overflow(40_000, 32_768).body

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        await asyncio.sleep(0.1)
        writer.write(answer(body, b"400 Bad Request"))

    async with server(slow) as address, supervised(address, early_headers_after_s=0.02) as it:
        async for client in opened(it.port):
            assert (await client.body({})).replace(b":\n\n", b"") == b"data: " + body + b"\n\n"
    assert 'outcome="400"} 1' in it.app.metrics.text(())


async def test_a_start_that_fails_late_is_an_event_that_says_why() -> None:
    async with supervised(DOWN, early_headers_after_s=0.02) as it:
        it.desk.gate.clear()
        it.desk.fails = StartFailedError("it died", is_permanent=False, log_tail=("E bad",))
        async for client in opened(it.port):
            it.desk.gate.set()
            said = (await client.body({})).replace(b":\n\n", b"")
            error = json.loads(said.removeprefix(b"data: "))["error"]
            assert error["code"] == 503
            assert error["message"].startswith("503: it died")
            assert "E bad" in error["message"]


async def test_an_answer_that_breaks_off_after_early_headers_is_cut() -> None:
    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        await asyncio.sleep(0.1)
        writer.write(STREAM_HEAD + chunk(b"data: 1\n\n"))

    async with server(cut) as address, supervised(address, early_headers_after_s=0.02) as it:
        async for client in opened(it.port):
            with pytest.raises(asyncio.IncompleteReadError):
                await client.body({})


async def test_a_client_that_leaves_after_early_headers_frees_its_place() -> None:
    async with supervised(DOWN, early_headers_after_s=0.02) as it:
        it.desk.gate.clear()
        async for client in opened(it.port):
            client.writer.transport.abort()
            async with asyncio.timeout(1):
                await it.desk.is_quiet.wait()


async def test_loading_can_be_told_as_thoughts() -> None:
    async with supervised(DOWN, early_headers_after_s=0.02, tells_loading=True) as it:
        it.desk.gate.clear()
        it.desk.loading_text = "12 % loaded"
        async for client in opened(it.port):
            while (piece := await client.piece()) == b":\n\n":
                pass
            (choice,) = json.loads(piece.removeprefix(b"data: "))["choices"]
            assert choice["delta"]["reasoning_content"] == "12 % loaded\n"
            it.desk.loading_text = "50 % loaded"
            while (piece := await client.piece()) == b":\n\n":
                pass
            assert b"50 % loaded" in piece


def test_events_have_the_form_of_their_dialect() -> None:
    told = refusal(502, "it is gone", "server_error")
    text = b'"code":502,"message":"502: it is gone"'
    error = b'{"type":"error","error":{%s,"type":"server_error"}}' % text
    assert event_of(told, "/v1/messages") == b"event: error\ndata: " + error + b"\n\n"
    assert event_of(told, "/v1/responses") == b'event: error\ndata: {"type":"error",%s,"param":null}\n\n' % text
    assert event_of(told, "/v1/completions").startswith(b'data: {"error":{"code":502,"message":"502: it is gone"')
    page = told.__class__(500, (), b"<html>\nno\n")
    assert event_of(page, "/v1/chat/completions") == b'data: {"error":{"message":"<html>\\nno\\n"}}\n\n'
