"""Attention over a short exact window and compressed rows of everything before (fact sheet 2.3).

One key-value row per token serves all heads, and is key and value at once.
"""

from dataclasses import dataclass

import numpy as np

from whitedwarf.model.batch import Batch, Part
from whitedwarf.model.compressor import Compressor, visible_rows
from whitedwarf.model.config import ModelConfig
from whitedwarf.model.indexer import Indexer, IndexInputs
from whitedwarf.model.parameters import Parameters
from whitedwarf.model.rope import Rope
from whitedwarf.model.state import LayerState
from whitedwarf.ops.base import ByteArray, FloatArray, Ops, Rows, Visible, Weight


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
    ratio: int
    compressor: Compressor | None
    indexer: Indexer | None

    @classmethod
    def load(cls, params: Parameters, config: ModelConfig, ratio: int, rope: Rope) -> "Attention":
        epsilon = config.hp.rms_epsilon
        compressor = indexer = None
        if ratio:
            compressor = Compressor.load(params, "attn_compressor", ratio, config.kv_format, rope, epsilon)
        if ratio == 4:
            indexer = Indexer.load(params, config, ratio, rope)
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
        rows = ops.kv_rows(ops.linear(x, self.kv), self.kv_norm, turns, hp.rms_epsilon, self.config.kv_format)
        compressor_inputs = self.compressor.inputs(x) if self.compressor else None
        index_inputs = self.indexer.inputs(x, low_rank_query, batch) if self.indexer else None

        heads = np.empty((len(x), hp.num_heads * hp.head_dim), x.dtype)
        for part, state in batch.layer_states(layer):
            window = self._extend_window(part, state, rows)
            compressed, visible = self._compressed(batch, part, state, compressor_inputs, index_inputs, layer)
            heads[part.rows] = ops.attention(
                queries[part.rows], window, compressed, visible, self.sinks, turns[part.rows]
            )
        return ops.linear(ops.grouped_linear(heads, self.output_groups, hp.num_output_groups), self.output)

    def _extend_window(self, part: Part, state: LayerState, rows: ByteArray) -> Rows:
        data, first = state.window.extend(part.start, rows[part.rows])
        return Rows(self.config.kv_format, data, first)

    def _compressed(
        self,
        batch: Batch,
        part: Part,
        state: LayerState,
        compressor_inputs: tuple[FloatArray, FloatArray] | None,
        index_inputs: IndexInputs | None,
        layer: int,
    ) -> tuple[Rows | None, Visible]:
        """Finish the span's compressed rows, and say what each of its queries may see."""
        positions, window = batch.positions[part.rows], self.config.hp.sliding_window
        if self.compressor is None or state.compressor is None or compressor_inputs is None:
            return None, Visible(positions, window)
        compressed = self.compressor.extend(part, state.compressor, compressor_inputs)
        counts = visible_rows(batch, part, self.ratio)
        picked = None
        if self.indexer is not None and state.indexer is not None and index_inputs is not None:
            picked = self.indexer.pick(part, state.indexer, index_inputs, counts)
            if picked is not None:
                batch.watch("index_picked", layer, picked)
        return compressed, Visible(positions, window, counts, picked)
