"""Attention over a short exact window and compressed rows of everything before (fact sheet 2.3).

One key-value row per token serves all heads, and is key and value at once.
"""

from dataclasses import dataclass

from whitedwarf.model.batch import Batch
from whitedwarf.model.compressor import Compressor
from whitedwarf.model.config import ModelConfig
from whitedwarf.model.indexer import Indexer, IndexInputs
from whitedwarf.model.parameters import Parameters
from whitedwarf.ops.base import FloatArray, Ops, RowFormat, Visible, Weight
from whitedwarf.ops.spans import Pool


@dataclass(frozen=True, slots=True)
class Attention:
    """Weights and settings of one layer's attention. `compressor` and `indexer` exist by the layer's ratio."""

    ops: Ops
    config: ModelConfig
    query_down: Weight  # (R, D)
    query_norm: FloatArray  # (R,)
    query_up: Weight  # (H d, R)
    kv: Weight  # (d, D)
    kv_norm: FloatArray  # (d,)
    sinks: FloatArray  # (H,)
    output_groups: Weight  # (G o, H d / G)
    output: Weight  # (D, G o)
    format: RowFormat  # of the stored rows
    ratio: int
    compressor: Compressor | None
    indexer: Indexer | None

    @classmethod
    def load(cls, params: Parameters, config: ModelConfig, ratio: int) -> "Attention":
        epsilon = config.hp.rms_epsilon
        compressor = indexer = None
        if ratio:
            compressor = Compressor.load(params, "attn_compressor", Pool.ROWS, ratio, config.kv_format, epsilon)
        if ratio == 4:
            indexer = Indexer.load(params, config, ratio)
        return cls(
            ops=params.ops,
            config=config,
            query_down=params.matrix("attn_q_a"),
            query_norm=params.vector("attn_q_a_norm"),
            query_up=params.matrix("attn_q_b"),
            kv=params.matrix("attn_kv"),
            kv_norm=params.vector("attn_kv_a_norm"),
            sinks=params.vector("attn_sinks"),
            output_groups=params.matrix("attn_output_a"),
            output=params.matrix("attn_output_b"),
            format=config.kv_format,
            ratio=ratio,
            compressor=compressor,
            indexer=indexer,
        )

    def forward(self, x: FloatArray, batch: Batch, layer: int) -> FloatArray:
        """(n, D) normed input -> (n, D); appends to every span's state of this layer."""
        ops, hp = self.ops, self.config.hp
        turns = batch.compressed_turns if self.ratio else batch.turns
        low_rank_query = ops.rms_norm(ops.linear(x, self.query_down), self.query_norm, hp.rms_epsilon)
        queries = ops.query(ops.linear(low_rank_query, self.query_up), hp.num_heads, turns, hp.rms_epsilon)
        rows = ops.kv_rows(ops.linear(x, self.kv), self.kv_norm, turns, hp.rms_epsilon, self.format)
        compressor_inputs = self.compressor.inputs(x) if self.compressor else None
        index_inputs = self.indexer.inputs(x, low_rank_query, batch) if self.indexer else None

        visible = self._visible(compressor_inputs, index_inputs, batch, layer)
        heads = ops.attend(batch.spans, layer, queries, rows, self.format, visible, self.sinks, turns)
        return ops.linear(ops.grouped_linear(heads, self.output_groups, hp.num_output_groups), self.output)

    def _visible(
        self,
        compressor_inputs: tuple[FloatArray, FloatArray] | None,
        index_inputs: IndexInputs | None,
        batch: Batch,
        layer: int,
    ) -> Visible:
        """Finish the compressed rows of all spans, and say what each query may see."""
        window = self.config.hp.sliding_window
        if self.compressor is None or compressor_inputs is None:
            return Visible(batch.positions, window)
        self.compressor.extend(compressor_inputs, batch, layer)
        picked = None
        if self.indexer is not None and index_inputs is not None:
            picked = self.indexer.pick(index_inputs, batch, layer)
        return Visible(batch.positions, window, batch.windows[self.ratio].counts, picked)
