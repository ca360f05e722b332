"""A server on loopback in a thread of its own, over an engine whose events the test puts in by hand."""

import contextlib
import queue
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx2

from whitedwarf.engine.generation import Generation
from whitedwarf.engine.guide import Guide
from whitedwarf.engine.request import Event, Finished, FinishReason, GenerateOptions, Prefilled, Token
from whitedwarf.errors import WhitedwarfError
from whitedwarf.prompt.encode import ModelVersion
from whitedwarf.prompt.special import SpecialToken
from whitedwarf.prompt.tokenizer import Ids, Tokenizer
from whitedwarf.protocol.past import Past
from whitedwarf.protocol.policy import local
from whitedwarf.respond import Backend, Road
from whitedwarf.server.app import make_app
from whitedwarf.server.endpoints import Endpoints
from whitedwarf.server.facts import Facts
from whitedwarf.server.listen import Server
from whitedwarf.server.metrics import Metrics
from whitedwarf.server.models import ServedModel
from whitedwarf.server.request_trace import Trace
from whitedwarf.web.auth import ApiKeys
from whitedwarf.web.host_check import HostRule
from whitedwarf.web.sockets import bound_socket

PATIENCE_S = 60.0
JSON = {"content-type": "application/json"}
ASKED = [{"role": "user", "content": "Go on."}]
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"model": "m", "messages": ASKED, "thinking": {"type": "disabled"}},
    "/v1/responses": {"model": "m", "input": "Go on.", "reasoning": {"effort": "none"}},
    "/v1/messages": {"model": "m", "max_tokens": 100, "messages": ASKED},
    "/v1/completions": {"model": "m", "prompt": "Go on.", "think": False},
}
MODEL = ServedModel("tiny", "Tiny", 1000, 1_700_000_000, "2023-11-14T22:13:20Z")


@dataclass(frozen=True)
class Submitted:
    ids: Ids
    options: GenerateOptions
    generation: Generation

    def put(self, *events: Event) -> None:
        for event in events:
            self.generation.put(event)

    def wait_until_cancelled(self) -> None:
        end_s = time.monotonic() + PATIENCE_S
        while not self.generation.is_cancelled:
            assert time.monotonic() < end_s, "nobody cancelled the request"
            time.sleep(0.005)


@dataclass
class HandEngine:
    """Takes requests and does nothing, but for what `play` puts at once; `error` refuses them."""

    context_length: int = 1000
    error: WhitedwarfError | None = None
    play: Callable[[Submitted], None] | None = None
    submitted: "queue.Queue[Submitted]" = field(default_factory=queue.Queue)

    def submit(self, ids: Ids, options: GenerateOptions, *, guide: Guide | None = None) -> Generation:
        if self.error is not None:
            raise self.error
        submitted = Submitted(ids, options, Generation())
        if self.play is not None:
            self.play(submitted)
        self.submitted.put(submitted)
        return submitted.generation

    def next_request(self) -> Submitted:
        return self.submitted.get(timeout=PATIENCE_S)


def finished(
    reason: FinishReason = FinishReason.STOP, reused: int = 0, error: WhitedwarfError | None = None
) -> Finished:
    return Finished(reason, prompt_tokens=1, generated_tokens=1, reused_tokens=reused, error=error)


def says(
    tokenizer: Tokenizer,
    pieces: Sequence[str | SpecialToken],
    reason: FinishReason = FinishReason.STOP,
    reused: int = 0,
) -> Callable[[Submitted], None]:
    """An answer of these pieces, all at once."""
    ids = [
        token_id
        for piece in pieces
        for token_id in ([tokenizer.special_id(piece)] if isinstance(piece, SpecialToken) else tokenizer.encode(piece))
    ]

    def play(submitted: Submitted) -> None:
        total = len(submitted.ids)
        submitted.put(Prefilled(reused, total), Prefilled(total, total), *map(Token, ids), finished(reason, reused))

    return play


@dataclass(frozen=True)
class Running:
    url: str
    port: int
    client: httpx2.Client

    def connect(self, request: bytes) -> socket.socket:
        """A connection of one's own on which this was sent."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)
        connection.sendall(request)
        return connection

    def metric(self, line: str) -> float:
        found = [text for text in self.client.get("/metrics").text.splitlines() if text.startswith(line + " ")]
        return float(found[0].split()[-1]) if found else 0.0


def whole_answer(connection: socket.socket) -> bytes:
    """One answer that says its length, in however many pieces it comes."""
    got = b""
    while True:
        head, ends, body = got.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        if ends and (length is None or len(body) >= int(length[1])):
            return got
        piece = connection.recv(65536)
        if not piece:
            return got
        got += piece


@contextlib.contextmanager
def serving(
    engine: Backend,
    tokenizer: Tokenizer,
    *,
    hosts: HostRule | None = None,
    keys: ApiKeys | None = None,
    max_body_bytes: int = 1 << 20,
    facts: Facts | None = None,
    trace: Trace | None = None,
    past: Past | None = None,
) -> Iterator[Running]:
    road = Road(engine, tokenizer, local(ModelVersion.V4), past)
    facts = facts or Facts()
    endpoints = Endpoints(road, MODEL, metrics=Metrics(facts), max_body_bytes=max_body_bytes, facts=facts, trace=trace)
    server = Server(make_app(endpoints, hosts or HostRule(frozenset()), keys), drain_s=PATIENCE_S, hurry=lambda: None)
    listener = bound_socket("127.0.0.1", 0)
    port = listener.getsockname()[1]
    thread = threading.Thread(target=server.run, args=([listener],))
    listener.listen()
    thread.start()
    url = f"http://127.0.0.1:{port}"
    try:
        with httpx2.Client(base_url=url, timeout=PATIENCE_S) as client:
            yield Running(url, port, client)
    finally:
        server.should_exit = True
        thread.join(PATIENCE_S)
        listener.close()
    assert not thread.is_alive()
