"""From options to a loaded model: the one place where path, file, tokenizer, backend and engine are wired together.

Promises: everything that can be refused is refused here, before any token runs; what the user should know (which model
was chosen, what does not fit) goes to stderr as one line each.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace

from whitedwarf.cli.machine import available_threads
from whitedwarf.cli.memory import fitting_chunk, memory_need
from whitedwarf.cli.one_line import one_line
from whitedwarf.config import DEFAULT_CONTEXT, FileSettings, ModelSettings
from whitedwarf.engine.engine import Engine
from whitedwarf.engine.memory import judge, probe_memory, size_text
from whitedwarf.errors import FileFormatError, UsageError
from whitedwarf.gguf.reader import GgufFile, open_gguf
from whitedwarf.model.loading import load_model
from whitedwarf.model.steering import Steering
from whitedwarf.model.transformer import Transformer
from whitedwarf.ops.base import Ops
from whitedwarf.ops.select import make_ops
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.weights.store import ModelRule, find_model


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model ready to run, with the context length it was asked to have."""

    transformer: Transformer
    gguf: GgufFile
    settings: ModelSettings
    native_context: int  # the most this model can have
    chunk_tokens: int  # of a prompt in one pass

    @property
    def context_length(self) -> int:
        return self.transformer.config.context_length

    def tokenizer(self) -> Tokenizer:
        """The file's tokenizer, which has a token for every id the model may draw."""
        return open_tokenizer(self.gguf, self.transformer.config.vocab_size)

    def engine(self) -> Engine:
        """A new engine for one user; close it."""
        return Engine(self.transformer, max_chunk_tokens=self.chunk_tokens, max_parallel=1)

    def describe(self) -> str:
        """What runs where, in one line."""
        config = self.transformer.config
        need = memory_need(config, 0, self.chunk_tokens)
        return (
            f"context {self.context_length} tokens ({size_text(need.context_bytes)}, {config.kv_cache}), "
            f"backend {self.transformer.ops.name}, prefill chunk {self.chunk_tokens} ({size_text(need.fixed_bytes)} of "
            "buffers)"
        )

    def with_context(self, context_length: int) -> "LoadedModel":
        """The same weights with another context length; UsageError beyond what the model has."""
        settings = replace(self.settings, context=context_length)
        return replace(self, transformer=_limited(self.transformer, self.native_context, settings), settings=settings)

    def steered(self, steering: Steering | None) -> "LoadedModel":
        """The same weights under this steering, or none."""
        return replace(self, transformer=self.transformer.steered(steering))


def open_file(settings: FileSettings) -> GgufFile:
    """The chosen file; a line on stderr when it is the bundled one. Close it."""
    choice = find_model(settings.model)
    if choice.rule is ModelRule.BUNDLED:
        note(f"no model given, using nano ({choice.rule})")
    return open_gguf(choice.path)


def open_tokenizer(gguf: GgufFile, vocab_size: int | None = None) -> Tokenizer:
    """The file's tokenizer; FileFormatError unless it has `vocab_size` tokens, where that is known."""
    tokenizer = Tokenizer.from_metadata(gguf.metadata)
    if vocab_size is not None and tokenizer.vocab_size != vocab_size:
        raise FileFormatError(
            f"{gguf.paths[0]}: tokenizer.ggml.tokens has {tokenizer.vocab_size} tokens, expected {vocab_size}, one for "
            "each row of the embedding; convert the model again"
        )
    return tokenizer


def open_model(
    settings: ModelSettings,
    *,
    parallel: int = 1,
    prefix_bytes: int = 0,
    wrap: Callable[[Ops], Ops] = lambda ops: ops,
    default_context: int = DEFAULT_CONTEXT,
) -> LoadedModel:
    """Open, check and bind the chosen model, for so many contexts at a time and beginnings of prompts beside them.

    `wrap` puts something around the backend, to look on. `default_context` is for settings that name none.
    """
    gguf = open_file(settings)
    ops = wrap(make_ops(_backend(settings), settings.threads or available_threads(), settings.quality))
    full = load_model(gguf, ops, settings.kv_cache).transformer
    native_context = full.config.context_length
    transformer, memory = _limited(full, native_context, settings, default_context), probe_memory()
    chunk_tokens = settings.prefill_chunk or fitting_chunk(transformer.config, memory.usable_bytes)
    loaded = LoadedModel(transformer, gguf, settings, native_context, chunk_tokens)
    need = memory_need(transformer.config, sum(gguf.shard_bytes), chunk_tokens)
    need = replace(need, parallel=parallel, prefix_bytes=prefix_bytes)
    for warning in judge(need, memory, force=settings.force):
        note(warning)
    return loaded


def note(text: str) -> None:
    """One line for the user that is not output."""
    print(f"whitedwarf: {one_line(text)}", file=sys.stderr)


def _backend(settings: ModelSettings) -> str:
    if settings.cpu and settings.backend not in ("auto", "cpu"):
        raise UsageError(f"--cpu and --backend {settings.backend} contradict each other: give one")
    return "cpu" if settings.cpu else settings.backend


def _limited(
    transformer: Transformer, native_context: int, settings: ModelSettings, default_context: int = DEFAULT_CONTEXT
) -> Transformer:
    asked = settings.context
    if asked is not None and asked > native_context:
        raise UsageError(f"--ctx {asked}: this model has a context of {native_context}; give at most that")
    context_length = min(asked or default_context, native_context)
    return replace(transformer, config=replace(transformer.config, max_context=context_length))
