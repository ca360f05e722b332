"""No prefix is computed twice, and nobody waits for another's (demand.md P12-P16, P18, P29).

Scripted where ids are compared, the bundled model where states are.
"""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fakes.scripted_server import Served, serving
from server.demand_answers import asked, history, in_each_dialect, line, prompt_ids
from server.serving import PATIENCE_S, Running
from server.serving import serving as serving_model
from whitedwarf.cli.loading import LoadedModel, open_model
from whitedwarf.config import ModelSettings, ServeSettings
from whitedwarf.engine.engine import Engine
from whitedwarf.model.base import Logits, Span
from whitedwarf.model.state import SequenceState
from whitedwarf.model.transformer import Transformer
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.server.disk_prefixes import DiskPrefixes
from whitedwarf.server.disk_settings import disk_settings
from whitedwarf.weights.store import bundled_model

HEADER = "x-anthropic-billing-header: cc_version=2.1; cch="


def test_the_changing_first_line_of_claude_code_changes_no_token(reader: Served) -> None:
    """P12: a system block that begins so is removed; the same words of a user are kept."""

    def ids(*system: str, said: str = "hello") -> tuple[int, ...]:
        blocks = [{"type": "text", "text": text} for text in system]
        return prompt_ids(reader, history("messages", ("user", said), system=blocks))

    assert ids(HEADER + "abc;", "Be kind.") == ids(HEADER + "xyz;", "Be kind.") == ids("Be kind.")
    assert ids("Be kind.", said=HEADER + "abc") != ids("Be kind.", said=HEADER + "xyz")


def test_the_second_request_of_claude_code_computes_nothing_again() -> None:
    """P12: what it is for."""
    with serving(line(["Hello."])) as served:
        for changing in ("abc", "xyz"):
            system = [{"type": "text", "text": HEADER + changing}, {"type": "text", "text": "Be kind. " * 50}]
            prompt_ids(served, history("messages", ("user", "hello"), system=system))
        assert served.last.reused_tokens == len(served.last.ids) - 1


@in_each_dialect
def test_a_regenerated_answer_computes_one_token(dialect: str) -> None:
    """P13: the same request again."""
    script = history(dialect, ("user", "word " * 480))
    with serving(line(["a "] * 40)) as served:
        first, again = asked(served, script), asked(served, script)
        assert first.shown == again.shown
        assert served.last.reused_tokens == len(served.last.ids) - 1


@pytest.fixture(scope="module")
def loaded() -> LoadedModel:
    return open_model(ModelSettings(model=str(bundled_model()), context=8192))


@contextmanager
def nano(loaded: LoadedModel, tokenizer: Tokenizer, **engine: Any) -> Iterator[Running]:
    """A server over the bundled model."""
    with (
        Engine(loaded.transformer, **{"prefix_budget_bytes": 256 << 20, **engine}) as running,
        serving_model(running, tokenizer) as server,
    ):
        yield server


def complete(server: Running, prompt: str, max_tokens: int = 1) -> tuple[int, int, str]:
    """Greedily -> tokens of the prompt, how many of them were cached, the text."""
    body = {"model": "m", "prompt": prompt, "temperature": 0, "max_tokens": max_tokens, "think": False}
    told = server.client.post("/v1/completions", json=body, timeout=60).raise_for_status().json()
    usage = told["usage"]
    return usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"], told["choices"][0]["text"]


def words(name: str, number: int) -> str:
    return "".join(f" {name} {count}," for count in range(number))


@pytest.mark.parametrize("dialect", ["chat", "messages", "responses"])
def test_a_regenerated_answer_is_the_same_answer(dialect: str, loaded: LoadedModel, tokenizer: Tokenizer) -> None:
    """P13: 500 tokens, 40 generated at temperature 0, and again: one token is computed."""
    key = "max_output_tokens" if dialect == "responses" else "max_tokens"
    text = words("count", 170)
    script = history(dialect, ("user", text), temperature=0, **{key: 40})
    paths = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}
    with nano(loaded, tokenizer) as server:
        first, again = (server.client.post(paths[dialect], json=script.body(), timeout=60).json() for _ in range(2))
    for told in (first, again):
        told["cached"] = cached_tokens(told["usage"])
        del told["usage"], told["id"]
        told.pop("created", told.pop("created_at", None))
    assert again.pop("cached") >= len(tokenizer.encode(text)) >= 499
    first.pop("cached")
    assert without_ids(first) == without_ids(again)


def cached_tokens(usage: dict[str, Any]) -> int:
    details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details") or {}
    return int(details.get("cached_tokens", usage.get("cache_read_input_tokens", 0)))


def without_ids(value: Any) -> Any:
    """The answer without what is new each time."""
    if isinstance(value, dict):
        return {key: without_ids(one) for key, one in value.items() if key not in ("id", "created_at", "completed_at")}
    return [without_ids(one) for one in value] if isinstance(value, list) else value


