"""A sequence's state as the arrays it is made of, and back: what a file of our own keeps of it.

Per layer: the window's rows; where the layer compresses also its compressed rows and the values and gates of the tokens
in windows that are not over; at ratio 4 the same again of index keys. Rows are bytes as they lie in memory, values and
gates the f32 they are, so a state that went through these arrays is the same state: nothing is computed either way.

Knows no file.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from whitedwarf.model.base import Ids, Snapshot
from whitedwarf.model.rows import AppendedRows
from whitedwarf.model.session_payload import (
    Frontier,
    LayerArrays,
    check_shape,
    held,
    own_snapshot,
    put_together,
    start_at,
)
from whitedwarf.model.state import CompressorState, LayerState, StateSnapshot

if TYPE_CHECKING:
    from whitedwarf.model.transformer import Transformer


@dataclass(frozen=True, slots=True)
class PackedArrays:
    """Takes apart and puts together the states of one model, or of the layers of it that are here."""

    model: "Transformer"

    def accepts(self, snapshot: Snapshot) -> bool:
        """Whether it is of a model such as this."""
        return isinstance(snapshot, StateSnapshot)

    def of(self, snapshot: Snapshot) -> Iterator[LayerArrays]:
        """The arrays of every layer, numpy's: views where the state lies there."""
        state = own_snapshot(snapshot)
        return (self.layer(state, index) for index in self.model.held)

    def layer(self, snapshot: StateSnapshot, index: int) -> LayerArrays:
        """The arrays of one layer."""
        return self._layer(self.model.config.hp.compress_ratios[index], snapshot.layers[index], snapshot.position)

    def restored(self, ids: Ids, layers: Iterable[LayerArrays]) -> StateSnapshot:
        """See model/saved_states.py."""
        return self.snapshot(len(ids), layers)

    def snapshot(self, position: int, layers: Iterable[LayerArrays]) -> StateSnapshot:
        """A state to restore from; ValueError if an array has not the shape that the position and model ask for."""
        return put_together(self.model, position, layers, self._state)

    def _layer(self, ratio: int, state: LayerState, position: int) -> LayerArrays:
        arrays: LayerArrays = (held(state.window, position - self._live(position), position),)
        for part in state.compressors:
            start = Frontier.at(position, ratio).start
            rows = part.rows.memory.to_host(part.rows.upto(position // ratio))
            arrays += rows, held(part.values, start, position), held(part.gates, start, position)
        return arrays

    def _state(self, index: int, arrays: LayerArrays, position: int) -> LayerState:
        ratio = self.model.config.hp.compress_ratios[index]
        state = LayerState.new(self.model.config, ratio, self.model.ops.memory(index))
        parts = list(state.compressors)
        if len(arrays) != 1 + 3 * len(parts):
            raise ValueError(f"a layer of ratio {ratio} has {1 + 3 * len(parts)} arrays, not {len(arrays)}")
        live, format = self._live(position), self.model.config.kv_format
        check_shape(arrays[0], (live, format.row_bytes), "the window")
        start_at(state.window, position - live, arrays[0])
        for number, part in enumerate(parts):
            _fill(part, ratio, arrays[1 + 3 * number : 4 + 3 * number], position)
        return state

    def _live(self, position: int) -> int:
        return min(self.model.config.hp.sliding_window, position)


def _fill(state: CompressorState, ratio: int, arrays: LayerArrays, position: int) -> None:
    rows, values, gates = arrays
    start = Frontier.at(position, ratio).start
    row_bytes, width = state.rows.buffer.shape[1], state.values.buffer.shape[1]
    check_shape(rows, (position // ratio, row_bytes), "compressed rows")
    check_shape(values, (position - start, width), "values of open windows")
    check_shape(gates, (position - start, width), "gates of open windows")
    memory = state.rows.memory
    state.rows = AppendedRows(row_bytes, memory)
    state.rows.extend(0, memory.to_device(rows))
    start_at(state.values, start, values)
    start_at(state.gates, start, gates)
