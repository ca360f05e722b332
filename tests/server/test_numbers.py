"""A busy server's numbers agree: usage, counted tokens, metrics and the trace, whoever asks at the same time."""

import re
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fakes.scripted_server import eventually
from server.serving import BODIES, JSON, Running, serving
from whitedwarf.cli.loading import LoadedModel, open_model
from whitedwarf.config import ModelSettings
from whitedwarf.engine.engine import Engine
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.server.request_trace import Trace
from whitedwarf.server.trace import FIRST_LINE, TraceFile
from whitedwarf.weights.store import bundled_model

TALKS = 8
TURNS = 3
CONTEXT = 1000
COUNTERS = {"/v1/chat/completions": "/v1/chat/completions/input_tokens", "/v1/messages": "/v1/messages/count_tokens"}
SECTIONS = ("raw request", "rendered prompt", "generated text", "cache decision", "parsed message", "content")


@pytest.fixture(scope="module")
def loaded() -> LoadedModel:
    return open_model(ModelSettings(model=str(bundled_model()), context=CONTEXT))


@dataclass
class Sums:
    """What clients were told, of all answers together."""

    prompt: int = 0
    cached: int = 0
    generated: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, prompt: int, cached: int, generated: int) -> None:
        assert 0 <= cached <= prompt
        assert prompt + generated <= CONTEXT
        with self.lock:
            self.prompt += prompt
            self.cached += cached
            self.generated += generated


def chat_usage(answer: dict[str, Any]) -> tuple[int, int, int]:
    usage = answer["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    return usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"], usage["completion_tokens"]


def messages_usage(answer: dict[str, Any]) -> tuple[int, int, int]:
    usage = answer["usage"]
    return (
        usage["input_tokens"] + usage["cache_read_input_tokens"],
        usage["cache_read_input_tokens"],
        usage["output_tokens"],
    )


def talk(server: Running, number: int, sums: Sums) -> None:
    """A conversation in which the model is drawn from; each prompt is counted before it is asked."""
    path = list(COUNTERS)[number % 2]
    asked: list[dict[str, Any]] = []
    for turn in range(TURNS):
        asked.append({"role": "user", "content": f"{number % 3}. Tell me of the sea. " * (9 if turn == 0 else 1)})
        sampling = (
            {"temperature": 1.5, "seed": number, "max_tokens": 20} if path != "/v1/messages" else {"max_tokens": 20}
        )
        body = {**BODIES[path], "messages": asked, **sampling}
        counted = server.client.post(COUNTERS[path], json=body).json()["input_tokens"]
        answer = server.client.post(path, json=body).json()
        usage = messages_usage(answer) if path == "/v1/messages" else chat_usage(answer)
        assert usage[0] == counted, "the next prompt is of what was drawn, and so it is counted"
        sums.add(*usage)
        said = answer["content"] if path == "/v1/messages" else answer["choices"][0]["message"]["content"]
        asked.append({"role": "assistant", "content": said or "Nothing."})


def blocks(trace: str) -> Iterator[tuple[int, str]]:
    """Each request's block by its number, put together again from between the others'."""
    texts: dict[int, str] = {}
    owner = 0
    marks = re.compile(r"\n--- trace: request (\d+) ---\n|(\n===== request (\d+) [-0-9]+ [:0-9]+ =====\n)")
    place = len(FIRST_LINE)
    assert trace.startswith(FIRST_LINE)
    for mark in marks.finditer(trace):
        texts[owner] = texts.get(owner, "") + trace[place : mark.start()]
        owner, place = int(mark[1] or mark[3]), mark.end()
        assert (owner in texts) is bool(mark[1]), "a block begins once, and before anything else of it"
        texts.setdefault(owner, "")
    texts[owner] += trace[place:]
    assert not texts.pop(0).strip()
    yield from texts.items()


def metrics(server: Running) -> tuple[float, ...]:
    return tuple(
        server.metric(f'whitedwarf_tokens_total{{kind="{kind}"}}') for kind in ("prompt", "cached", "generated")
    )


def test_they_agree(loaded: LoadedModel, tokenizer: Tokenizer, tmp_path: Path) -> None:
    sums, path = Sums(), tmp_path / "trace"
    with (
        closing(TraceFile.open(path)) as file,
        Engine(loaded.transformer, max_parallel=3, max_chunk_tokens=64, prefix_budget_bytes=64 << 20) as engine,
        serving(engine, tokenizer, trace=Trace(file, tokenizer)) as server,
        ThreadPoolExecutor(TALKS) as threads,
    ):
        for done in [threads.submit(talk, server, number, sums) for number in range(TALKS)]:
            done.result()
        assert server.client.post("/v1/messages", content=b"no JSON", headers=JSON).status_code == 400
        # an answer is counted after its last byte
        assert eventually(lambda: server.metric("whitedwarf_requests_active") == 0)
        assert metrics(server) == (sums.prompt, sums.cached, sums.generated)
    assert sums.cached > 0
    written = dict(blocks(path.read_text()))
    assert sorted(written) == list(range(1, TALKS * TURNS + 2))
    for number, text in written.items():
        assert text.endswith(f"===== end request {number} =====\n\n")
        if "refused: 400" not in text:
            places = [text.index(f"\n--- {section} ---\n") for section in SECTIONS]
            assert places == sorted(places)
    facts = Counter[str]()
    for name, value in re.findall(
        r"^(prompt_tokens|cached_tokens|generated_tokens): (\d+)$", "".join(written.values()), re.M
    ):
        facts[name] += int(value)
    assert facts == {
        "prompt_tokens": sums.prompt, "cached_tokens": sums.cached, "generated_tokens": sums.generated
    }  # fmt: skip
