"""Some layers of a file as a part of a cluster: what a member says of itself, and how it loads what it is asked for."""

from dataclasses import dataclass
from typing import cast

from whitedwarf.bench.bandwidth import read_bandwidth
from whitedwarf.cli.loading import note, open_file
from whitedwarf.cli.machine import available_threads
from whitedwarf.cli.placing import asked_backend
from whitedwarf.cluster.facts import MemberFacts, this_process
from whitedwarf.cluster.fingerprint import fingerprint_of
from whitedwarf.cluster.place import parse_layers
from whitedwarf.cluster.stage import Stage
from whitedwarf.cluster.wish import StageWish
from whitedwarf.config import ModelSettings
from whitedwarf.engine.memory import probe_memory
from whitedwarf.engine.power import FULL_POWER_PERCENT
from whitedwarf.engine.rests import Rests
from whitedwarf.errors import FileFormatError, UsageError
from whitedwarf.gguf.census import layers_present
from whitedwarf.gguf.hparams import Hyperparameters, from_metadata
from whitedwarf.gguf.reader import GgufFile
from whitedwarf.model.config import KvCache
from whitedwarf.model.loading import load_model
from whitedwarf.model.transformer import Transformer
from whitedwarf.ops.base import Ops
from whitedwarf.ops.cpu import CpuOps
from whitedwarf.ops.select import make_ops
from whitedwarf.weights.store import load_tensors

_MEASURED_BYTES = 1 << 27


@dataclass(frozen=True, slots=True)
class LoadedPart:
    """Layers of a model; stages for several coordinators share them."""

    transformer: Transformer
    power_percent: int = FULL_POWER_PERCENT

    def new_stage(self, wish: StageWish) -> Stage:
        """Without sessions. How long a context may be is the coordinator's affair."""
        is_full = self.power_percent == FULL_POWER_PERCENT
        return Stage(self.transformer, None if is_full else Rests(self.power_percent))


@dataclass(frozen=True, slots=True)
class Parts:
    """A file of which parts can be loaded."""

    gguf: GgufFile
    hp: Hyperparameters
    ops: Ops
    settings: ModelSettings
    facts: MemberFacts

    def load(self, wish: StageWish) -> LoadedPart:
        """FileFormatError where the file is not what its header says."""
        kv_cache = cast(KvCache, wish.kv_cache)
        ops = self.ops if wish.quality == self.settings.quality else _ops(self.settings, quality=wish.quality)
        transformer = load_model(self.gguf, ops, kv_cache, wish.layers).transformer
        return LoadedPart(transformer, self.settings.power)

    def wish(self, layers: range) -> StageWish:
        """For layers that are loaded before anybody asks for them."""
        facts, settings = self.facts, self.settings
        return StageWish(
            route="",
            layers=layers,
            fingerprint=facts.fingerprint,
            num_layers=facts.num_layers,
            kv_cache=settings.kv_cache,
            quality=settings.quality,
        )


def open_parts(settings: ModelSettings, layers: str | None) -> Parts:
    """Open the chosen file, and measure this machine. UsageError for layers that the file does not have."""
    gguf = open_file(settings)
    hp = from_metadata(gguf.metadata, gguf.tensors)
    present = layers_present(hp, load_tensors(gguf))
    if not present:
        raise FileFormatError(f"{gguf.paths[0]}: no layer of it is complete; give a model, or a part of one")
    asked = None if layers is None else parse_layers(layers, hp.num_layers)
    if asked is not None and not (present.start <= asked.start and asked.stop <= present.stop):
        raise UsageError(f"--layers {layers}: {gguf.paths[0]} has the layers {present.start} to {present.stop - 1}")
    ops = _ops(settings, quality=settings.quality)
    name, host, pid = this_process()
    facts = MemberFacts(
        name=name,
        host=host,
        pid=pid,
        model=str(gguf.metadata.get("general.name") or gguf.paths[0].name),
        fingerprint=fingerprint_of(gguf),
        num_layers=hp.num_layers,
        present=present,
        asked=asked,
        loaded=None,
        memory_bytes=probe_memory().usable_bytes,
        read_bytes_per_s=memory_speed(ops),
    )
    note(f"{facts.model} ({facts.fingerprint}), {facts.read_bytes_per_s / 1e9:.1f} GB/s, backend {ops.name}")
    return Parts(gguf, hp, ops, settings, facts)


def _ops(settings: ModelSettings, *, quality: bool) -> Ops:
    return make_ops(asked_backend(settings), settings.threads or available_threads(), quality)


def memory_speed(ops: Ops) -> float:
    """Bytes per second, as decoding reads them."""
    if isinstance(ops, CpuOps):
        return read_bandwidth(ops.kernels.read_all, _MEASURED_BYTES)
    device = getattr(ops, "device", None)
    if device is None:
        return read_bandwidth(lambda array: int(array.view("u8").sum()), _MEASURED_BYTES)
    from whitedwarf.ops.torch_cards import copy_speed

    return float(copy_speed(device))
