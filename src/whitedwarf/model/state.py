"""The KV state of one sequence: what each layer must remember, and nothing about how it is computed.

Per layer: stored rows of the sliding window; for compressed layers the rows made so far and the inputs of the open (and
the previous) window, the frontier; for ratio-4 layers the same again for index keys. Counts follow from the position
alone, so a small step back is arithmetic, and no layer is told that a token has passed. Longer steps back need a
snapshot, which copies the few sliding rows and shares the appended ones.
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from whitedwarf.model.base import Snapshot
from whitedwarf.model.config import ModelConfig
from whitedwarf.model.rows import AppendedRows, SlidingRows
from whitedwarf.ops.base import RowFormat
from whitedwarf.ops.spans import HOST, SLACK_ROWS, RowMemory

ROLLBACK_TOKENS = 16  # the longest speculative draft


@dataclass(slots=True)
class CompressorState:
    """Rows made so far, and the inputs from which the next one will be made."""

    values: SlidingRows  # (., c d) f32
    gates: SlidingRows  # (., c d) f32, without ape
    rows: AppendedRows

    @classmethod
    def new(cls, ratio: int, format: RowFormat, memory: RowMemory = HOST) -> "CompressorState":
        overlap = 2 if ratio == 4 else 1
        keep = overlap * ratio + ROLLBACK_TOKENS
        width = overlap * format.dims
        values, gates = (SlidingRows(keep, width, np.float32, memory) for _ in range(2))
        return cls(values, gates, AppendedRows(format.row_bytes, memory))

    def make_room(self, position: int, num_tokens: int, ratio: int) -> int:
        """For the next tokens; returns up to which position there is room now."""
        self.values.make_room(position, num_tokens)
        self.gates.make_room(position, num_tokens)
        first, end = position // ratio, (position + num_tokens) // ratio
        self.rows.make_room(first, end - first)
        return min(self.values.room_end, (len(self.rows.buffer) + 1) * ratio - 1)

    def copy(self, position: int, ratio: int) -> "CompressorState":
        values, gates = self.values.copy(position), self.gates.copy(position)
        return CompressorState(values, gates, self.rows.share(position // ratio))

    def frozen(self, position: int, ratio: int) -> "CompressorState":
        values, gates = self.values.frozen(position), self.gates.frozen(position)
        return CompressorState(values, gates, self.rows.share(position // ratio))

    @property
    def own_bytes(self) -> int:
        return self.values.size_bytes + self.gates.size_bytes

    @property
    def size_bytes(self) -> int:
        return self.own_bytes + self.rows.size_bytes


@dataclass(slots=True)
class LayerState:
    """What one layer remembers of one sequence."""

    window: SlidingRows
    compressor: CompressorState | None
    indexer: CompressorState | None

    @classmethod
    def new(cls, config: ModelConfig, ratio: int, memory: RowMemory = HOST) -> "LayerState":
        return cls(
            SlidingRows(config.hp.sliding_window + ROLLBACK_TOKENS, config.kv_format.row_bytes, np.uint8, memory),
            CompressorState.new(ratio, config.kv_format, memory) if ratio else None,
            CompressorState.new(ratio, config.key_format, memory) if ratio == 4 else None,
        )

    def make_room(self, position: int, num_tokens: int, ratio: int) -> int:
        """For the next tokens; returns up to which position there is room now."""
        self.window.make_room(position, num_tokens)
        return min([self.window.room_end, *(part.make_room(position, num_tokens, ratio) for part in self.compressors)])

    def copy(self, position: int, ratio: int) -> "LayerState":
        compressor = self.compressor and self.compressor.copy(position, ratio)
        indexer = self.indexer and self.indexer.copy(position, ratio)
        return LayerState(self.window.copy(position), compressor, indexer)

    def frozen(self, position: int, ratio: int) -> "LayerState":
        """A copy that will not be continued itself."""
        compressor = self.compressor and self.compressor.frozen(position, ratio)
        indexer = self.indexer and self.indexer.frozen(position, ratio)
        return LayerState(self.window.frozen(position), compressor, indexer)

    def rebased(self, longer: "LayerState", num_rows: int) -> "LayerState":
        """The same with its appended rows in the buffers of `longer`, which begins with the same tokens."""
        return LayerState(
            self.window,
            _rebased(self.compressor, longer.compressor, num_rows),
            _rebased(self.indexer, longer.indexer, num_rows),
        )

    def packed(self, num_rows: int) -> "LayerState":
        """The same with its appended rows in buffers of their own."""
        return LayerState(self.window, _packed(self.compressor, num_rows), _packed(self.indexer, num_rows))

    @property
    def compressors(self) -> Iterator[CompressorState]:
        return (part for part in (self.compressor, self.indexer) if part is not None)

    @property
    def own_bytes(self) -> int:
        return self.window.size_bytes + sum(part.own_bytes for part in self.compressors)

    @property
    def size_bytes(self) -> int:
        return self.window.size_bytes + sum(part.size_bytes for part in self.compressors)


@dataclass(slots=True)
class AbsentLayer(LayerState):
    """A layer that is computed elsewhere: nothing of it is remembered here. Layers keep their numbers beside it."""

    @classmethod
    def of(cls, config: ModelConfig, memory: RowMemory = HOST) -> "AbsentLayer":
        return cls(SlidingRows.none(config.kv_format.row_bytes, np.uint8, memory), None, None)

    def make_room(self, position: int, num_tokens: int, ratio: int) -> int:
        return sys.maxsize

    def copy(self, position: int, ratio: int) -> LayerState:
        return self

    def frozen(self, position: int, ratio: int) -> LayerState:
        return self

    def rebased(self, longer: LayerState, num_rows: int) -> LayerState:
        return self

    def packed(self, num_rows: int) -> LayerState:
        return self


def _rebased(state: CompressorState | None, longer: CompressorState | None, num_rows: int) -> CompressorState | None:
    if state is None or longer is None:
        return state
    return CompressorState(state.values, state.gates, longer.rows.share(num_rows))


def _packed(state: CompressorState | None, num_rows: int) -> CompressorState | None:
    return state and CompressorState(state.values, state.gates, state.rows.packed(num_rows))


@dataclass(frozen=True, slots=True)
class StateSnapshot:
    """A frozen state. Restoring copies again, so one snapshot serves many continuations."""

    position: int
    ratios: tuple[int, ...]
    layers: tuple[LayerState, ...]
    rollback_room: int = 0

    def rebased(self, longer: Snapshot) -> "StateSnapshot":
        """See model/base.py; ValueError when `longer` is of another model or shorter."""
        if not isinstance(longer, StateSnapshot) or longer.model_part != self.model_part:
            raise ValueError("expected a snapshot of the same model and the same layers")
        if longer.position < self.position:
            raise ValueError(f"expected a snapshot of at least {self.position} tokens, got one of {longer.position}")
        counts = _row_counts(self.ratios, self.position)
        layers = zip(self.layers, longer.layers, counts, strict=True)
        rebased = tuple(layer.rebased(other, count) for layer, other, count in layers)
        return StateSnapshot(self.position, self.ratios, rebased, self.rollback_room)

    def packed(self) -> "StateSnapshot":
        """See model/base.py."""
        counts = _row_counts(self.ratios, self.position)
        layers = tuple(layer.packed(count) for layer, count in zip(self.layers, counts, strict=True))
        return StateSnapshot(self.position, self.ratios, layers, self.rollback_room)

    @property
    def model_part(self) -> "ModelPart":
        """Of which model, and of which of its layers."""
        return _model_part(self.ratios, self.layers)

    @property
    def own_bytes(self) -> int:
        return sum(layer.own_bytes for layer in self.layers)

    def shared_bytes(self) -> Mapping[int, int]:
        return _shared_bytes(self.layers)

    @property
    def size_bytes(self) -> int:
        return sum(layer.size_bytes for layer in self.layers)


class SequenceState:
    """The live KV state of one sequence; `memory` says where a layer's rows lie, `held` which layers there are here."""

    def __init__(
        self,
        config: ModelConfig,
        ratios: tuple[int, ...],
        memory: Callable[[int], RowMemory] = lambda layer: HOST,
        held: range | None = None,
    ) -> None:
        self.position = 0
        self.ratios = ratios
        self.layers = [
            LayerState.new(config, ratio, memory(layer))
            if held is None or layer in held
            else AbsentLayer.of(config, memory(layer))
            for layer, ratio in enumerate(ratios)
        ]
        self.bound: object | None = None  # a backend's own view of the buffers; see ops/spans.py
        self._oldest = 0  # no position before this one can be returned to
        self._before = 0, 0  # position and `_oldest` before the last pass
        self._room = range(0)  # positions whose rows can be written where they belong

    @property
    def rollback_room(self) -> int:
        return min(self.position - self._oldest, ROLLBACK_TOKENS)

    @property
    def draft_room(self) -> int:
        return ROLLBACK_TOKENS

    def make_room(self, num_tokens: int) -> None:
        """For a pass over the next tokens. Most of the time there is room already."""
        end = self.position + num_tokens
        if self.position >= self._room.start and end <= self._room.stop:
            return
        self.bound = None
        layers = zip(self.layers, self.ratios, strict=True)
        self._room = range(self.position, min(layer.make_room(self.position, num_tokens, r) for layer, r in layers))

    def advance(self, num_tokens: int) -> None:
        """Count tokens whose rows all layers hold."""
        self._before = self.position, self._oldest
        self.position += num_tokens
        self._oldest = max(self._oldest, self.position - ROLLBACK_TOKENS)

    def take_back(self, num_tokens: int) -> None:
        """Forget the newest tokens of the last pass, with which nothing else becomes shorter: see model/base.py.

        A short pass writes behind what it finds, so what could be returned to before it still can be.
        """
        start, oldest = self._before
        passed = self.position - start
        if not 0 <= num_tokens <= min(passed, ROLLBACK_TOKENS) or passed > SLACK_ROWS:
            raise ValueError(f"can take back tokens of a short pass only: it had {passed}, asked for {num_tokens}")
        self.position -= num_tokens
        self._oldest = max(oldest, self.position - ROLLBACK_TOKENS)
        self._before = self.position, self._oldest

    def rollback(self, num_tokens: int) -> None:
        """Forget the newest tokens; rows past the new position will be written over."""
        if not 0 <= num_tokens <= self.rollback_room:
            raise ValueError(f"can take back at most {self.rollback_room} tokens, asked for {num_tokens}")
        self.position -= num_tokens
        self._before = self.position, self._oldest

    def snapshot(self) -> StateSnapshot:
        self._room = range(0)  # the buffers are shared from here on
        pairs = zip(self.layers, self.ratios, strict=True)
        layers = tuple(layer.frozen(self.position, ratio) for layer, ratio in pairs)
        return StateSnapshot(self.position, self.ratios, layers, self.rollback_room)

    def restore(self, snapshot: Snapshot) -> None:
        """Become what the snapshot was taken of; any earlier content is dropped."""
        if not isinstance(snapshot, StateSnapshot) or snapshot.model_part != _model_part(self.ratios, self.layers):
            raise ValueError("the snapshot was taken of another model, or of other layers")
        pairs = zip(snapshot.layers, snapshot.ratios, strict=True)
        self.layers = [layer.copy(snapshot.position, ratio) for layer, ratio in pairs]
        self.bound, self._room = None, range(0)
        self.position = snapshot.position
        self._oldest = snapshot.position - snapshot.rollback_room
        self._before = self.position, self._oldest

    @property
    def own_bytes(self) -> int:
        return sum(layer.own_bytes for layer in self.layers)

    def shared_bytes(self) -> Mapping[int, int]:
        return _shared_bytes(self.layers)

    @property
    def size_bytes(self) -> int:
        return sum(layer.size_bytes for layer in self.layers)


ModelPart = tuple[tuple[int, bool], ...]


def _model_part(ratios: tuple[int, ...], layers: Sequence[LayerState]) -> ModelPart:
    """Each layer's ratio, and whether it is here."""
    return tuple((ratio, not isinstance(layer, AbsentLayer)) for ratio, layer in zip(ratios, layers, strict=True))


def _row_counts(ratios: tuple[int, ...], position: int) -> list[int]:
    """Appended rows per layer after `position` tokens."""
    return [position // ratio if ratio else 0 for ratio in ratios]


def _shared_bytes(layers: Sequence[LayerState]) -> dict[int, int]:
    return dict(part.rows.buffer_bytes for layer in layers for part in layer.compressors)
