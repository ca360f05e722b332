"""A real model says what it likes, in tokens as it likes; nothing of it is computed again, also after a restart."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from server.serving import Running, serving
from whitedwarf.cli.loading import LoadedModel, open_model
from whitedwarf.cli.serving import disk_prefixes
from whitedwarf.config import ModelSettings, ServeSettings
from whitedwarf.engine.engine import Engine
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.protocol.past import Past
from whitedwarf.weights.store import bundled_model

LONG = "Tell me of the sea, of ships, of the wind and of harbours. " * 12
ANSWERED = 40


@pytest.fixture(scope="module")
def loaded() -> LoadedModel:
    return open_model(ModelSettings(model=str(bundled_model()), context=4096))


@contextmanager
def server(loaded: LoadedModel, tokenizer: Tokenizer, folder: Path | None = None) -> Iterator[Running]:
    past = Past(tokenizer)
    settings = ServeSettings(kv_disk_dir=folder, kv_cache_min_tokens=64)
    with (
        disk_prefixes(loaded, tokenizer, settings, past) as store,
        Engine(loaded.transformer, max_parallel=2, prefix_budget_bytes=64 << 20, store=store) as engine,
    ):
        past.saved = store
        with serving(engine, tokenizer, past=past) as running:
            yield running


@dataclass
class Talk:
    """A conversation in which the model is drawn from at random."""

    tokenizer: Tokenizer
    seed: int
    messages: list[Any] = field(default_factory=list)
    held: int = 0  # tokens that the model's state has
    odd: int = 0  # answers that the tokenizer would have split otherwise

    def ask(self, running: Running, question: str) -> int:
        """Tokens that were not computed."""
        self.messages.append({"role": "user", "content": question})
        asked = {"messages": self.messages, "max_tokens": ANSWERED, "seed": self.seed, "temperature": 2.0}
        answer = running.client.post(
            "/v1/chat/completions", json={"model": "m", "thinking": {"type": "disabled"}, **asked}
        ).json()
        self.messages.append(answer["choices"][0]["message"])
        usage, choice = answer["usage"], answer["choices"][0]
        assert "\ufffd" not in choice["message"]["content"], "another seed: this cannot be said back"
        self.odd += len(self.tokenizer.encode(choice["message"]["content"])) != usage["completion_tokens"]
        unrun = choice["finish_reason"] == "length"  # then the last token was drawn and not run
        words = len(self.tokenizer.encode(choice["message"]["content"]))
        is_half_call = unrun and 2 * words < usage["completion_tokens"]  # which is not told, nor what came before it
        told = 0 if is_half_call else usage["completion_tokens"] - unrun
        self.held = usage["prompt_tokens"] + told
        return int(usage["prompt_tokens_details"]["cached_tokens"])


def test_a_conversation_is_never_read_again(loaded: LoadedModel, tokenizer: Tokenizer) -> None:
    odd = 0
    with server(loaded, tokenizer) as running:
        for seed in range(4):
            talk = Talk(tokenizer, seed)
            talk.ask(running, f"{seed}. {LONG}")
            for question in ("And then?", "Why?", "Really?"):
                held = talk.held
                assert talk.ask(running, question) == held
            odd += talk.odd
    assert odd, "or this says nothing"


def test_nor_after_a_restart(loaded: LoadedModel, tokenizer: Tokenizer, tmp_path: Path) -> None:
    talks = [Talk(tokenizer, seed) for seed in range(4)]
    with server(loaded, tokenizer, tmp_path) as running:
        for talk in talks:
            for question in (f"{talk.seed}. {LONG}", "And then?", "Why?"):
                talk.ask(running, question)
    assert sum(talk.odd for talk in talks), "or this says nothing"
    with server(loaded, tokenizer, tmp_path) as running:
        for talk in talks:
            for question in ("Really?", "Indeed?"):
                held = talk.held
                assert talk.ask(running, question) == held