def test_what_the_next_request_needs_is_not_evicted_by_what_it_pushes_out(
    loaded: LoadedModel, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    """P14: room for two files on disk, A and B stored, C live; A and a suffix: A is loaded, whatever is saved."""
    serve = ServeSettings(
        kv_disk_dir=tmp_path, kv_cache_min_tokens=64, kv_cache_cold_max_tokens=0, kv_cache_continued_interval_tokens=0
    )
    settings = disk_settings(serve, loaded.transformer, loaded.gguf, quality=False)
    assert settings is not None
    one_state = 1_000_000  # bytes: more than one of these prompts, in memory or in a file, less than two
    with (
        DiskPrefixes(loaded.transformer, tokenizer, replace(settings, budget_bytes=2 * one_state)) as store,
        nano(loaded, tokenizer, prefix_budget_bytes=one_state, store=store) as server,
    ):
        first, *others = [("user", words(name, 60)) for name in ("apple", "bread", "cheese")]
        tokens, cached = chat_tokens(server, first)
        assert cached == 0
        for other in others:
            chat_tokens(server, other)
        wait_for(lambda: len(list(tmp_path.glob("*.kv"))) == 2)
        assert chat_tokens(server, first, ("assistant", "7"), ("user", words("dates", 5)))[1] == tokens


def chat_tokens(server: Running, *turns: tuple[str, str]) -> tuple[int, int]:
    """Ask for one token -> tokens of the prompt, how many of them were cached."""
    body = history("chat", *turns, max_tokens=1, temperature=0).body()
    usage = server.client.post("/v1/chat/completions", json=body, timeout=60).raise_for_status().json()["usage"]
    return usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]


def wait_for(is_so: Any) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < end_s
        time.sleep(0.02)


@pytest.mark.parametrize(("shared", "least"), [(2048, 1920), (300, 256)])
@in_each_dialect
def test_prompts_that_begin_alike_share_their_beginning(
    dialect: str, shared: int, least: int, loaded: LoadedModel, tokenizer: Tokenizer
) -> None:
    """P15: and the usage says so in each dialect's own words."""
    beginning = "".join(f" {number}" for number in range(10_000))
    ids = tokenizer.encode(beginning)[:shared]
    text = tokenizer.decode(ids)
    key = "max_output_tokens" if dialect == "responses" else "max_tokens"
    paths = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}
    with nano(loaded, tokenizer) as server:
        for ending in (" apple" * 60, " bread" * 60):
            script = history(dialect, ("user", text + ending), temperature=0, **{key: 1})
            told = server.client.post(paths[dialect], json=script.body(), timeout=60).raise_for_status().json()
    assert cached_tokens(told["usage"]) >= least


@pytest.mark.slow
def test_any_chunk_size_gives_the_same_greedy_text(loaded: LoadedModel, tokenizer: Tokenizer) -> None:
    """P16: 300 tokens read at once, token by token, and in chunks of 2, 3, 4, 127, 128 and 129; no memory of any."""
    prompt = words("number", 100)
    texts = set()
    for chunk in (512, 1, 2, 3, 4, 127, 128, 129):
        with nano(loaded, tokenizer, max_chunk_tokens=chunk, prefix_budget_bytes=0) as server:
            tokens, cached, text = complete(server, prompt, 64)
            texts.add(text)
            assert (tokens >= 300, cached) == (True, 0)
    assert len(texts) == 1


@pytest.mark.slow
def test_who_leaves_a_long_prompt_frees_the_slot_and_what_was_read_is_kept(
    loaded: LoadedModel, tokenizer: Tokenizer
) -> None:
    """P18: the socket is closed early in a prefill; the same prompt again goes on from the chunks that were done."""
    prompt = tokenizer.decode(tokenizer.encode(words("long", 1400))[:4000])
    body = json.dumps({"model": "m", "prompt": prompt, "max_tokens": 1, "think": False}).encode()
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    model = Counting(loaded.transformer)
    settings: dict[str, Any] = {"max_parallel": 1, "power_percent": 20}  # the prompt takes seconds on any machine
    with Engine(model, prefix_budget_bytes=256 << 20, **settings) as engine, serving_model(engine, tokenizer) as server:
        with server.connect(head + b"Content-Length: %d\r\n\r\n" % len(body) + body):
            wait_for(lambda: model.num_rows >= 640)
        wait_for(lambda: server.metric('whitedwarf_requests_total{dialect="completions",end="cancelled"}') == 1)
        assert server.metric("whitedwarf_requests_active") == 0
        engine.power_percent = 100
        assert complete(server, "short")[0] > 0  # the slot is free
        assert model.num_rows < 3000  # and not because the long prompt was read to its end
        tokens, cached, _ = complete(server, prompt)
    assert 512 <= cached < tokens


class Counting:
    """A model that tells how many rows it has computed."""

    def __init__(self, model: Transformer) -> None:
        self._model, self.config = model, model.config
        self.num_rows = 0

    def new_state(self) -> SequenceState:
        return self._model.new_state()

    def forward(self, spans: Sequence[Span]) -> list[Logits]:
        logits = self._model.forward(spans)
        self.num_rows += sum(len(span.ids) for span in spans)
        return logits


def test_a_short_request_does_not_wait_for_a_long_generation(loaded: LoadedModel, tokenizer: Tokenizer) -> None:
    """P29: two slots; the first token of the second comes before the first ends, and both prefixes are kept."""
    long, short = words("count", 5), words("second", 40)  # the bundled model counts on and on
    body = {"model": "m", "prompt": long, "temperature": 0, "max_tokens": 2000, "stream": True, "think": False}
    with nano(loaded, tokenizer, max_parallel=2) as server:
        with server.client.stream("POST", "/v1/completions", json=body, timeout=60) as running:
            lines = running.iter_lines()
            next(lines)
            complete(server, short)
            wait_for(lambda: server.metric("whitedwarf_requests_active") == 1)
            assert sum(line.startswith("data: {") for line in lines) >= 400
        for prompt in (long, short):
            tokens, cached, _ = complete(server, prompt)
            assert cached == tokens - 1
