"""States that are on several machines as arrays for files, and back: the same files as of a model in one process.

What a stage has is fetched and brought layer by layer. A state of which something was lost is computed again before it
is taken apart; one that cannot be brought to the stages now is kept as its ids, and computed again when it is used.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from whitedwarf.cluster.history import History, Trail
from whitedwarf.cluster.states import ClusterSnapshot, ClusterState
from whitedwarf.cluster.work import HashMismatch, RouteBroken
from whitedwarf.errors import ClusterError
from whitedwarf.model.base import Ids, Snapshot, never
from whitedwarf.model.saved_states import ArraysKind
from whitedwarf.model.session_payload import LayerArrays
from whitedwarf.model.state import ROLLBACK_TOKENS, StateSnapshot

if TYPE_CHECKING:
    from whitedwarf.cluster.pipeline import ClusterModel

MOST_ATTEMPTS = 4


@dataclass(frozen=True, slots=True)
class ClusterArrays:
    """A StateArrays (model/saved_states.py) of a model over several machines."""

    model: "ClusterModel"
    kind: ArraysKind

    def accepts(self, snapshot: Snapshot) -> bool:
        """Whether it is of this model."""
        return isinstance(snapshot, ClusterSnapshot) and snapshot.home.is_of(self.model.home)

    def of(self, snapshot: Snapshot) -> Iterator[LayerArrays]:
        """The arrays of every layer of the model, fetched one by one. ClusterError where that cannot be done."""
        if not isinstance(snapshot, ClusterSnapshot) or not self.accepts(snapshot):
            raise ValueError(f"expected a snapshot of this model, got {type(snapshot).__name__}")
        return self._each(snapshot)

    def restored(self, ids: Ids, layers: Iterable[LayerArrays]) -> ClusterSnapshot:
        """A state that has consumed `ids`; ValueError if an array has not the shape that the model asks for."""
        home, given = self.model.home, list(layers)
        if len(given) != home.local.config.hp.num_layers:
            raise ValueError(f"the model has {home.local.config.hp.num_layers} layers, the arrays are of {len(given)}")
        history = History.of(ids)
        local = home.local.state_arrays(self.kind).restored(ids, given[: home.local.held.stop])
        with home.line.lock, suppress(ClusterError):  # no route at all
            for _ in range(MOST_ATTEMPTS):
                with suppress(RouteBroken):
                    return self._brought(history, local, given)
        return ClusterSnapshot(home, history, 0)

    def _each(self, snapshot: ClusterSnapshot) -> Iterator[LayerArrays]:
        current = snapshot
        for layer in range(self.model.config.hp.num_layers):
            with self.model.home.line.lock:
                current, arrays = self._layer(current, layer)
            yield arrays

    def _layer(self, snapshot: ClusterSnapshot, layer: int) -> tuple[ClusterSnapshot, LayerArrays]:
        """Of the snapshot, or of what was made in its place; that one too."""
        home, failure = self.model.home, "it was lost"
        for _ in range(MOST_ATTEMPTS):
            try:
                if not snapshot.is_here or snapshot.local is None or snapshot.remote is None:
                    snapshot = self._made_again(snapshot)
                    continue
                if layer in home.local.held:
                    return snapshot, home.local.state_arrays(self.kind).layer(snapshot.local, layer)
                home.line.flush(never)
                return snapshot, home.line.call(layer, "gather", snapshot.remote.number, layer, self.kind)
            except (RouteBroken, HashMismatch) as error:
                snapshot, failure = ClusterSnapshot(snapshot.home, snapshot.history, 0), str(error)
        raise ClusterError(f"a state of {snapshot.position} tokens could not be fetched from other machines: {failure}")

    def _made_again(self, snapshot: ClusterSnapshot) -> ClusterSnapshot:
        """Computed from its ids. RouteBroken, HashMismatch."""
        state = ClusterState(self.model.home)
        state.restore(snapshot)
        self.model.bring_up_to_date(state, never)
        self.model.home.line.settle(0, never)
        return state.snapshot()

    def _brought(self, history: History, local: StateSnapshot, layers: list[LayerArrays]) -> ClusterSnapshot:
        """With every stage's layers on it. RouteBroken; ClusterError where there is no route."""
        home = self.model.home
        home.line.connect(never)
        home.line.know(home.steering)
        remote = home.line.new_remote("snapshot")
        trail = Trail.at(ROLLBACK_TOKENS, len(history), history.last_hash)
        for layer in range(home.local.held.stop, len(layers)):
            home.line.call(layer, "scatter", remote.number, layer, self.kind, layers[layer], trail, home.steering)
        return ClusterSnapshot(home, history, 0, local, remote, home.fullest)
