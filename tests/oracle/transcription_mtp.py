"""The multi-token-prediction block of spec/model.md 2.9 in float64, one position at a time.

Promises: the pairing of training, which vLLM uses: at position p the block reads the main model's streams of position p
and the embedding of token p + 1, turns by p, and predicts token p + 2. Its window cache is its own and sees the prompt.
Does not know: how drafts are verified. vLLM besides zeroes the embedding at position 0; `zero_first_embedding` says
whether to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from oracle.transcription import (
    PLAIN_WINDOW,
    Array,
    Layer,
    LayerState,
    Model,
    Run,
    Trace,
    block,
    embedding,
    forward,
    head_input,
    normed,
)

PREFIX = "mtp.0."


@dataclass(slots=True)
class MtpState:
    layer: LayerState = field(default_factory=LayerState)
    trace: Trace = field(default_factory=Trace)


@dataclass(frozen=True, slots=True)
class Prediction:
    streams: Array  # (streams, hidden), leaving the block: what a recursive step reads
    logits: Array  # (vocab,)


def with_mtp(model: Model, mtp_weights: Mapping[str, Array]) -> Model:
    return replace(model, weights={**model.weights, **mtp_weights})


def mtp_layer(model: Model) -> Layer:
    n = model.numbers
    return Layer(PREFIX, PLAIN_WINDOW, False, n.clamp_routed[-1], n.clamp_shared[-1])


def mtp_input(model: Model, streams: Array, embedded: Array) -> Array:
    """(streams, hidden): the token's part is the same for every stream, the state's part is not."""
    token_part = model.weights[f"{PREFIX}e_proj.weight"] @ normed(model, embedded, f"{PREFIX}enorm.weight")
    state_part = normed(model, streams, f"{PREFIX}hnorm.weight") @ model.weights[f"{PREFIX}h_proj.weight"].T
    return token_part + state_part


def mtp_step(
    model: Model, state: MtpState, streams: Array, next_token: int, position: int, zero_first_embedding: bool = False
) -> Prediction:
    embedded = embedding(model, next_token)
    if zero_first_embedding and position == 0:
        embedded = np.zeros_like(embedded)
    x = mtp_input(model, streams, embedded)
    out = block(model, mtp_layer(model), state.layer, state.trace, x, next_token, position)
    final = head_input(model, out, f"{PREFIX}hc_head", f"{PREFIX}norm.weight")
    return Prediction(out, model.weights["output.weight"] @ final)


def mtp_forward(
    model: Model, state: MtpState, run: Run, ids: Sequence[int] | Array, zero_first_embedding: bool = False
) -> list[Prediction]:
    """One prediction for every position of `ids` that has a successor; `run` is the main model's run over `ids`."""
    streams = run.streams()[-1]
    return [mtp_step(model, state, streams[p], int(ids[p + 1]), p, zero_first_embedding) for p in range(len(ids) - 1)]


def draft(model: Model, ids: Sequence[int] | Array, count: int) -> list[int]:
    """The main model's next token, then `count` drafts, each from the streams that the block itself left behind."""
    run = forward(model, ids)
    state = MtpState()
    mtp_forward(model, state, run, ids)
    tokens = [int(np.argmax(run.logits[-1]))]
    streams = run.streams()[-1, -1]
    for offset in range(count):
        prediction = mtp_step(model, state, streams, tokens[-1], len(ids) - 1 + offset)
        tokens.append(int(np.argmax(prediction.logits)))
        streams = prediction.streams
    return tokens
