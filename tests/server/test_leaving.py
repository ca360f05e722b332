"""A client that leaves ends its request: every endpoint, streamed or whole, in every phase (demand.md P18)."""

import json

import pytest

from server.serving import BODIES, HandEngine, Submitted, serving
from whitedwarf.engine.request import Prefilled, Token
from whitedwarf.prompt.tokenizer import Tokenizer


def post(path: str, is_streamed: bool) -> bytes:
    body = json.dumps({**BODIES[path], "stream": is_streamed}).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


def go_to(phase: str, request: Submitted) -> None:
    if phase != "queueing":
        request.put(Prefilled(0, len(request.ids)))
    if phase == "decoding":
        request.put(Prefilled(len(request.ids), len(request.ids)), Token(5))


@pytest.mark.parametrize("phase", ["queueing", "prefilling", "decoding"])
@pytest.mark.parametrize("is_streamed", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("path", BODIES)
def test_a_request_whose_client_leaves_is_cancelled(
    path: str, is_streamed: bool, phase: str, tokenizer: Tokenizer
) -> None:
    engine = HandEngine()
    with serving(engine, tokenizer) as server:
        connection = server.connect(post(path, is_streamed))
        request = engine.next_request()
        go_to(phase, request)
        if is_streamed:
            assert connection.recv(12) == b"HTTP/1.1 200"
        assert not request.generation.is_cancelled
        connection.close()
        request.wait_until_cancelled()
        dialect = {"/v1/chat/completions": "chat"}.get(path, path.removeprefix("/v1/"))
        assert server.metric(f'whitedwarf_requests_total{{dialect="{dialect}",end="cancelled"}}') == 1
        for state in ("active", "waiting", "running"):
            assert server.metric(f"whitedwarf_requests_{state}") == 0


def test_a_client_that_leaves_while_it_sends_its_body_costs_nothing(tokenizer: Tokenizer) -> None:
    engine = HandEngine()
    with serving(engine, tokenizer) as server:
        server.connect(post("/v1/messages", True)[:-5]).close()
        assert server.client.get("/health").status_code == 200
        assert engine.submitted.empty()
