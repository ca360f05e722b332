"""What a stream tells while nothing comes, and how it ends (demand.md P17; clients.md 4)."""

import json
import time
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from server.serving import BODIES, HandEngine, Submitted, finished, serving
from whitedwarf.engine.request import FinishReason, Prefilled, Token
from whitedwarf.errors import BackendError
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.protocol.dialects import CHAT, COMPLETIONS, MESSAGES, RESPONSES, Dialect, Told
from whitedwarf.protocol.policy import local
from whitedwarf.reply import Reply
from whitedwarf.respond import Road
from whitedwarf.server.stream import KEEPALIVE_S, told_pieces, wire

DIALECTS = {
    "/v1/chat/completions": CHAT,
    "/v1/responses": RESPONSES,
    "/v1/messages": MESSAGES,
    "/v1/completions": COMPLETIONS,
}
SILENT: dict[Dialect, Callable[[Told], bool]] = {
    CHAT: lambda told: told["choices"] == [],
    RESPONSES: lambda told: told["type"] == "keepalive",
    MESSAGES: lambda told: told == {"type": "ping"},
    COMPLETIONS: lambda told: told["choices"] == [],
}


def started(path: str, tokenizer: Tokenizer) -> tuple[Reply, Submitted]:
    engine = HandEngine()
    road = Road(engine, tokenizer, local(ModelVersion.V4))
    reply = road.start(road.prepare(json.dumps({**BODIES[path], "stream": True}).encode(), DIALECTS[path]))
    return reply, engine.next_request()


def test_the_clock_is_within_what_clients_need() -> None:
    assert KEEPALIVE_S <= 5


@pytest.mark.parametrize("path", BODIES)
def test_signs_of_life_come_on_a_clock_that_progress_does_not_put_off(path: str, tokenizer: Tokenizer) -> None:
    reply, request = started(path, tokenizer)
    pieces: list[list[Told]] = []

    async def progress() -> None:
        for done in range(40):
            request.put(Prefilled(done, 40))
            await anyio.sleep(0.01)
        request.put(finished())

    async def run() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(progress)
            pieces.extend([told async for told in told_pieces(reply, keepalive_s=0.05)])

    started_s = time.monotonic()
    anyio.run(run)
    took_s = time.monotonic() - started_s  # more than 0.4 s on a busy machine
    first, *rest = pieces
    signs = [told for piece in rest for told in piece if SILENT[DIALECTS[path]](told)]
    assert first or path == "/v1/completions"
    assert 2 <= len(signs) <= took_s / 0.05
    assert reply.is_over


TERMINAL: dict[Dialect, Callable[[Told], bool]] = {
    CHAT: lambda told: "error" in told or any(choice["finish_reason"] for choice in told["choices"]),
    RESPONSES: lambda told: told["type"] in ("response.completed", "response.failed", "response.incomplete"),
    MESSAGES: lambda told: told["type"] in ("message_stop", "error"),
    COMPLETIONS: lambda told: "error" in told or any(choice["finish_reason"] for choice in told["choices"]),
}


def events_of(text: str) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


@pytest.mark.parametrize(
    "end",
    [
        finished(FinishReason.STOP),
        finished(FinishReason.LENGTH),
        finished(FinishReason.CANCELLED),
        finished(FinishReason.ERROR, error=BackendError("the model broke")),
    ],
    ids=lambda end: end.reason.value,
)
@pytest.mark.parametrize("path", BODIES)
def test_a_stream_ends_with_exactly_one_terminal_event(path: str, end: Any, tokenizer: Tokenizer) -> None:
    def play(request: Submitted) -> None:
        request.put(Prefilled(0, 1), *(Token(i) for i in tokenizer.encode("Hi")), end, end)

    with serving(HandEngine(play=play), tokenizer) as server:
        answer = server.client.post(path, json={**BODIES[path], "stream": True})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    told = events_of(answer.content.decode())
    assert sum(map(TERMINAL[DIALECTS[path]], told)) == 1
    is_good = end.reason in (FinishReason.STOP, FinishReason.LENGTH)
    assert answer.text.endswith("data: [DONE]\n\n") is (is_good and not DIALECTS[path].names_events)


@pytest.mark.parametrize("path", BODIES)
def test_an_answer_that_fails_before_a_whole_body_is_a_status(path: str, tokenizer: Tokenizer) -> None:
    end = finished(FinishReason.ERROR, error=BackendError("the model broke"))
    with serving(HandEngine(play=lambda request: request.put(end)), tokenizer) as server:
        answer = server.client.post(path, json=BODIES[path])
    assert (answer.status_code, answer.json()["error"]["message"]) == (500, "the model broke")


def test_a_bug_while_telling_still_ends_the_stream(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    def break_down(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(Reply, "take", break_down)
    with serving(HandEngine(play=lambda request: request.put(Token(5))), tokenizer) as server:
        answer = server.client.post("/v1/messages", json={**BODIES["/v1/messages"], "stream": True})
    assert events_of(answer.text)[-1]["type"] == "error"


def test_what_goes_over_the_wire_is_one_line_of_json_in_utf8() -> None:
    told = {"type": "ping", "text": "a\nb\r\u2028 🦔漢"}
    assert wire([told], MESSAGES).decode().split("\n") == [
        "event: ping",
        'data: {"type":"ping","text":"a\\nb\\r\u2028 🦔漢"}',
        "",
        "",
    ]
