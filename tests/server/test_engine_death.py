"""A bug that ends the engine's thread: every client is told so, and whoever watches over the server sees it."""

import json

from fakes.gates import Gate
from fakes.models import FakeModel
from server.serving import BODIES, JSON, serving
from whitedwarf.engine.engine import Engine
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.server.facts import Facts

PATH = "/v1/chat/completions"
STREAMED = json.dumps(BODIES[PATH] | {"stream": True}).encode()


def test_whoever_waits_is_told_and_so_is_whoever_comes(tokenizer: Tokenizer) -> None:
    gate = Gate()

    def die(spans: object) -> None:
        gate(spans)
        raise SystemExit("out of luck")

    model = FakeModel(vocab_size=tokenizer.vocab_size, before_forward=die)
    with (
        Engine(model) as engine,
        serving(engine, tokenizer, facts=Facts(is_running=lambda: engine.is_running)) as server,
    ):
        assert server.client.get("/health").status_code == 200
        with server.client.stream("POST", PATH, content=STREAMED, headers=JSON) as running:
            gate.open()
            events = [line for line in running.iter_lines() if line.startswith('data: {"error"')]
        assert len(events) == 1
        assert "out of luck" in events[0]
        for body in (STREAMED, json.dumps(BODIES[PATH]).encode()):
            late = server.client.post(PATH, content=body, headers=JSON)
            assert late.status_code == 503
            assert "restart" in late.json()["error"]["message"]
        health = server.client.get("/health")
    assert health.status_code == 503
    assert "start the server again" in health.json()["error"]["message"]
