"""Experts that are streamed from the disk: from options and a file's header to a plan, and from it to a running store.

Promises: what cannot be is refused before anything is loaded; the user is told in a few lines what stays in memory, how
the rest is read, and what was brought in already.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass

from whitedwarf.cli.memory import fitting_chunk
from whitedwarf.cli.streaming_flags import cache_wish
from whitedwarf.config import ModelSettings
from whitedwarf.engine.memory import size_text
from whitedwarf.errors import FileFormatError
from whitedwarf.gguf.hparams import Hyperparameters
from whitedwarf.gguf.reader import GgufFile
from whitedwarf.model.config import ModelConfig
from whitedwarf.weights.direct_reader import DirectReader
from whitedwarf.weights.expert_extents import LayerExtents, expert_extents
from whitedwarf.weights.expert_store import ExpertStore, slot_bytes
from whitedwarf.weights.model_bytes import model_bytes
from whitedwarf.weights.profile_keeper import ProfileKeeper, model_fingerprint, profile_path
from whitedwarf.weights.streaming_budget import ExpertKind, StreamingPlan, StreamingWants, plan_streaming
from whitedwarf.weights.streaming_text import NEEDLESS, streaming_line

DEFAULT_PRELOAD = 4096  # experts, at most
_CHUNK_SHARE = 2  # streaming reads every expert once a chunk: its buffers may take twice as much as usual


@dataclass(frozen=True, slots=True)
class Streaming:
    """A store of experts at work, and the plan that it follows."""

    plan: StreamingPlan
    store: ExpertStore
    reader: DirectReader
    preloaded: int = 0

    def stats(self) -> dict[str, float]:
        """Slots, hits, misses, bytes and what was foreseen, since the start."""
        cache = self.store.cache
        return {
            "slots": cache.num_all_slots,
            "held": cache.num_held,
            **{_NAMES.get(name, name): value for name, value in asdict(self.store.traffic).items()},
        }

    def describe(self) -> str:
        """How experts are read and kept, in one line."""
        how = "past the page cache (O_DIRECT)" if self.reader.is_direct else "with the page cache told to forget them"
        locked, slots = self.store.locked_bytes, self.store.slots_bytes
        kept = "locked in memory" if locked >= slots else f"{size_text(locked)} of {size_text(slots)} locked in memory"
        return f"experts are read {how}, up to {self.reader.in_flight} at a time; {kept}; {self.preloaded} preloaded"

    def document(self) -> dict[str, object]:
        """The same for scripts."""
        plan, wants = self.plan, self.plan.wants
        return {
            "planned_bytes": wants.beside_bytes + self.store.slots_bytes,
            "usable_bytes": plan.usable_bytes,
            "dense_bytes": wants.dense_bytes,
            "own_bytes": wants.own_bytes,
            "num_experts": wants.num_experts,
            "experts_bytes": wants.experts_bytes,
            "cached_experts": self.store.cache.num_all_slots,
            "cached_bytes": self.store.slots_bytes,
            "locked_bytes": self.store.locked_bytes,
            "is_direct": self.reader.is_direct,
            "preloaded": self.preloaded,
        }


_NAMES = {"bytes_read": "read_bytes", "waited_s": "waited_seconds"}


def expert_kinds(layers: tuple[LayerExtents, ...]) -> tuple[ExpertKind, ...]:
    """The sizes of experts, smallest slots first."""
    kinds: dict[int, ExpertKind] = {}
    for layer in layers:
        size = slot_bytes(layer)
        before = kinds[size].count if size in kinds else 0
        kinds[size] = ExpertKind(layer.expert_bytes, size, before + layer.num_experts)
    return tuple(kinds[size] for size in sorted(kinds))


def streaming_chunk(config: ModelConfig, gguf: GgufFile, usable_bytes: int) -> int:
    """The default of --prefill-chunk: as usual, by the memory that is left beside the dense weights."""
    left_bytes = max(0, usable_bytes - dense_bytes(config.hp, gguf))
    return fitting_chunk(config, _CHUNK_SHARE * left_bytes)


def dense_bytes(hp: Hyperparameters, gguf: GgufFile) -> int:
    """What stays in memory: all but the routed experts and the embedding, of which rows are read one by one."""
    sizes = model_bytes(hp, gguf.tensors)
    return sum(layer.dense_bytes for layer in sizes.layers[: hp.num_layers]) + sizes.last_bytes


@dataclass(frozen=True, slots=True)
class Beside:
    """What else is to be in the memory where the experts are kept: nothing where all else is on cards."""

    dense_bytes: int = 0
    own_bytes: int = 0  # contexts, buffers, beginnings of prompts
    context_length: int = 0


def plan_store(
    settings: ModelSettings, hp: Hyperparameters, gguf: GgufFile, usable_bytes: int, beside: Beside
) -> StreamingPlan:
    """What of a model's experts stays in memory. Errors as `plan_streaming`; FileFormatError without experts."""
    layers = expert_extents(gguf)
    if not layers:
        raise FileFormatError(f"{gguf.paths[0]}: --ssd-streaming needs routed experts, and this model has none")
    wants = StreamingWants(
        kinds=expert_kinds(layers),
        num_experts_used=hp.num_experts_used,
        dense_bytes=beside.dense_bytes,
        own_bytes=beside.own_bytes,
        context_length=beside.context_length,
    )
    return plan_streaming(wants, usable_bytes, cache_wish(settings), force=settings.force)


def open_store(plan: StreamingPlan, gguf: GgufFile) -> Streaming:
    """Open the files and take the memory. ModelReadError, OutOfMemoryError."""
    reader = DirectReader(gguf.paths)
    try:
        store = ExpertStore(expert_extents(gguf), reader, plan.cached_bytes, plan.num_cached, lock=True)
    except BaseException:
        reader.close()
        raise
    return Streaming(plan, store, reader)


def warmed(streaming: Streaming, settings: ModelSettings, gguf: GgufFile, note: Callable[[str], None]) -> Streaming:
    """With the hottest experts of the last runs in memory, unless it is to begin cold; the user is told all of it."""
    plan, store = streaming.plan, streaming.store
    for line in (streaming_line(plan), *plan.warnings):
        note(line)
    if plan.is_needless:
        note(NEEDLESS)
    if store.remark is not None:
        note(store.remark)
    mark = model_fingerprint(gguf)
    path = profile_path(mark)
    if path is not None and (refused := ProfileKeeper(path, mark).begin(store.cache)):
        note(refused)
    preloaded = 0
    if not settings.ssd_streaming_cold:
        most = settings.ssd_streaming_preload_experts
        preloaded = store.preload(DEFAULT_PRELOAD if most is None else most)
    running = Streaming(plan, store, streaming.reader, preloaded)
    note(running.describe())
    return running
