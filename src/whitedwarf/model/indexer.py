"""The lightning indexer: picks which compressed rows a ratio-4 layer attends to (fact sheet 2.5)."""

from dataclasses import dataclass

import numpy as np

from whitedwarf.model.batch import Batch, Part
from whitedwarf.model.compressor import Compressor
from whitedwarf.model.config import ModelConfig
from whitedwarf.model.parameters import Parameters
from whitedwarf.model.rope import Rope
from whitedwarf.model.state import CompressorState
from whitedwarf.ops.base import FloatArray, IntArray, Ops, RowFormat, Weight


@dataclass(frozen=True, slots=True)
class IndexInputs:
    """What the indexer computes for all rows of a batch before it looks at any sequence."""

    queries: FloatArray  # (n, heads, d)
    weights: FloatArray  # (n, heads)
    keys: tuple[FloatArray, FloatArray]  # compressor inputs (n, 2 d) each


@dataclass(frozen=True, slots=True)
class Indexer:
    """Weights and settings of one indexer."""

    ops: Ops
    query: Weight  # (heads d, R)
    head_weights: Weight  # (heads, D)
    compressor: Compressor
    num_heads: int
    top: int
    scale: float
    format: RowFormat

    @classmethod
    def load(cls, params: Parameters, config: ModelConfig, ratio: int, rope: Rope) -> "Indexer":
        hp = config.hp
        compressor = Compressor.load(params, "indexer_compressor", ratio, config.key_format, rope, hp.rms_epsilon)
        return cls(
            ops=params.ops,
            query=params.matrix("indexer.attn_q_b"),
            head_weights=params.matrix("indexer.proj"),
            compressor=compressor,
            num_heads=hp.index_heads,
            top=hp.index_topk,
            scale=(hp.index_heads * hp.index_head_dim) ** -0.5,
            format=config.key_format,
        )

    def inputs(self, x: FloatArray, low_rank_query: FloatArray, batch: Batch) -> IndexInputs:
        """(n, D) and (n, R) -> everything that does not depend on earlier tokens."""
        flat = self.ops.linear(low_rank_query, self.query)
        queries = self.ops.index_query(flat, self.num_heads, batch.compressed_turns, self.format)
        weights = self.ops.linear(x, self.head_weights) * x.dtype.type(self.scale)
        return IndexInputs(queries, weights, self.compressor.inputs(x))

    def pick(self, part: Part, state: CompressorState, inputs: IndexInputs, counts: IntArray) -> IntArray | None:
        """The compressed rows each query of the span attends to; None = all it may see."""
        keys = self.compressor.extend(part, state, inputs.keys)
        if int(counts[-1]) <= self.top:
            return None
        queries, weights = inputs.queries[part.rows], inputs.weights[part.rows]
        return self.ops.index_pick(queries, np.ascontiguousarray(weights), keys, counts, self.top)
