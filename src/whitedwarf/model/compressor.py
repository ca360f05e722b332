"""Makes one stored row out of every `ratio` tokens: a gated average per channel (fact sheet 2.4).

Used twice: for the rows that attention reads, and, with narrower rows, for the indexer's keys.
"""

from dataclasses import dataclass

import numpy as np

from whitedwarf.model.batch import Batch, Part
from whitedwarf.model.parameters import Parameters
from whitedwarf.model.rope import Rope
from whitedwarf.model.state import CompressorState
from whitedwarf.ops.base import FloatArray, Groups, Ops, RowFormat, Rows, Weight


@dataclass(frozen=True, slots=True)
class Compressor:
    """Weights and settings of one compressor."""

    ops: Ops
    values: Weight  # (c d, D)
    gates: Weight  # (c d, D)
    ape: FloatArray  # (ratio, c d): added to the gates by position in the window
    norm: FloatArray  # (d,)
    ratio: int
    format: RowFormat
    rope: Rope
    epsilon: float

    @classmethod
    def load(
        cls, params: Parameters, name: str, ratio: int, format: RowFormat, rope: Rope, epsilon: float
    ) -> "Compressor":
        values, gates = params.matrix(f"{name}_kv"), params.matrix(f"{name}_gate")
        ape, norm = params.vector(f"{name}_ape"), params.vector(f"{name}_norm")
        return cls(params.ops, values, gates, ape, norm, ratio, format, rope, epsilon)

    def inputs(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n, D) -> values and gates (n, c d) of all rows of the batch."""
        return self.ops.linear(x, self.values), self.ops.linear(x, self.gates)

    def extend(self, part: Part, state: CompressorState, inputs: tuple[FloatArray, FloatArray]) -> Rows:
        """Add one span's inputs; finish every window that closes in it; return all rows so far."""
        values, first = state.values.extend(part.start, inputs[0][part.rows])
        gates, _ = state.gates.extend(part.start, inputs[1][part.rows])
        groups = Groups(part.start // self.ratio, part.end // self.ratio, self.ratio)
        if groups.first < groups.end:
            state.rows.extend(groups.first, self._pool(values, gates, first, groups))
        return Rows(self.format, state.rows.upto(groups.end), 0)

    def _pool(self, values: FloatArray, gates: FloatArray, first: int, groups: Groups) -> np.ndarray:
        starts = np.arange(groups.first, groups.end, dtype=np.int32) * self.ratio
        turns = self.rope.turns(starts)
        return self.ops.compress(values, gates, first, groups, self.ape, self.norm, turns, self.epsilon, self.format)


def visible_rows(batch: Batch, part: Part, ratio: int) -> np.ndarray:
    """Compressed rows that each query of the span may see: those closed by its own token or earlier (2.3)."""
    return (batch.positions[part.rows] + 1) // ratio
