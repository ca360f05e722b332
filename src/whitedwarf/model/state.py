"""The KV state of one sequence: what each layer must remember, and nothing about how it is computed.

Per layer: stored rows of the sliding window; for compressed layers the rows made so far and the inputs of the open (and
the previous) window, the frontier; for ratio-4 layers the same again for index keys. Counts follow from the position
alone, so a small step back is arithmetic. Longer steps back need a snapshot, which copies the few sliding rows and
shares the appended ones.
"""

from dataclasses import dataclass

import numpy as np

from whitedwarf.model.base import Snapshot
from whitedwarf.model.config import ModelConfig
from whitedwarf.model.rows import AppendedRows, SlidingRows
from whitedwarf.ops.base import RowFormat

ROLLBACK_TOKENS = 16  # the longest speculative draft


@dataclass(slots=True)
class CompressorState:
    """Rows made so far, and the inputs from which the next one will be made."""

    values: SlidingRows  # (., c d) f32
    gates: SlidingRows  # (., c d) f32, without ape
    rows: AppendedRows

    @classmethod
    def new(cls, ratio: int, format: RowFormat) -> "CompressorState":
        overlap = 2 if ratio == 4 else 1
        keep = overlap * ratio + ROLLBACK_TOKENS
        width = overlap * format.dims
        return cls(
            SlidingRows(keep, width, np.float32), SlidingRows(keep, width, np.float32), AppendedRows(format.row_bytes)
        )

    def snapshot(self, num_rows: int) -> "CompressorState":
        return CompressorState(self.values.copy(), self.gates.copy(), self.rows.share(num_rows))

    @property
    def size_bytes(self) -> int:
        return self.values.size_bytes + self.gates.size_bytes + self.rows.size_bytes


@dataclass(slots=True)
class LayerState:
    """What one layer remembers of one sequence."""

    window: SlidingRows
    compressor: CompressorState | None
    indexer: CompressorState | None

    @classmethod
    def new(cls, config: ModelConfig, ratio: int) -> "LayerState":
        return cls(
            SlidingRows(config.hp.sliding_window + ROLLBACK_TOKENS, config.kv_format.row_bytes, np.uint8),
            CompressorState.new(ratio, config.kv_format) if ratio else None,
            CompressorState.new(ratio, config.key_format) if ratio == 4 else None,
        )

    def snapshot(self, num_rows: int) -> "LayerState":
        compressor = self.compressor and self.compressor.snapshot(num_rows)
        indexer = self.indexer and self.indexer.snapshot(num_rows)
        return LayerState(self.window.copy(), compressor, indexer)

    @property
    def size_bytes(self) -> int:
        parts = (self.window, self.compressor, self.indexer)
        return sum(part.size_bytes for part in parts if part is not None)


@dataclass(frozen=True, slots=True)
class StateSnapshot:
    """A frozen state. Restoring copies again, so one snapshot serves many continuations."""

    position: int
    ratios: tuple[int, ...]
    layers: tuple[LayerState, ...]

    @property
    def size_bytes(self) -> int:
        return sum(layer.size_bytes for layer in self.layers)


class SequenceState:
    """The live KV state of one sequence."""

    def __init__(self, config: ModelConfig, ratios: tuple[int, ...]) -> None:
        self.position = 0
        self.ratios = ratios
        self.layers = [LayerState.new(config, ratio) for ratio in ratios]
        self._oldest = 0  # no position before this one can be returned to

    @property
    def rollback_room(self) -> int:
        return min(self.position - self._oldest, ROLLBACK_TOKENS)

    def advance(self, num_tokens: int) -> None:
        """Count tokens whose rows all layers hold."""
        self.position += num_tokens
        self._oldest = max(self._oldest, self.position - ROLLBACK_TOKENS)

    def rollback(self, num_tokens: int) -> None:
        """Forget the newest tokens; rows past the new position will be written over."""
        if not 0 <= num_tokens <= self.rollback_room:
            raise ValueError(f"can take back at most {self.rollback_room} tokens, asked for {num_tokens}")
        self.position -= num_tokens

    def snapshot(self) -> StateSnapshot:
        return StateSnapshot(self.position, self.ratios, _copies(self.layers, self.ratios, self.position))

    def restore(self, snapshot: Snapshot) -> None:
        """Become what the snapshot was taken of; any earlier content is dropped."""
        if not isinstance(snapshot, StateSnapshot) or snapshot.ratios != self.ratios:
            raise ValueError("the snapshot was taken of another model")
        self.layers = list(_copies(list(snapshot.layers), snapshot.ratios, snapshot.position))
        self.position = self._oldest = snapshot.position

    @property
    def size_bytes(self) -> int:
        return sum(layer.size_bytes for layer in self.layers)


def _copies(layers: list[LayerState], ratios: tuple[int, ...], position: int) -> tuple[LayerState, ...]:
    counts = [position // ratio if ratio else 0 for ratio in ratios]
    return tuple(layer.snapshot(count) for layer, count in zip(layers, counts, strict=True))
