"""What tests of saved sessions share: the bundled model, a folder, and a clock that can be set."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from fakes.gates import PATIENCE_S
from whitedwarf.agent.session_facts import SessionFacts
from whitedwarf.agent.store import SessionStore
from whitedwarf.agent.store_opening import open_store
from whitedwarf.agent.transcript import Ids
from whitedwarf.cli.loading import LoadedModel, open_model
from whitedwarf.config import ModelSettings
from whitedwarf.engine.engine import Engine
from whitedwarf.engine.request import GREEDY, Completion, GenerateOptions
from whitedwarf.engine.session import Session, SessionSnapshot
from whitedwarf.model.steering import Steering
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.weights.store import bundled_model

FACTS = SessionFacts(model="nano")


@functools.cache
def nano(context: int = 4096, kv_cache: str = "packed") -> LoadedModel:
    return open_model(ModelSettings(model=str(bundled_model()), context=context, threads=2, kv_cache=kv_cache))  # type: ignore[arg-type]


@functools.cache
def tokens() -> Tokenizer:
    return nano().tokenizer()


def ids_of(length: int, seed: int = 0) -> Ids:
    return np.random.default_rng(seed).integers(100, 4000, length).astype(np.int32)


def steered(loaded: LoadedModel, ffn: float = 0.5) -> LoadedModel:
    hp = loaded.transformer.config.hp
    values = np.random.default_rng(1).normal(size=(len(hp.compress_ratios), hp.hidden_size))
    directions = (values / np.linalg.norm(values, axis=1, keepdims=True)).astype(np.float32)
    return loaded.steered(Steering(directions, ffn))


def ask(engine: Engine, session: Session, ids: Sequence[int] | Ids, count: int = 5) -> Completion:
    """Greedy, with the logits' best of every token."""
    options = GenerateOptions(max_tokens=count, sampling=GREEDY, logprobs=64)
    return engine.submit(ids, options, session=session).result(PATIENCE_S)


def read(loaded: LoadedModel, ids: Ids) -> SessionSnapshot:
    """The state after these tokens."""
    with loaded.engine() as engine:
        session = engine.new_session()
        ask(engine, session, ids, 0)
        return engine.snapshot(session)


@dataclass
class StoreBench:
    """Opens stores on one folder, as restarts do."""

    folder: Path
    now: float = 1_800_000_000.0
    loaded: LoadedModel = field(default_factory=nano)

    def open(self, loaded: LoadedModel | None = None) -> SessionStore:
        loaded = loaded or self.loaded
        return open_store(loaded.transformer, loaded.gguf, tokens(), folder=self.folder, clock=lambda: self.now)

    def saved(self, prompt: str = "list the files", length: int = 300, *, seed: int = 0) -> str:
        """The id of a session with a state, closed again."""
        store, ids = self.open(), ids_of(length, seed)
        session = store.create(prompt, ids, FACTS)
        session.save(ids, read(self.loaded, ids), FACTS)
        session.close()
        return session.id

    def path(self, session_id: str) -> Path:
        return self.folder / f"{session_id}.kv"

    def names(self) -> set[str]:
        return {path.name for path in self.folder.iterdir()}
