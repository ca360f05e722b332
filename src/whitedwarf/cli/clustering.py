"""A model over a cluster, from options: the first layers here, the others on the members of a meeting place.

Promises: what can be refused is refused before anything is loaded; until there are members for all layers it is said
what is missing, and after --cluster-wait it is an error.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic, sleep
from typing import TYPE_CHECKING

from whitedwarf.cli.machine import available_threads
from whitedwarf.cli.memory import context_bytes_by_layer
from whitedwarf.cli.placing import asked_backend
from whitedwarf.cluster.pipeline import ClusterModel
from whitedwarf.cluster.place import parse_layers, parse_place
from whitedwarf.cluster.split import LayerSizes, SplitMember
from whitedwarf.cluster.split_plan import SplitPlan
from whitedwarf.config import ClusterSettings, ModelSettings
from whitedwarf.engine.memory import probe_memory
from whitedwarf.errors import ClusterError, FileFormatError, UsageError
from whitedwarf.gguf.census import layers_present
from whitedwarf.gguf.hparams import Hyperparameters, from_metadata
from whitedwarf.gguf.reader import GgufFile
from whitedwarf.model.base import never
from whitedwarf.model.config import ModelConfig
from whitedwarf.model.loading import load_model
from whitedwarf.ops.base import Ops
from whitedwarf.ops.select import make_ops
from whitedwarf.weights.model_bytes import model_bytes
from whitedwarf.weights.store import load_tensors

if TYPE_CHECKING:
    from whitedwarf.cluster.coordinator import Coordinator
    from whitedwarf.cluster.work import Done

_LOOK_AGAIN_S = 0.25
OWN_NAME = "this process"


@dataclass(frozen=True, slots=True)
class Clustered:
    """A model over a cluster. `coordinator` closes itself at exit."""

    model: ClusterModel
    coordinator: "Coordinator"

    def describe(self) -> str:
        """Which layers are where, in a few words."""
        stages = ", ".join(f"{stage.start} to {stage.stop - 1} on {name}" for stage, name in self.coordinator.stages)
        return f"layers 0 to {self.model.home.local.held.stop - 1} here, {stages}"


def open_clustered(
    settings: ModelSettings,
    cluster: ClusterSettings,
    gguf: GgufFile,
    *,
    parallel: int,
    default_context: int,
    wrap: Callable[[Ops], Ops],
    note: Callable[[str], None],
) -> Clustered:
    """Find the members, load what is left for us, and wait for a whole route."""
    from whitedwarf.cli.cluster_extra import settle

    assert cluster.cluster is not None
    address = parse_place(cluster.cluster)
    trust, patience = settle(cluster, cluster.cluster_wait)
    from whitedwarf.cluster.building import Wanted
    from whitedwarf.cluster.coordinator import Coordinator, Ears
    from whitedwarf.cluster.fingerprint import fingerprint_of

    hp = from_metadata(gguf.metadata, gguf.tensors)
    own = _own_layers(cluster, hp)
    ops = make_ops(asked_backend(settings), settings.threads or available_threads(), settings.quality)
    present = layers_present(hp, load_tensors(gguf))
    if 0 not in present:
        raise FileFormatError(f"{gguf.paths[0]}: a coordinator needs layer 0 and those after it; give that part")
    plan = SplitPlan(_sizes(settings, gguf, hp, parallel, default_context), _own_member(ops, present, own))
    wanted = Wanted(fingerprint_of(gguf), hp.num_layers, settings.kv_cache, settings.quality)
    ears = Ears(note, _telling(note)) if cluster.debug else Ears(note)
    coordinator = Coordinator(trust.address(*address), trust, patience, wanted, plan, ears)
    if own is None:
        own = _waited(coordinator, plan, cluster.cluster_wait, note)
        coordinator.use(plan.with_own(own))
    local = load_model(gguf, wrap(ops), settings.kv_cache, own).transformer
    model = ClusterModel.over(local, coordinator, cluster.cluster_bits)
    with model.home.line.lock:
        model.home.line.connect(never)
    return Clustered(model, coordinator)


def _own_layers(cluster: ClusterSettings, hp: Hyperparameters) -> range | None:
    if cluster.layers is None:
        return None
    layers = parse_layers(cluster.layers, hp.num_layers)
    if layers.start != 0 or layers.stop == hp.num_layers:
        raise UsageError(f"--layers {cluster.layers}: a coordinator has 0:A, and leaves some to others")
    return layers


def _own_member(ops: Ops, present: range, own: range | None) -> SplitMember:
    from whitedwarf.cli.cluster_part import memory_speed

    speed = memory_speed(ops) if own is None else 1.0
    return SplitMember(OWN_NAME, probe_memory().usable_bytes, speed, present, own)


def _sizes(
    settings: ModelSettings, gguf: GgufFile, hp: Hyperparameters, parallel: int, default_context: int
) -> LayerSizes:
    """Of all layers; those that are in another file are taken to be as large as the largest that is in this one."""
    context = min(settings.context or default_context, hp.context_length)
    config = ModelConfig(hp, settings.kv_cache, context)
    found = model_bytes(hp, gguf.tensors)
    weights = [layer.dense_bytes + layer.experts_bytes for layer in found.layers[: hp.num_layers]]
    states = context_bytes_by_layer(config, hp.num_layers)
    layers = tuple((size or max(weights)) + parallel * state for size, state in zip(weights, states, strict=True))
    return LayerSizes(layers, found.first_bytes, found.last_bytes or found.first_bytes)


def _waited(coordinator: "Coordinator", plan: SplitPlan, wait_s: float, note: Callable[[str], None]) -> range:
    """Our own layers, when there are members for the others."""
    until, said = monotonic() + wait_s, ""
    while True:
        try:
            return plan.own_layers(coordinator.members())
        except ClusterError as error:
            if monotonic() > until:
                raise
            if str(error) != said:
                said = str(error)
                note(f"waiting for the cluster: {said}")
        sleep(_LOOK_AGAIN_S)


def _telling(note: Callable[[str], None]) -> Callable[["Done"], None]:
    """A line for each piece of work."""

    def tell(done: "Done") -> None:
        with suppress(OSError):  # nobody reads any more
            for hop in done.hops:
                note(
                    f"work {done.number}: layers {hop.layers[0]} to {hop.layers[1]}: {hop.num_tokens} tokens in "
                    f"{hop.eval_us / 1e3:.2f} ms after {hop.wait_us / 1e3:.2f} ms of waiting, {hop.bytes_in} bytes in, "
                    f"{hop.bytes_out} out; handing on took {hop.send_us / 1e3:.2f} ms before"
                )

    return tell
