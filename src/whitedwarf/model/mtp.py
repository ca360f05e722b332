"""The multi-token-prediction block: from the streams at position p and the token at p+1, the logits for p+2 (2.9).

Pairing follows the training convention (vLLM, llama.cpp): feed it the whole prompt so that its own window is warm. It
shares the embedding and the head with the main model and keeps a window-only state of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from whitedwarf.model.base import Logits, Span
from whitedwarf.model.batch import Batch
from whitedwarf.model.layer import Layer, Streams
from whitedwarf.model.parameters import Parameters
from whitedwarf.model.state import SequenceState
from whitedwarf.model.transformer import Transformer
from whitedwarf.ops.base import FloatArray, HyperHeadWeights, Weight
from whitedwarf.weights.tensors import TensorMap

PREFIX = "mtp.0."


@dataclass(frozen=True, slots=True)
class MtpOutput:
    """Logits of the next token but one, and the streams from which the block can draft further."""

    logits: Logits  # (n, V)
    streams: FloatArray  # (n, S, D)


@dataclass(frozen=True, slots=True)
class MtpBlock:
    """Weights of one MTP block beside its main model."""

    main: Transformer
    embedding: Weight  # the main model's, like the head
    head: Weight
    embedding_projection: Weight  # (D, D)
    streams_projection: Weight  # (D, D)
    embedding_norm: FloatArray  # (D,)
    streams_norm: FloatArray  # (D,)
    layer: Layer
    head_hyper: HyperHeadWeights

    @classmethod
    def load(cls, tensors: TensorMap, main: Transformer) -> "MtpBlock":
        params = Parameters(tensors, main.ops, PREFIX)
        if main.embedding is None or main.head is None:
            raise ValueError("an MTP block drafts for a whole model, and only a part of one is here")
        return cls(
            main=main,
            embedding=main.embedding,
            head=main.head,
            embedding_projection=params.matrix("e_proj"),
            streams_projection=params.matrix("h_proj"),
            embedding_norm=params.vector("enorm"),
            streams_norm=params.vector("hnorm"),
            layer=Layer.load(params, main.config, main.config.mtp_layer),
            head_hyper=params.hyper_head("hc_head", "norm"),
        )

    def new_state(self) -> SequenceState:
        return SequenceState(self.main.config, (0,), self.main.ops.memory)

    def forward(self, spans: Sequence[Span], streams: FloatArray) -> MtpOutput:
        """spans: the tokens at p+1 with this block's own states; streams (n, S, D): the main model's rows at p."""
        return self._output(self._streams(spans, streams))

    def forward_last(self, spans: Sequence[Span], streams: FloatArray) -> MtpOutput:
        """The same, of each span's last token only: (spans, V) and (spans, S, D)."""
        after, ends = self._streams(spans, streams), np.cumsum([len(span.ids) for span in spans])
        return self._output(self.main.ops.take_rows(after, (ends - 1).tolist()) if len(after) > len(spans) else after)

    def _streams(self, spans: Sequence[Span], streams: FloatArray) -> FloatArray:
        main = self.main
        batch = Batch.of(spans, main.ops, main.plain_rope, main.compressed_rope, main.config.vocab_size)
        after = self.layer.forward(Streams(self._join(batch, streams)), batch).whole(main.ops)
        for part in batch.parts:
            part.state.advance(part.num_tokens)
        return after

    def _output(self, streams: FloatArray) -> MtpOutput:
        main = self.main
        mixed = main.ops.hyper_head(streams, self.head_hyper, main.config.hyper)
        logits = main.ops.host(main.ops.linear(mixed, self.head))
        return MtpOutput(logits.astype(np.float32, copy=False), streams)

    def _join(self, batch: Batch, streams: FloatArray) -> FloatArray:
        """Token and state, normed and projected, added in every stream."""
        ops, epsilon = self.main.ops, self.main.config.hp.rms_epsilon
        embedded = ops.rms_norm(ops.embed(self.embedding, batch.ids), self.embedding_norm, epsilon)
        token = ops.linear(embedded, self.embedding_projection)
        flat = ops.rms_norm(streams.reshape(-1, streams.shape[-1]), self.streams_norm, epsilon)
        projected = ops.linear(flat, self.streams_projection)
        return token[:, None, :] + projected.reshape(streams.shape)
