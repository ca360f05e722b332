"""What the tests of bit-equality share: the bundled model, prompts of every length, and what each must be answered.

The reference is one pass of the model over the whole prompt and no engine; `cold` is an engine that remembers nothing.
Answers are compared whole: ids, the logits of the 128 best tokens bit by bit, and the log of the sum over all tokens.
"""

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from fakes.gates import PATIENCE_S
from whitedwarf.cli.loading import LoadedModel, open_model
from whitedwarf.config import ModelSettings, ServeSettings
from whitedwarf.engine.engine import Engine
from whitedwarf.engine.request import GREEDY, Completion, GenerateOptions, Token
from whitedwarf.engine.sampler import score
from whitedwarf.model.base import Ids, Logits, Span
from whitedwarf.server.disk_prefixes import DiskPrefixes
from whitedwarf.server.disk_settings import disk_settings
from whitedwarf.weights.store import bundled_model

LENGTHS = (100, 127, 128, 129, 511, 512, 513, 5000)  # around the window of 128 and the chunk of 512
MAX_SUFFIX = 300
FEW_SUFFIXES = (1, 2, 3, 17, 128, 300)
NUM_BEST = 128
MIN_TOKENS = 64
ROOMY = 1 << 30
WHOLE_PROMPTS = ServeSettings(
    kv_cache_min_tokens=MIN_TOKENS,
    kv_cache_boundary_align_tokens=1,
    kv_cache_boundary_trim_tokens=0,
    kv_cache_continued_interval_tokens=0,
)


def options(num_tokens: int) -> GenerateOptions:
    return GenerateOptions(max_tokens=num_tokens, sampling=GREEDY, logprobs=NUM_BEST)


FIVE = options(5)


@functools.cache
def nano() -> LoadedModel:
    return open_model(ModelSettings(model=str(bundled_model()), context=8192, threads=2))


@functools.cache
def prompt(length: int, seed: int = 0) -> tuple[int, ...]:
    return tuple(np.random.default_rng(seed).integers(100, 4000, length).tolist())


def extended(length: int, suffix: int) -> tuple[int, ...]:
    """The prompt of so many tokens and the first ones of a suffix that belongs to its length."""
    return (*prompt(length), *prompt(MAX_SUFFIX, seed=length)[:suffix])


def dealt(length: int) -> list[int]:
    """The suffixes to try with this length: the short ones, the windows', and an eighth of all the others.

    Those of all lengths together are 1 to 300.
    """
    own = range(1 + LENGTHS.index(length), MAX_SUFFIX + 1, len(LENGTHS))
    return sorted({*own, *FEW_SUFFIXES})


@functools.cache
def reference(length: int) -> Logits:
    """Row s (of MAX_SUFFIX + 1, vocab): what one pass gives after `extended(length, s)`."""
    model, ids = nano().transformer, np.array(extended(length, MAX_SUFFIX), np.int32)
    state = model.new_state()
    model.forward([Span(state, ids[: length - 1], "none")])
    (logits,) = model.forward([Span(state, ids[length - 1 :], "all")])
    return logits


def first_token(row: Logits) -> Token:
    """How an engine must tell the likeliest token of a row of logits."""
    token = int(row.argmax())
    return Token(token, *score(row, token, NUM_BEST))


@functools.cache
def cold(ids: tuple[int, ...], num_tokens: int = 5) -> tuple[Token, ...]:
    with Engine(nano().transformer) as engine:
        return ask(engine, ids, num_tokens).tokens


def ask(engine: Engine, ids: Sequence[int] | Ids, num_tokens: int = 5) -> Completion:
    return engine.submit(ids, options(num_tokens)).result(PATIENCE_S)


@contextmanager
def on_disk(folder: Path, ram_bytes: int = 0, saves: ServeSettings = WHOLE_PROMPTS) -> Iterator[Engine]:
    """An engine that begins where one before it ended."""
    serve = replace(saves, kv_disk_dir=folder)
    settings = disk_settings(serve, nano().transformer, nano().gguf, quality=False)
    assert settings is not None
    with (
        DiskPrefixes(nano().transformer, nano().tokenizer(), settings) as store,
        Engine(nano().transformer, prefix_budget_bytes=ram_bytes, store=store) as engine,
    ):
        yield engine
