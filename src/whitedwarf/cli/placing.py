"""Where a model will run, decided from its header before it is loaded: which backend, and what lies on which card.

Promises: torch is imported only where files say that it can be used, or where it was asked for by name. A card that
`auto` found and that cannot be used is told in one line, and the CPU is taken; one that was asked for is refused.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

from whitedwarf.cli.memory import context_bytes_by_layer, fitting_chunk, memory_need, row_scratch_bytes
from whitedwarf.cli.sizes import parse_size
from whitedwarf.cli.streaming import Beside, dense_bytes, plan_store, streaming_chunk
from whitedwarf.config import ModelSettings
from whitedwarf.engine.memory import Probe
from whitedwarf.errors import BackendError, OutOfMemoryError, UsageError
from whitedwarf.gguf.header import TensorInfo
from whitedwarf.gguf.hparams import Hyperparameters
from whitedwarf.gguf.reader import GgufFile, open_gguf
from whitedwarf.gguf.types import GgmlType
from whitedwarf.model.config import ModelConfig
from whitedwarf.ops.select import ON_CARDS, STREAMED, best_backend, find_cards
from whitedwarf.weights.checked import check_model
from whitedwarf.weights.model_bytes import ModelBytes, model_bytes, with_block
from whitedwarf.weights.placement import Card, Mode, Placement, Wants, place
from whitedwarf.weights.streaming_budget import StreamingPlan

F16_ON_CARDS = frozenset({GgmlType.Q3_K, GgmlType.Q5_K, GgmlType.Q6_K})  # as ops/twins/planes.py holds them
_F32_BYTES = 4


@dataclass(frozen=True, slots=True)
class Plan:
    """The backend; on cards, what lies where; of experts that are streamed, how many stay in memory.

    `chunk_tokens`: how long a chunk of a prompt may be where there is either.
    """

    backend: str
    placement: Placement | None = None
    chunk_tokens: int = 0
    streaming: StreamingPlan | None = None


@dataclass(frozen=True, slots=True)
class Sized:
    """Bytes of a tensor on a card."""

    size_bytes: int


def asked_backend(settings: ModelSettings) -> str:
    """--backend or --cpu; UsageError for both."""
    if settings.cpu and settings.backend not in ("auto", "cpu"):
        raise UsageError(f"--cpu and --backend {settings.backend} contradict each other: give one")
    return "cpu" if settings.cpu else settings.backend


def plan_model(
    settings: ModelSettings,
    gguf: GgufFile,
    probe: Probe,
    default_context: int,
    note: Callable[[str], None],
    *,
    parallel: int = 1,
    prefix_bytes: int = 0,
) -> Plan:
    """Decide. Errors as `place` and `find_cards` have them, for a backend that was asked for."""
    asked = asked_backend(settings)
    backend = best_backend() if asked == "auto" else asked
    budget_bytes = _budget(settings.device_memory, backend)
    if settings.ssd_streaming and backend not in STREAMED:
        raise UsageError(
            f"--ssd-streaming runs with --backend {' or '.join(STREAMED)}; the backend is {backend}: choose another one"
        )
    on_cpu = partial(_on_cpu, settings, gguf, probe, default_context, parallel, prefix_bytes)
    if backend not in ON_CARDS:
        return on_cpu(backend)
    try:
        cards = find_cards(backend, probe.total_bytes, probe.usable_bytes, budget_bytes)
        placed = place_file(settings, gguf, cards, probe, default_context)
        wants = replace(placed.wants, parallel=parallel, prefix_bytes=prefix_bytes)
        placement = place(wants, cards, probe.usable_bytes, streams=settings.ssd_streaming)
        streaming = _beside_cards(settings, gguf, probe, placement, note)
        return Plan(backend, placement, placed.chunk_tokens, streaming)
    except (BackendError, OutOfMemoryError) as error:
        if asked != "auto":
            raise
        note(f"{error}; the CPU is used (--backend cpu does not say this)")
        return on_cpu("cpu")


def _on_cpu(
    settings: ModelSettings,
    gguf: GgufFile,
    probe: Probe,
    default_context: int,
    parallel: int,
    prefix_bytes: int,
    backend: str,
) -> Plan:
    """Without cards; with a plan where experts are streamed."""
    if not settings.ssd_streaming:
        return Plan(backend)
    streaming = plan_on_cpu(settings, gguf, probe, default_context, parallel=parallel, prefix_bytes=prefix_bytes)
    return Plan(backend, None, streaming.chunk_tokens, streaming.plan)


@dataclass(frozen=True, slots=True)
class PlannedStreaming:
    """What stays in memory, and how long a chunk of a prompt may be."""

    plan: StreamingPlan
    chunk_tokens: int


def plan_on_cpu(
    settings: ModelSettings,
    gguf: GgufFile,
    probe: Probe,
    default_context: int,
    *,
    parallel: int = 1,
    prefix_bytes: int = 0,
) -> PlannedStreaming:
    """How the CPU would stream the experts. Errors as `plan_store`."""
    hp = check_model(gguf).hp
    config = ModelConfig(hp, settings.kv_cache, min(settings.context or default_context, hp.context_length))
    chunk_tokens = settings.prefill_chunk or streaming_chunk(config, gguf, probe.usable_bytes)
    need = memory_need(config, 0, chunk_tokens)
    beside = Beside(
        dense_bytes=dense_bytes(hp, gguf),
        own_bytes=need.fixed_bytes + parallel * need.context_bytes + prefix_bytes,
        context_length=config.context_length,
    )
    return PlannedStreaming(plan_store(settings, hp, gguf, probe.usable_bytes, beside), chunk_tokens)


def _beside_cards(
    settings: ModelSettings, gguf: GgufFile, probe: Probe, placement: Placement, note: Callable[[str], None]
) -> StreamingPlan | None:
    """Experts that cards lack come from the disk, with host memory between."""
    if not settings.ssd_streaming:
        return None
    if placement.mode is not Mode.HOST_EXPERTS:
        note("the whole model fits on cards: nothing is streamed, --ssd-streaming is not needed")
        return None
    return plan_store(settings, check_model(gguf).hp, gguf, probe.usable_bytes, Beside())


@dataclass(frozen=True, slots=True)
class Asked:
    """What a file needs under some settings."""

    wants: Wants
    chunk_tokens: int


def place_file(
    settings: ModelSettings, gguf: GgufFile, cards: Iterable[Card], probe: Probe, default_context: int
) -> Asked:
    """What there must be room for on cards."""
    checked = check_model(gguf)
    native = checked.hp.context_length
    config = ModelConfig(checked.hp, settings.kv_cache, min(settings.context or default_context, native))
    least_bytes = min(card.usable_bytes(probe.usable_bytes) for card in cards)
    chunk_tokens = settings.prefill_chunk or fitting_chunk(config, least_bytes)
    sizes = card_bytes(checked.hp, gguf, has_mtp=checked.has_mtp)
    if settings.mtp is not None:
        with open_gguf(settings.mtp) as block:
            sizes = with_block(sizes, checked.hp, {name: Sized(_on_card(info)) for name, info in block.tensors.items()})
    return Asked(wants_of(config, sizes, chunk_tokens), chunk_tokens)


def card_bytes(hp: Hyperparameters, gguf: GgufFile, *, has_mtp: bool) -> ModelBytes:
    """The file's tensors as cards hold them, without what is not loaded."""
    loaded = {name: info for name, info in gguf.tensors.items() if has_mtp or not name.startswith("mtp.")}
    return model_bytes(hp, {name: Sized(_on_card(info)) for name, info in loaded.items()})


def wants_of(config: ModelConfig, sizes: ModelBytes, chunk_tokens: int) -> Wants:
    """A model's needs with the context that is allowed, for chunks of this length."""
    hp, num_layers = config.hp, len(sizes.layers)
    rows = min(chunk_tokens, config.context_length)
    return Wants(
        model=sizes,
        context_bytes=context_bytes_by_layer(config, num_layers),
        context_length=config.context_length,
        scratch_bytes=rows * row_scratch_bytes(hp) + _F32_BYTES * hp.vocab_size,
        num_experts_used=hp.num_experts_used,
        window_bytes=sum(context_bytes_by_layer(replace(config, max_context=1), num_layers)),
    )


def _on_card(info: TensorInfo) -> int:
    return 2 * info.num_elements if info.type in F16_ON_CARDS else info.size_bytes


def _budget(text: str | None, backend: str) -> int | None:
    if text is None:
        return None
    if backend not in ON_CARDS:
        raise UsageError(f"--device-memory is for backends on cards ({', '.join(ON_CARDS)}); the backend is {backend}")
    return parse_size("--device-memory", text)
