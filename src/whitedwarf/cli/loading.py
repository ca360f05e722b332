"""From options to a loaded model: the one place where path, file, tokenizer, backend and engine are wired together.

Promises: everything that can be refused is refused here, before any token runs; what the user should know (which model
was chosen, what does not fit) goes to stderr as one line each.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Protocol

from whitedwarf.cli.clustering import open_clustered
from whitedwarf.cli.drafting import check_drafts, describe_drafting, drafting_of, open_block
from whitedwarf.cli.machine import available_threads
from whitedwarf.cli.memory import fitting_chunk, memory_need, with_drafts
from whitedwarf.cli.one_line import one_line
from whitedwarf.cli.placing import Plan, plan_model
from whitedwarf.cli.simulated_use import SimulatedUse
from whitedwarf.cli.streaming import Streaming, open_store, warmed
from whitedwarf.cli.streaming_flags import check_streaming, simulated_bytes
from whitedwarf.config import DEFAULT_CONTEXT, ClusterSettings, FileSettings, ModelSettings
from whitedwarf.engine.drafts import Drafting
from whitedwarf.engine.engine import Engine
from whitedwarf.engine.memory import judge, probe_memory, size_text
from whitedwarf.engine.paced_model import PacedModel
from whitedwarf.engine.power import FULL_POWER_PERCENT
from whitedwarf.errors import FileFormatError, UsageError
from whitedwarf.gguf.reader import GgufFile, open_gguf
from whitedwarf.model.deepseek import DeepSeek
from whitedwarf.model.loading import load_model
from whitedwarf.model.mtp import MtpBlock
from whitedwarf.model.steering import Steering
from whitedwarf.ops.base import Ops
from whitedwarf.ops.select import make_ops, make_planned, make_streamed
from whitedwarf.prompt.tokenizer import Tokenizer
from whitedwarf.weights.expert_cache import Traffic
from whitedwarf.weights.placement import Placement
from whitedwarf.weights.placement_text import placement_line
from whitedwarf.weights.store import ModelRule, find_model

if TYPE_CHECKING:
    from whitedwarf.cluster.coordinator import Coordinator


class ExpertTraffic(Protocol):
    """Experts in host memory behind a card: see ops/torch_experts.py."""

    @property
    def traffic(self) -> Traffic: ...
    @property
    def num_slots(self) -> int: ...
    @property
    def num_held(self) -> int: ...
    @property
    def host_rows(self) -> int: ...
    def prepare(self) -> None: ...
    def describe(self) -> str: ...


@dataclass(frozen=True, slots=True)
class OnCards:
    """How the model lies on graphics cards."""

    placement: Placement
    host_experts: tuple[ExpertTraffic, ...] = ()

    def traffic(self) -> dict[str, float]:
        """Slots, hits, misses and bytes of all cards together, and what the CPU computed instead."""
        totals: dict[str, float] = dict.fromkeys(("slots", "held", "cpu_rows"), 0)
        for experts in self.host_experts:
            now = {"slots": experts.num_slots, "held": experts.num_held, "cpu_rows": experts.host_rows}
            for name, count in {**asdict(experts.traffic), **now}.items():
                totals[name] = totals.get(name, 0) + count
        return totals


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model ready to run, with the context length it was asked to have."""

    transformer: DeepSeek
    gguf: GgufFile
    settings: ModelSettings
    native_context: int  # the most this model can have
    chunk_tokens: int  # of a prompt in one pass
    on_cards: OnCards | None = None
    streaming: Streaming | None = None  # of experts from the disk
    simulated: SimulatedUse | None = None  # memory that is held only to be gone
    coordinator: "Coordinator | None" = None  # of a cluster; closes itself at exit
    mtp: MtpBlock | None = None

    @property
    def context_length(self) -> int:
        return self.transformer.config.context_length

    @property
    def expert_stats(self) -> Callable[[], Mapping[str, float]] | None:
        """Asks where experts came from; None where all of them are where they are needed."""
        on_cards = None if self.on_cards is None or not self.on_cards.host_experts else self.on_cards.traffic
        if self.streaming is None:
            return on_cards
        stored = self.streaming.stats
        return stored if on_cards is None else lambda: {**stored(), **on_cards()}  # of both, found means on a card

    def expert_counts(self) -> Mapping[str, float]:
        """Where experts came from so far; empty where all of them are where they are needed."""
        return {} if self.expert_stats is None else self.expert_stats()

    def tokenizer(self) -> Tokenizer:
        """The file's tokenizer, which has a token for every id the model may draw."""
        return open_tokenizer(self.gguf, self.transformer.config.vocab_size)

    def engine(self) -> Engine:
        """A new engine for one user; close it."""
        return Engine(
            self.transformer,
            max_chunk_tokens=self.chunk_tokens,
            max_parallel=1,
            power_percent=self.settings.power,
            drafting=self.drafting(),
        )

    def drafting(self) -> Drafting | None:
        """How a new engine guesses tokens ahead, if it does."""
        return drafting_of(self.settings, self.transformer.ops.name, self.mtp)

    @property
    def paced(self) -> DeepSeek:
        """The model for whoever runs it without an engine: it rests by itself at less than full power."""
        power = self.settings.power
        return self.transformer if power == FULL_POWER_PERCENT else PacedModel(self.transformer, power)

    def describe(self) -> str:
        """What runs where, in one line."""
        config = self.transformer.config
        need = memory_need(config, 0, self.chunk_tokens)
        drafting = self.drafting()
        return (
            f"context {self.context_length} tokens ({size_text(need.context_bytes)}, {config.kv_cache}), "
            f"backend {self.transformer.ops.name}, prefill chunk {self.chunk_tokens} ({size_text(need.fixed_bytes)} of "
            f"buffers), drafts {describe_drafting(drafting)}"
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
    check_streaming(settings)
    check_drafts(settings)
    simulated = _simulated(settings)
    gguf, memory = open_file(settings), probe_memory()
    if settings.cluster is not None:
        if settings.ssd_streaming:
            raise UsageError("--ssd-streaming is for a model on one machine: leave it or --cluster out")
        over = _over_cluster(settings, settings.cluster, gguf, parallel, default_context, wrap)
        return replace(over, simulated=simulated)
    plan = plan_model(settings, gguf, memory, default_context, note, parallel=parallel, prefix_bytes=prefix_bytes)
    made = _backend(plan, settings, gguf)
    found = load_model(gguf, wrap(made.ops), settings.kv_cache)
    full = found.transformer
    loaded = LoadedModel(
        transformer=_limited(full, full.config.context_length, settings, default_context),
        gguf=gguf,
        settings=settings,
        native_context=full.config.context_length,
        chunk_tokens=plan.chunk_tokens,
        streaming=None if made.streaming is None else warmed(made.streaming, settings, gguf, note),
        simulated=simulated,
        mtp=open_block(settings, found),
    )
    if plan.placement is not None:
        return replace(loaded, on_cards=_settled(plan, made))
    if plan.streaming is not None:
        return loaded
    config = loaded.transformer.config
    chunk_tokens = settings.prefill_chunk or fitting_chunk(config, memory.usable_bytes)
    need = memory_need(config, sum(gguf.shard_bytes), chunk_tokens)
    need = replace(need, parallel=parallel, prefix_bytes=prefix_bytes)
    if loaded.mtp is not None:
        need = with_drafts(need, config, 0 if settings.mtp is None else settings.mtp.stat().st_size)
    for warning in judge(need, memory, force=settings.force):
        note(warning)
    return replace(loaded, chunk_tokens=chunk_tokens)


def _over_cluster(
    settings: ModelSettings,
    cluster: ClusterSettings,
    gguf: GgufFile,
    parallel: int,
    default_context: int,
    wrap: Callable[[Ops], Ops],
) -> LoadedModel:
    """The first layers here, the others on further machines."""
    clustered = open_clustered(
        settings, cluster, gguf, parallel=parallel, default_context=default_context, wrap=wrap, note=note
    )
    native_context = clustered.model.config.context_length
    model = _limited(clustered.model, native_context, settings, default_context)
    chunk_tokens = settings.prefill_chunk or fitting_chunk(model.config, probe_memory().usable_bytes)
    note(clustered.describe())
    return LoadedModel(model, gguf, settings, native_context, chunk_tokens, coordinator=clustered.coordinator)


def note(text: str) -> None:
    """One line for the user that is not output."""
    print(f"whitedwarf: {one_line(text)}", file=sys.stderr)


@dataclass(frozen=True, slots=True)
class _Made:
    """A backend, and the experts that it has in host memory."""

    ops: Ops
    host_experts: tuple[ExpertTraffic, ...] = ()
    streaming: Streaming | None = None


def _simulated(settings: ModelSettings) -> SimulatedUse | None:
    size_bytes = simulated_bytes(settings)
    if not size_bytes:
        return None
    taken = SimulatedUse(size_bytes)
    note(taken.describe(size_bytes))
    return taken


def _backend(plan: Plan, settings: ModelSettings, gguf: GgufFile) -> _Made:
    threads = settings.threads or available_threads()
    streaming = None if plan.streaming is None else open_store(plan.streaming, gguf)
    streamed = None
    if streaming is not None:
        quality = settings.quality or plan.placement is not None  # beside a card floats stay floats
        streamed = make_streamed(streaming.store, streaming.reader, gguf, threads, quality)
    if plan.placement is not None:
        planned = make_planned(plan.backend, plan.placement, threads, settings.expert_misses, streamed)
        return _Made(planned.ops, planned.host_experts, streaming)
    return _Made(streamed or make_ops(plan.backend, threads, settings.quality), streaming=streaming)


def _settled(plan: Plan, made: _Made) -> OnCards:
    """Tell what lies where, and measure what is to be measured."""
    assert plan.placement is not None
    note(placement_line(plan.placement))
    for warning in plan.placement.warnings:
        note(warning)
    for experts in made.host_experts:
        experts.prepare()
        note(experts.describe())
    return OnCards(plan.placement, made.host_experts)


def _limited(
    transformer: DeepSeek, native_context: int, settings: ModelSettings, default_context: int = DEFAULT_CONTEXT
) -> DeepSeek:
    asked = settings.context
    if asked is not None and asked > native_context:
        raise UsageError(f"--ctx {asked}: this model has a context of {native_context}; give at most that")
    context_length = min(asked or default_context, native_context)
    return transformer.with_context(context_length)
