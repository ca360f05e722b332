"""The lightning indexer: picks which compressed rows a ratio-4 layer attends to (fact sheet 2.5)."""

from dataclasses import dataclass

from whitedwarf.model.batch import Batch
from whitedwarf.model.compressor import Compressor
from whitedwarf.model.config import ModelConfig
from whitedwarf.model.parameters import Parameters
from whitedwarf.ops.base import FloatArray, IntArray, Ops, RowFormat, Weight
from whitedwarf.ops.spans import Pool


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
    def load(cls, params: Parameters, config: ModelConfig, ratio: int) -> "Indexer":
        hp = config.hp
        compressor = Compressor.load(params, "indexer_compressor", Pool.KEYS, ratio, config.key_format, hp.rms_epsilon)
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

    def pick(self, inputs: IndexInputs, batch: Batch, layer: int) -> IntArray | None:
        """The compressed rows each query attends to; None = all it may see. Makes the keys of closed windows first."""
        self.compressor.extend(inputs.keys, batch, layer)
        counts = batch.windows[self.compressor.pooling.ratio].counts
        picked = self.ops.pick(batch.spans, layer, inputs.queries, inputs.weights, self.format, counts, self.top)
        if picked is not None:
            batch.watch("index_picked", layer, picked)
        return picked
