"""A sequence's state as plain f32 arrays, and back: what a file on disk keeps of it (model.md 7.1).

Per layer, in the file's order: the window's rows; where the layer compresses also its compressed rows and the
frontier's values and scores; at ratio 4 also the index keys and their frontier. Rows are the values that the stored
ones stand for. Scores are gates plus `ape`, which our states keep apart: `without` undoes the sum so that summing again
gives the same bits. A state that went through these arrays therefore continues with the same logits, bit for bit,
wherever sums are made in f32 and the rows are kept as before.

Knows no file.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from whitedwarf.model.base import Ids, Snapshot
from whitedwarf.model.compressor import Compressor
from whitedwarf.model.rows import AppendedRows, SlidingRows
from whitedwarf.model.state import AbsentLayer, CompressorState, LayerState, StateSnapshot
from whitedwarf.ops.base import RowFormat, Rows
from whitedwarf.ops.rows import encode_stored
from whitedwarf.ops.spans import Array

if TYPE_CHECKING:
    from whitedwarf.model.transformer import Transformer

EMPTY_SCORE = np.float32(-1e30)  # of a frontier's slot that no token has filled: no share of any average

Floats = npt.NDArray[np.float32]
LayerArrays = tuple[Array, ...]  # 1, 4 or 7 of them: see above


@dataclass(frozen=True, slots=True)
class SessionArrays:
    """Converts the states of one model, or of the layers of it that are here."""

    model: "Transformer"

    def accepts(self, snapshot: Snapshot) -> bool:
        """Whether it is of a model such as this."""
        return isinstance(snapshot, StateSnapshot)

    def of(self, snapshot: Snapshot) -> Iterator[LayerArrays]:
        """The arrays of every layer, made one by one: all together may be seven times the state."""
        state = own_snapshot(snapshot)
        return (self.layer(state, index) for index in self.model.held)

    def layer(self, snapshot: StateSnapshot, index: int) -> LayerArrays:
        """The arrays of one layer."""
        return self._layer(index, snapshot.layers[index], snapshot.position)

    def restored(self, ids: Ids, layers: Iterable[LayerArrays]) -> StateSnapshot:
        """See model/saved_states.py."""
        return self.snapshot(len(ids), layers)

    def snapshot(self, position: int, layers: Iterable[LayerArrays]) -> StateSnapshot:
        """A state to restore from; ValueError if an array has not the shape that the position and model ask for."""
        return put_together(self.model, position, layers, self._state)

    def _layer(self, index: int, state: LayerState, position: int) -> LayerArrays:
        config = self.model.config
        live = min(config.hp.sliding_window, position)
        raw = self._decoded(index, held(state.window, position - live, position), config.kv_format)
        arrays: LayerArrays = (raw,)
        for compressor, part in self._compressors(index, state):
            arrays += self._compressed(index, compressor, part, position)
        return arrays

    def _compressors(self, index: int, state: LayerState) -> list[tuple[Compressor, CompressorState]]:
        attention = self.model.layers[index - self.model.held.start].attention
        indexer = attention.indexer.compressor if attention.indexer else None
        pairs = (attention.compressor, state.compressor), (indexer, state.indexer)
        return [(compressor, part) for compressor, part in pairs if compressor is not None and part is not None]

    def _compressed(self, index: int, compressor: Compressor, state: CompressorState, position: int) -> LayerArrays:
        frontier = Frontier.at(position, compressor.pooling.ratio)
        made = state.rows.memory.to_host(state.rows.upto(position // compressor.pooling.ratio))
        rows = self._decoded(index, made, compressor.pooling.format)
        values = held(state.values, frontier.start, position)
        gates = held(state.gates, frontier.start, position)
        scores = gates + frontier.of_positions(self._ape(compressor))
        return rows, frontier.filled(values, np.float32(0)), frontier.filled(scores, EMPTY_SCORE)

    def _state(self, index: int, arrays: LayerArrays, position: int) -> LayerState:
        ratio, memory = self.model.config.hp.compress_ratios[index], self.model.ops.memory(index)
        state = LayerState.new(self.model.config, ratio, memory)
        parts = self._compressors(index, state)
        if len(arrays) != 1 + 3 * len(parts):
            raise ValueError(f"layer {index} has {1 + 3 * len(parts)} arrays, not {len(arrays)}")
        live = min(self.model.config.hp.sliding_window, position)
        format = self.model.config.kv_format
        check_shape(arrays[0], (live, format.dims), f"the window of layer {index}")
        start_at(state.window, position - live, encode_stored(arrays[0], format))
        for number, (compressor, part) in enumerate(parts):
            self._fill(compressor, part, arrays[1 + 3 * number : 4 + 3 * number], position)
        return state

    def _fill(self, compressor: Compressor, state: CompressorState, arrays: LayerArrays, position: int) -> None:
        frontier, format = Frontier.at(position, compressor.pooling.ratio), compressor.pooling.format
        rows, values, scores = arrays
        shape = frontier.num_slots, compressor.pooling.ape.shape[1]
        check_shape(rows, (position // compressor.pooling.ratio, format.dims), "compressed rows")
        check_shape(values, shape, "the frontier's values")
        check_shape(scores, shape, "the frontier's scores")
        memory = state.rows.memory
        state.rows = AppendedRows(format.row_bytes, memory)
        state.rows.extend(0, memory.to_device(encode_stored(rows, format)))
        ape = frontier.of_positions(self._ape(compressor))
        start_at(state.values, frontier.start, values[frontier.live])
        start_at(state.gates, frontier.start, without(scores[frontier.live], ape))

    def _ape(self, compressor: Compressor) -> Floats:
        ape: Floats = self.model.ops.host(compressor.pooling.ape).astype(np.float32)
        return ape

    def _decoded(self, index: int, data: Array, format: RowFormat) -> Floats:
        ops = self.model.ops
        rows = ops.memory(index).to_device(np.ascontiguousarray(data))
        return ops.host(ops.decode_rows(Rows(format, rows, 0))).astype(np.float32, copy=False)


@dataclass(frozen=True, slots=True)
class Frontier:
    """The inputs of windows that are not over (2.10): at ratio 4 the previous window's, then the open one's."""

    ratio: int
    num_slots: int
    start: int  # position of the oldest token it needs
    live: slice  # the slots of those tokens, in order

    @classmethod
    def at(cls, position: int, ratio: int) -> "Frontier":
        previous = ratio if ratio == 4 else 0
        opened = position - position % ratio
        start = max(0, opened - previous)
        first = previous - (opened - start)
        return cls(ratio, previous + ratio, start, slice(first, first + position - start))

    def of_positions(self, ape: Floats) -> Floats:
        """The row of `ape` that each live token uses."""
        count = self.live.stop - self.live.start
        rows: Floats = ape[np.arange(self.start, self.start + count) % self.ratio]
        return rows

    def filled(self, rows: Array, empty: np.float32) -> Floats:
        """All slots, those without a token holding `empty`."""
        slots = np.full((self.num_slots, rows.shape[1]), empty, np.float32)
        slots[self.live] = rows
        return slots


def own_snapshot(snapshot: Snapshot) -> StateSnapshot:
    """A snapshot of a model such as ours; ValueError for any other."""
    if not isinstance(snapshot, StateSnapshot):
        raise ValueError(f"expected a snapshot of this model, got {type(snapshot).__name__}")
    return snapshot


def put_together(
    model: "Transformer",
    position: int,
    layers: Iterable[LayerArrays],
    state_of: Callable[[int, LayerArrays, int], LayerState],
) -> StateSnapshot:
    """A snapshot of the layers that are here; ValueError where there are arrays of more or fewer."""
    given, ratios = list(layers), model.config.hp.compress_ratios
    if len(given) != len(model.held):
        raise ValueError(f"the model has {len(model.held)} layers here, the arrays are of {len(given)}")
    states: list[LayerState] = [AbsentLayer.of(model.config, model.ops.memory(index)) for index in range(len(ratios))]
    for index, arrays in zip(model.held, given, strict=True):
        states[index] = state_of(index, arrays, position)
    return StateSnapshot(position, ratios, tuple(states))


def without(scores: Floats, ape: Floats) -> Floats:
    """Gates for which gate + ape, rounded to f32, is the score again.

    The difference, rounded, is one of them or a neighbour of one, if there is any: and there is when the score was such
    a sum. Otherwise the rounded difference has to do.
    """
    gates: Floats = scores - ape
    for direction in (np.float32(np.inf), np.float32(-np.inf)):
        candidates = np.nextafter(scores - ape, direction)
        is_better = (gates + ape != scores) & (candidates + ape == scores)
        gates = np.where(is_better, candidates, gates)
    return gates


def held(rows: SlidingRows, start: int, end: int) -> Array:
    """The rows of positions start..end of a window that goes up to `end`, as numpy's."""
    newest = rows.newest(end)
    first = end - len(newest)
    if not first <= start <= end:
        raise ValueError(f"rows {first}..{end} are held, asked for {start}..{end}")
    return rows.memory.to_host(newest[start - first :])


def start_at(rows: SlidingRows, index: int, data: Array) -> None:
    """Make empty rows hold `data`, the first of them at `index`."""
    rows.first = index
    rows.extend(index, rows.memory.to_device(data))


def check_shape(array: Array, shape: tuple[int, int], what: str) -> None:
    if array.shape != shape:
        raise ValueError(f"{what} must have shape {shape}, not {array.shape}")
