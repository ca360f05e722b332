"""DeepSeek V4, written once: embed -> layers -> head, over the rows of any spans at once (fact sheet 2).

A process may hold only a part of it: consecutive layers, the embedding with the first, the head with the last. Then the
streams between them come in and go out. Knows arrays and operations only: no text, no files beyond the tensors it is
given, no backend by name.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import numpy as np

from whitedwarf.model.base import Logits, Pace, Span
from whitedwarf.model.batch import Batch, Note, Observer
from whitedwarf.model.config import ModelConfig
from whitedwarf.model.layer import Layer, Streams
from whitedwarf.model.packed_session import PackedArrays
from whitedwarf.model.parameters import Parameters
from whitedwarf.model.rope import Rope
from whitedwarf.model.saved_states import ArraysKind
from whitedwarf.model.session_payload import SessionArrays
from whitedwarf.model.state import SequenceState
from whitedwarf.model.steering import NO_EDITS, Steering
from whitedwarf.ops.base import FloatArray, HyperHeadWeights, Ops, Weight
from whitedwarf.weights.tensors import TensorMap


@dataclass(frozen=True, slots=True)
class Passed:
    """What a pass through a part of the model gave: `streams` (n, S, D) for the next part or, from the last one, the
    wanted logits span by span."""

    streams: FloatArray | None = None
    logits: tuple[Logits, ...] = ()


@dataclass(frozen=True, slots=True)
class Transformer:
    """A loaded model, or a part of one. Immutable: everything that changes lives in the sequences' states."""

    ops: Ops
    config: ModelConfig
    plain_rope: Rope
    compressed_rope: Rope
    embedding: Weight | None  # (V, D), with layer 0
    layers: tuple[Layer, ...]  # those held here, one after the other
    head_hyper: HyperHeadWeights | None  # with the last layer, like the head
    head: Weight | None  # (V, D)
    steering: Steering | None = None

    @classmethod
    def load(cls, tensors: TensorMap, config: ModelConfig, ops: Ops, held: range | None = None) -> "Transformer":
        """Only the tensors of the layers `held` are touched; None = all layers."""
        params = Parameters(tensors, ops)
        plans = config.layers if held is None else config.layers[held.start : held.stop]
        layers = tuple(Layer.load(params.below(f"blk.{plan.index}."), config, plan) for plan in plans)
        has_head = plans[-1].index == config.hp.num_layers - 1
        return cls(
            ops=ops,
            config=config,
            plain_rope=Rope.plain(config.hp),
            compressed_rope=Rope.compressed(config.hp),
            embedding=params.matrix("token_embd") if plans[0].index == 0 else None,
            layers=layers,
            head_hyper=params.hyper_head("output_hc", "output_norm") if has_head else None,
            head=params.matrix("output") if has_head else None,
        )

    @property
    def held(self) -> range:
        """The numbers of the layers that are here."""
        return range(self.layers[0].index, self.layers[-1].index + 1)

    def steered(self, steering: Steering | None) -> "Transformer":
        """The same weights under this steering instead of its own: another model, whose states are not this one's."""
        edits = [NO_EDITS if steering is None else steering.edits(layer.index) for layer in self.layers]
        edits = [edit.taken_in(self.ops) for edit in edits]
        layers = tuple(replace(layer, edits=edit) for layer, edit in zip(self.layers, edits, strict=True))
        return replace(self, layers=layers, steering=steering)

    def new_state(self) -> SequenceState:
        """Of the layers that are here."""
        return SequenceState(self.config, self.config.hp.compress_ratios, self.ops.memory, self.held)

    def forward(
        self,
        spans: Sequence[Span],
        observe: Observer | None = None,
        pace: Pace | None = None,
        note: Note | None = None,
    ) -> list[Logits]:
        """Run all spans in one pass; see model/base.py. ValueError where only a part of the model is here."""
        if self.embedding is None or self.head is None:
            raise ValueError(f"{self._part_text}: run a pass with `forward_part`")
        batch = replace(self._batch(spans, observe), pace=pace, note=note)
        return self._split(batch, self.ops.passing(self._logits, batch))

    def forward_at_pace(self, spans: Sequence[Span], pace: Pace) -> list[Logits]:
        """See model/base.py, PaceableModel."""
        return self.forward(spans, pace=pace)

    def forward_part(
        self, spans: Sequence[Span], entering: FloatArray | None = None, pace: Pace | None = None
    ) -> Passed:
        """Run all spans through the layers that are here, with `pace` after each. States advance together at the end.

        `entering` (n, S, D) f32, numpy's: the streams after the layers before, given up by the caller; None where the
        first layer is here.
        """
        if (entering is None) != (self.embedding is not None):
            wanted = "streams of the layers before" if entering is None else "no streams, layer 0 is here"
            raise ValueError(f"{self._part_text}: expected {wanted}")
        batch = replace(self._batch(spans, None, entering), pace=pace)
        if self.head is not None:
            return Passed(logits=tuple(self._split(batch, self.ops.passing(self._logits, batch))))
        streams = self.ops.host(self.ops.passing(self.streams, batch)).astype(np.float32, copy=False)
        _advance(batch)
        return Passed(streams)

    @property
    def arithmetic(self) -> str:
        """See model/saved_states.py."""
        return self.ops.name

    def with_context(self, context_length: int) -> "Transformer":
        """The same weights with another limit."""
        return replace(self, config=replace(self.config, max_context=context_length))

    def state_arrays(self, kind: ArraysKind) -> SessionArrays | PackedArrays:
        """What takes states of this model apart, and puts them together."""
        return SessionArrays(self) if kind == "plain" else PackedArrays(self)

    def streams(self, batch: Batch) -> FloatArray:
        """The four streams of every row after the last layer (n, S, D)."""
        open_streams = Streams(self._entering(batch))
        for layer in self.layers:
            open_streams = layer.forward(open_streams, batch)
            batch.end_layer(layer.index, open_streams.added)
        streams = open_streams.whole(self.ops)
        batch.watch("streams", self.held.stop, streams)
        return streams

    def _entering(self, batch: Batch) -> FloatArray:
        """The streams before the first layer that is here, as the backend's."""
        if self.embedding is not None:
            embedded = self.ops.embed(self.embedding, batch.ids)
            return self.ops.spread(embedded, self.config.hp.hc_streams)
        assert batch.entering is not None
        shape = len(batch.entering), self.config.hp.hc_streams, self.config.hp.hidden_size
        flat = batch.entering.reshape(len(batch.entering), -1)
        entered: FloatArray = self.ops.memory(self.held.start).to_device(flat).reshape(shape)
        return entered

    def _batch(self, spans: Sequence[Span], observe: Observer | None, entering: FloatArray | None = None) -> Batch:
        if not spans or any(len(span.ids) == 0 for span in spans):
            raise ValueError("a forward pass needs at least one span, and every span at least one token")
        if len({id(span.state) for span in spans}) != len(spans):
            raise ValueError("two spans of one pass share a state: join them into one span")
        hp, num_rows = self.config.hp, sum(len(span.ids) for span in spans)
        wanted = num_rows, hp.hc_streams, hp.hidden_size
        if entering is not None and (entering.shape != wanted or entering.dtype != np.float32):
            raise ValueError(f"expected streams {wanted} of float32, got {entering.shape} of {entering.dtype}")
        ropes = self.plain_rope, self.compressed_rope
        return Batch.of(spans, self.ops, *ropes, self.config.vocab_size, observe, entering)

    def _logits(self, batch: Batch) -> FloatArray:
        """Head over the wanted rows only, all spans in one product (2.8): (wanted, V), the backend's."""
        streams, wanted = self.streams(batch), batch.wanted_rows
        if batch.note is not None:
            batch.note(streams)
        if not wanted:
            return np.empty((0, self.config.vocab_size), np.float32)
        assert self.head is not None
        assert self.head_hyper is not None
        if len(wanted) < len(streams):
            streams = self.ops.take_rows(streams, wanted)
        mixed = self.ops.hyper_head(streams, self.head_hyper, self.config.hyper)
        batch.watch("head_input", self.held.stop, mixed)
        return self.ops.linear(mixed, self.head)

    def _split(self, batch: Batch, rows: FloatArray) -> list[Logits]:
        """The logits span by span; the pass has ended."""
        logits = self.ops.host(rows).astype(np.float32, copy=False)
        _advance(batch)
        ends = accumulate(map(len, batch.wanted))
        return [logits[end - len(rows) : end] for rows, end in zip(batch.wanted, ends, strict=True)]

    @property
    def _part_text(self) -> str:
        return f"layers {self.held.start} to {self.held.stop - 1} of {self.config.hp.num_layers} are here"


def _advance(batch: Batch) -> None:
    for part in batch.parts:
        part.state.advance(part.num_tokens)
