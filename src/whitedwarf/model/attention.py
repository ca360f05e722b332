"""Attention over a short exact window and compressed rows of everything before (fact sheet 2.3).

One key-value row per token serves all heads, and is key and value at once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from whitedwarf.model.batch import Batch
from whitedwarf.model.compressor import Compressor
from whitedwarf.model.config import ModelConfig
from whitedwarf.model.indexer import Indexer
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
        indexer = self.indexer if self.indexer is not None and self.indexer.has_choice(batch) else None
        low_rank_query, kv, *inputs = ops.linears(x, (*self.projections, *((indexer.head_weights,) if indexer else ())))
        query_ups = (self.query_up, *((indexer.query,) if indexer else ()))
        ups = ops.linears(low_rank_query, query_ups, self.query_norm, hp.rms_epsilon)
        queries = ops.query(ups.pop(0), hp.num_heads, turns, hp.rms_epsilon)  # popped: nobody holds it any longer
        rows = ops.kv_rows(kv, self.kv_norm, turns, hp.rms_epsilon, self.format)

        self._extend(inputs, batch, layer)
        picked = indexer.pick(ups[0], inputs[-1], batch, layer) if indexer else None
        visible = Visible(batch.positions, hp.sliding_window)
        if self.ratio:
            windows = batch.windows[self.ratio]
            visible = Visible(batch.positions, hp.sliding_window, windows.counts, picked, windows.most)
        heads = ops.attend(batch.spans, layer, queries, rows, self.format, visible, self.sinks, turns)
        return ops.grouped_then_linear(heads, self.output_groups, hp.num_output_groups, self.output)

    @property
    def projections(self) -> tuple[Weight, ...]:
        """What every pass needs of its input: the query's and the row's, then values and gates of each compressor."""
        pools = (weight for compressor in self._compressors for weight in (compressor.values, compressor.gates))
        return (self.query_down, self.kv, *pools)

    def _extend(self, inputs: Sequence[FloatArray], batch: Batch, layer: int) -> None:
        """Finish the compressed rows and index keys of all spans."""
        for compressor, values, gates in zip(self._compressors, inputs[::2], inputs[1::2], strict=False):
            compressor.extend(values, gates, batch, layer)

    @property
    def _compressors(self) -> Iterator[Compressor]:
        if self.compressor is not None:
            yield self.compressor
        if self.indexer is not None:
            yield self.indexer.compressor
