"""How likely given tokens are after given others: teacher forcing.

Known tokens are fed one after the other, and each is judged by the logits that all before it gave.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from whitedwarf.model.base import Logits, Model, Span

ROWS = 128  # of logits at a time: each is a whole vocabulary wide

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Forced:
    """What became of each forced token: minus its log-probability (n,), and whether it was the likeliest (n,)."""

    nll: Floats
    is_likeliest: Bools


def forced(model: Model, prompt: Sequence[int], targets: Sequence[int], chunk_tokens: int) -> Forced:
    """Judge `targets` after `prompt`; neither is empty."""
    nll, likeliest = [], []
    for first, logits in forced_logits(model, prompt, targets, chunk_tokens):
        wanted = np.array(targets[first : first + len(logits)])
        nll.append(nll_of(logits, wanted))
        likeliest.append(logits.argmax(axis=1) == wanted)
    return Forced(np.concatenate(nll), np.concatenate(likeliest))


def forced_logits(
    model: Model, prompt: Sequence[int], targets: Sequence[int], chunk_tokens: int
) -> Iterator[tuple[int, Logits]]:
    """The logits that predict `targets`, some rows at a time, with the number of the first target each time."""
    if not prompt or not targets:
        raise ValueError("expected a prompt and targets")
    state, ids = model.new_state(), np.array([*prompt, *targets], np.int32)
    first = len(prompt) - 1  # the last token of the prompt predicts the first target
    for start in range(0, first, chunk_tokens):
        model.forward([Span(state, ids[start : min(first, start + chunk_tokens)], "none")])
    rows = min(chunk_tokens, ROWS)
    for start in range(first, len(ids) - 1, rows):
        yield start - first, model.forward([Span(state, ids[start : min(len(ids) - 1, start + rows)], "all")])[0]


def nll_of(logits: Logits, targets: npt.NDArray[np.int_]) -> Floats:
    """Minus log-softmax at `targets`, (rows,) float64."""
    values = logits.astype(np.float64)
    top = values.max(axis=1)
    log_total = top + np.log(np.exp(values - top[:, None]).sum(axis=1))
    return np.asarray(log_total - values[np.arange(len(targets)), targets])


def log_softmax(logits: npt.NDArray[np.float32]) -> Floats:
    """Of one row (vocab,), float64."""
    values = logits.astype(np.float64)
    values -= values.max()
    return np.asarray(values - np.log(np.exp(values).sum()))
