"""Makes one stored row out of every `ratio` tokens: a gated average per channel (fact sheet 2.4).

Used twice: for the rows that attention reads, and, with narrower rows, for the indexer's keys.
"""

from dataclasses import dataclass

from whitedwarf.model.batch import Batch
from whitedwarf.model.parameters import Parameters
from whitedwarf.ops.base import FloatArray, Ops, Pooling, RowFormat, Weight
from whitedwarf.ops.spans import Pool


@dataclass(frozen=True, slots=True)
class Compressor:
    """Weights and settings of one compressor."""

    ops: Ops
    values: Weight  # (c d, D)
    gates: Weight  # (c d, D)
    pooling: Pooling
    pool: Pool

    @classmethod
    def load(
        cls, params: Parameters, name: str, pool: Pool, ratio: int, format: RowFormat, epsilon: float
    ) -> "Compressor":
        values, gates = params.matrix(f"{name}_kv"), params.matrix(f"{name}_gate")
        ape, norm = params.vector(f"{name}_ape"), params.vector(f"{name}_norm")
        return cls(params.ops, values, gates, Pooling(ratio, ape, norm, epsilon, format), pool)

    def extend(self, values: FloatArray, gates: FloatArray, batch: Batch, layer: int) -> None:
        """Add every span's inputs, (n, c d) each; finish the windows that close in it."""
        turns = batch.windows[self.pooling.ratio].turns
        self.ops.pool(batch.spans, layer, self.pool, values, gates, self.pooling, turns)
