"""The soft limit over a server that counts, or cannot: what is refused, what passes, and what the status says."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fakes.launches import FakeClock, FakeLaunches, FakeRunning, external, managed
from whitedwarf.supervisor import counting
from whitedwarf.supervisor.config import Model
from whitedwarf.supervisor.counting import Counter, counter_of, server_key
from whitedwarf.supervisor.limits import Overflow, SoftLimit, is_surely_below
from whitedwarf.supervisor.upstream import Address

pytestmark = pytest.mark.anyio

CHAT = "/v1/chat/completions"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Server:
    """Answers every request for a count in one way, and remembers what it was asked."""

    def __init__(self) -> None:
        self.status = 200
        self.answer = b'{"input_tokens":%d,"object":"response.input_tokens"}'
        self.tokens = 0
        self.is_slow = False
        self.asked: list[tuple[str, bytes]] = []

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        self.asked.append((head.decode(), await reader.readexactly(size)))
        body = self.answer % self.tokens if b"%d" in self.answer else self.answer
        if self.is_slow:
            await reader.read()
        writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s" % (self.status, len(body), body))
        writer.close()

    @property
    def targets(self) -> list[str]:
        return [head.split(" ")[1] for head, _ in self.asked]


class Scene:
    """A model with a soft limit, up at a server."""

    def __init__(self, model: Model, server: Server, address: Address, real: int) -> None:
        self.server = server
        self.clock = FakeClock()
        self.limit = SoftLimit(model, self.clock)
        self.launches = FakeLaunches()
        self.running = self.process(address, real)

    def process(self, address: Address, real: int) -> FakeRunning:
        self.launches.context_size = real
        running = FakeRunning(self.launches, managed("m"), 1)
        running.address = address
        return running

    async def check(self, tokens: int, body: bytes = b"", target: str = CHAT) -> Overflow | None:
        self.server.tokens = tokens
        return await self.limit.check(self.running, target, body or chat())


@asynccontextmanager
async def scene(model: Model | None = None, real: int = 4096, prefix: str = "") -> AsyncIterator[Scene]:
    server = Server()
    async with asyncio.timeout(10):
        listening = await asyncio.start_server(server.talk, "127.0.0.1", 0)
        try:
            port = listening.sockets[0].getsockname()[1]
            soft = managed("m", soft_context_limit=3072)
            yield Scene(model or soft, server, Address("127.0.0.1", port, prefix=prefix), real)
        finally:
            listening.close()


def chat(first: str = "do it", more: int = 6000, **others: Any) -> bytes:
    messages = [{"role": "user", "content": first}, {"role": "assistant", "content": "x" * more}]
    return json.dumps({"messages": messages, **others}).encode()


@pytest.mark.parametrize(
    ("tokens", "found"), [(3071, None), (3072, Overflow(3072, 3072)), (3073, Overflow(3073, 3072))]
)
async def test_the_limit_is_where_llama_server_would_have_it(tokens: int, found: Overflow | None) -> None:
    async with scene() as at:
        assert await at.check(tokens) == found
        assert at.limit.counting == "exact"


async def test_the_body_is_counted_as_it_is_and_by_the_counter_of_its_dialect() -> None:
    async with scene() as at:
        for target in (CHAT, "/chat/completions", "/v1/responses", "/v1/messages?beta=true", "/v1/completions", "/x"):
            await at.check(1, chat(tools=["ä"]), target)
        assert at.server.targets == [
            "/v1/chat/completions/input_tokens",
            "/v1/chat/completions/input_tokens",
            "/v1/responses/input_tokens",
            "/v1/messages/count_tokens",
        ]
        assert {body for _, body in at.server.asked} == {chat(tools=["ä"])}


async def test_block_summary_retry_and_the_next_block() -> None:
    async with scene() as at:
        long, summary, retry = chat(more=9000), chat(more=9500), chat("Summary: all is done")
        assert await at.check(3500, long) == Overflow(3500, 3072)
        assert await at.check(200, b'{"messages":[{"role":"user","content":"title"}]}') is None
        assert await at.check(3900, summary) is None
        assert await at.check(1500, retry) is None
        assert await at.check(3600, chat("Summary: all is done", more=9999)) == Overflow(3600, 3072)


async def test_the_window_ends_with_its_time_but_a_summary_within_it_may_be_slow() -> None:
    async with scene() as at:
        assert await at.check(3500) == Overflow(3500, 3072)
        at.clock.pass_(179)
        assert await at.check(3600) is None
        at.clock.pass_(1)
        assert await at.check(3600) == Overflow(3600, 3072)


async def test_what_is_over_the_real_context_gets_the_real_error_with_or_without_grace() -> None:
    async with scene() as at:
        assert await at.check(5000) == Overflow(5000, 4096)
        assert await at.check(4096) == Overflow(4096, 4096)
        assert await at.check(4095) is None  # the window is open


async def test_a_real_context_below_the_limit_lowers_it() -> None:
    async with scene(real=2048) as at:
        assert await at.check(1535) is None
        assert await at.check(1536) == Overflow(1536, 1536)


async def test_no_limit_asks_nobody() -> None:
    async with scene(managed("m")) as at:
        assert await at.check(9999) is None
        assert at.server.asked == []
        assert at.limit.counting == "off"


async def test_a_small_body_that_passes_is_not_counted_and_closes_its_window_all_the_same() -> None:
    small = chat(more=10)
    async with scene() as at:
        assert await at.check(3500) == Overflow(3500, 3072)
        assert await at.check(1, small) is None
        assert len(at.server.asked) == 1
        assert await at.check(3500) == Overflow(3500, 3072)


@pytest.mark.parametrize(
    ("body", "below"),
    [
        (chat(more=100), True),
        (chat(more=600), False),
        (chat(more=200, tools=[]), False),
        (chat("image_url http://…", more=10), False),
        (b'{"input":"go on","previous_response_id":"r"}', False),
    ],
)
def test_few_bytes_prove_that_a_limit_is_kept_unless_they_stand_for_more(body: bytes, below: bool) -> None:
    assert is_surely_below(body, 3072) is below


@pytest.mark.parametrize("status", [404, 405, 501])
async def test_a_server_without_a_counter_is_asked_once(status: int) -> None:
    async with scene() as at:
        at.server.status = status
        for _ in range(3):
            assert await at.check(9999) is None
        assert len(at.server.asked) == 1
        assert at.limit.counting == f"unavailable: the server answers {CHAT}/input_tokens with {status}"
        assert at.limit.warnings == (f"the soft limit does not act: counting {at.limit.counting}",)
        at.running = at.process(at.running.address, 4096)  # another process may have one
        at.server.status = 200
        assert await at.check(3072) == Overflow(3072, 3072)
        assert at.limit.counting == "exact"


@pytest.mark.parametrize(
    "answer",
    [b"<html>", b"[]", b"{}", b'{"input_tokens":"5"}', b'{"input_tokens":true}', b'{"input_tokens":-1}', b"[" * 9999],
)
async def test_a_count_that_is_none_passes(answer: bytes) -> None:
    async with scene() as at:
        at.server.answer = answer
        assert await at.check(9999) is None
        assert "no input_tokens" in at.limit.counting


async def test_a_broken_counter_passes_and_is_asked_again() -> None:
    async with scene() as at:
        at.server.status = 500
        assert await at.check(9999) is None
        assert "500" in at.limit.counting
        at.server.status = 200
        assert await at.check(9999) == Overflow(9999, 4096)


async def test_a_request_that_makes_no_sense_passes_and_says_nothing_about_counting() -> None:
    async with scene() as at:
        await at.check(1)
        at.server.status = 400
        assert await at.check(9999) is None
        assert at.limit.counting == "exact"


async def test_a_slow_counter_holds_up_one_request_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene() as at:
        at.server.is_slow = True
        monkeypatch.setattr(at.limit, "_counter", Counter(at.clock, timeout_s=0.05))
        for _ in range(3):
            assert await at.check(9999) is None
        assert len(at.server.asked) == 1
        assert "no answer within 0.05 s" in at.limit.counting
        at.clock.pass_(60)
        at.server.is_slow = False
        assert await at.check(9999) == Overflow(9999, 4096)


async def test_a_counter_that_broke_off_with_its_process_is_asked_in_the_next_one() -> None:
    async with scene() as at:
        well = at.running
        at.running = at.process(Address("127.0.0.1", 1), 4096)  # which has not been seen to end
        assert await at.check(9999) is None
        at.running = well
        assert await at.check(9999) == Overflow(9999, 4096)


async def test_a_server_that_is_gone_passes() -> None:
    async with scene() as at:
        at.running = at.process(Address("127.0.0.1", 1), 4096)
        assert await at.check(9999) is None
        assert "cannot reach" in at.limit.counting


async def test_what_is_no_json_passes() -> None:
    async with scene() as at:
        assert await at.check(9999, b"x" * 9000) == Overflow(9999, 4096)  # the server counted it, so it knows better
        assert await at.check(3500, b"x" * 9000) is None


async def test_the_servers_own_key_is_sent() -> None:
    model = managed("m", soft_context_limit=3072, arguments=("--api-key", "one,two"))
    async with scene(model) as at:
        await at.check(1)
        assert "Authorization: Bearer one\r\n" in at.server.asked[0][0]


async def test_an_external_server_is_counted_below_its_own_prefix() -> None:
    async with scene(prefix="/v1") as at:
        await at.check(1)
        assert at.server.targets == ["/v1/chat/completions/input_tokens"]


def test_where_the_key_of_a_server_comes_from(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "keys"
    file.write_text("# ours\n\nthird\n")
    assert server_key(managed("m")) is None
    assert server_key(managed("m", arguments=("--api-key=first",))) == "first"
    assert server_key(managed("m", arguments=("--api-key-file", str(file)))) == "third"
    assert server_key(managed("m", arguments=("--api-key-file", str(tmp_path / "none")))) is None
    assert server_key(managed("m", environment=(("LLAMA_API_KEY", "fourth"),))) == "fourth"
    monkeypatch.setenv("A_KEY", "fifth")
    from dataclasses import replace

    assert server_key(replace(external("x"), api_key_variable="A_KEY")) == "fifth"
    assert server_key(external("x")) is None


def test_other_paths_have_no_counter() -> None:
    assert [path for path in ("/v1/completions", "/completion", "/", "/v1/embeddings") if counter_of(path)] == []
    assert counting.counter_of("/v1/chat/completions/") is not None
