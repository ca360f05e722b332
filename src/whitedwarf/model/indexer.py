"""The lightning indexer: picks which compressed rows a ratio-4 layer attends to (fact sheet 2.5)."""

from dataclasses import dataclass

from whitedwarf.model.batch import Batch, Windows
from whitedwarf.model.compressor import Compressor
from whitedwarf.model.config import ModelConfig
from whitedwarf.model.parameters import Parameters
from whitedwarf.ops.base import FloatArray, IntArray, Ops, RowFormat, Weight
from whitedwarf.ops.spans import Pool


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

    def has_choice(self, batch: Batch) -> bool:
        """Whether any query sees more rows than it may attend to; where none does, nothing is scored."""
        return self._windows(batch).most > self.top

    def pick(self, flat: FloatArray, weights: FloatArray, batch: Batch, layer: int) -> IntArray | None:
        """Queries (n, heads d) and head weights (n, heads) -> the compressed rows each query attends to; None = all."""
        queries = self.ops.index_query(flat, self.num_heads, batch.compressed_turns, self.format)
        weights = weights * self.scale
        counts, most = self._windows(batch).counts, self._windows(batch).most
        picked = self.ops.pick(batch.spans, layer, queries, weights, self.format, counts, most, self.top)
        if picked is not None:
            batch.watch("index_picked", layer, picked)
        return picked

    def _windows(self, batch: Batch) -> Windows:
        return batch.windows[self.compressor.pooling.ratio]
