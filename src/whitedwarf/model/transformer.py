"""DeepSeek V4, written once: embed -> layers -> head, over the rows of any spans at once (fact sheet 2).

Knows arrays and operations only: no text, no files beyond the tensors it is given, no backend by name.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np

from whitedwarf.model.base import Logits, Span
from whitedwarf.model.batch import Batch, Observer
from whitedwarf.model.config import ModelConfig
from whitedwarf.model.layer import Layer, Streams
from whitedwarf.model.parameters import Parameters
from whitedwarf.model.rope import Rope
from whitedwarf.model.state import SequenceState
from whitedwarf.model.steering import NO_EDITS, Steering
from whitedwarf.ops.base import FloatArray, HyperHeadWeights, Ops, Weight
from whitedwarf.weights.tensors import TensorMap


@dataclass(frozen=True, slots=True)
class Transformer:
    """A loaded model. Immutable: everything that changes lives in the sequences' states."""

    ops: Ops
    config: ModelConfig
    plain_rope: Rope
    compressed_rope: Rope
    embedding: Weight  # (V, D)
    layers: tuple[Layer, ...]
    head_hyper: HyperHeadWeights
    head: Weight  # (V, D)
    steering: Steering | None = None

    @classmethod
    def load(cls, tensors: TensorMap, config: ModelConfig, ops: Ops) -> "Transformer":
        params = Parameters(tensors, ops)
        layers = tuple(Layer.load(params.below(f"blk.{plan.index}."), config, plan) for plan in config.layers)
        return cls(
            ops=ops,
            config=config,
            plain_rope=Rope.plain(config.hp),
            compressed_rope=Rope.compressed(config.hp),
            embedding=params.matrix("token_embd"),
            layers=layers,
            head_hyper=params.hyper_head("output_hc", "output_norm"),
            head=params.matrix("output"),
        )

    def steered(self, steering: Steering | None) -> "Transformer":
        """The same weights under this steering instead of its own: another model, whose states are not this one's."""
        edits = [NO_EDITS if steering is None else steering.edits(layer.index) for layer in self.layers]
        edits = [edit.taken_in(self.ops) for edit in edits]
        layers = tuple(replace(layer, edits=edit) for layer, edit in zip(self.layers, edits, strict=True))
        return replace(self, layers=layers, steering=steering)

    def new_state(self) -> SequenceState:
        return SequenceState(self.config, self.config.hp.compress_ratios, self.ops.memory)

    def forward(self, spans: Sequence[Span], observe: Observer | None = None) -> list[Logits]:
        """Run all spans in one pass; see model/base.py."""
        batch = self._batch(spans, observe)
        logits = self.ops.host(self.ops.passing(self._logits, batch)).astype(np.float32, copy=False)
        for part in batch.parts:
            part.state.advance(part.num_tokens)
        ends = accumulate(map(len, batch.wanted))
        return [logits[end - len(rows) : end] for rows, end in zip(batch.wanted, ends, strict=True)]

    def streams(self, batch: Batch) -> FloatArray:
        """The four streams of every row after the last layer (n, S, D)."""
        embedded = self.ops.embed(self.embedding, batch.ids)
        open_streams = Streams(self.ops.spread(embedded, self.config.hp.hc_streams))
        for layer in self.layers:
            open_streams = layer.forward(open_streams, batch)
        streams = open_streams.whole(self.ops)
        batch.watch("streams", len(self.layers), streams)
        return streams

    def _batch(self, spans: Sequence[Span], observe: Observer | None) -> Batch:
        if not spans or any(len(span.ids) == 0 for span in spans):
            raise ValueError("a forward pass needs at least one span, and every span at least one token")
        if len({id(span.state) for span in spans}) != len(spans):
            raise ValueError("two spans of one pass share a state: join them into one span")
        ropes = self.plain_rope, self.compressed_rope
        return Batch.of(spans, self.ops, *ropes, self.config.vocab_size, observe)

    def _logits(self, batch: Batch) -> FloatArray:
        """Head over the wanted rows only, all spans in one product (2.8): (wanted, V), the backend's."""
        streams, wanted = self.streams(batch), batch.wanted_rows
        if not wanted:
            return np.empty((0, self.config.vocab_size), np.float32)
        if len(wanted) < len(streams):
            streams = self.ops.take_rows(streams, wanted)
        mixed = self.ops.hyper_head(streams, self.head_hyper, self.config.hyper)
        batch.watch("head_input", len(self.layers), mixed)
        return self.ops.linear(mixed, self.head)
