"""Prefill and decode speed at growing context lengths of one sequence, straight on the model.

Protocol: fixed random ids, one warm-up pass, then per frontier the prefill of the new span (timed), a snapshot (not
timed), single-token decodes (each timed), and back to the snapshot. Medians and spread are over tokens.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median, quantiles
from time import perf_counter

import numpy as np

from whitedwarf.model.base import Ids, Span
from whitedwarf.model.state import SequenceState
from whitedwarf.model.transformer import Transformer

SEED = 20260521


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure."""

    frontiers: tuple[int, ...]  # context lengths, ascending
    decode_tokens: int
    chunk_tokens: int


@dataclass(frozen=True, slots=True)
class Sample:
    """What one frontier gave."""

    context_tokens: int
    prefill_tokens: int
    prefill_s: float
    decode_s: tuple[float, ...]  # one per token
    kv_bytes: int

    @property
    def prefill_tokens_per_s(self) -> float:
        return self.prefill_tokens / self.prefill_s

    @property
    def decode_median_s(self) -> float:
        return median(self.decode_s)

    @property
    def decode_quartiles_s(self) -> tuple[float, float]:
        """The quarter and three-quarter points of the per-token times."""
        low, _, high = quantiles(self.decode_s, n=4) if len(self.decode_s) > 1 else [self.decode_s[0]] * 3
        return low, high


def measure(model: Transformer, plan: Plan, progress: Callable[[int], None] = lambda _: None) -> Iterator[Sample]:
    """Walk the frontiers; `progress` gets the context length reached."""
    ids = np.random.default_rng(SEED).integers(0, model.config.vocab_size, plan.frontiers[-1]).astype(np.int32)
    _warm_up(model, ids[: min(len(ids), plan.chunk_tokens)])
    state, start = model.new_state(), 0
    for frontier in plan.frontiers:
        prefill_s = _prefill(model, state, ids[start:frontier], plan.chunk_tokens)
        progress(frontier)
        snapshot = state.snapshot()
        decode_s = tuple(_decode(model, state, plan.decode_tokens))
        yield Sample(frontier, frontier - start, prefill_s, decode_s, snapshot.size_bytes)
        state.restore(snapshot)
        start = frontier


def _warm_up(model: Transformer, ids: Ids) -> None:
    state = model.new_state()
    model.forward([Span(state, ids)])
    for _ in _decode(model, state, 2):
        pass


def _prefill(model: Transformer, state: SequenceState, ids: Ids, chunk: int) -> float:
    start = perf_counter()
    for i in range(0, len(ids), chunk):
        is_last = i + chunk >= len(ids)
        model.forward([Span(state, ids[i : i + chunk], "last" if is_last else "none")])
    return perf_counter() - start


def _decode(model: Transformer, state: SequenceState, num_tokens: int) -> Iterator[float]:
    token = np.array([1], np.int32)
    for _ in range(num_tokens):
        start = perf_counter()
        logits = model.forward([Span(state, token)])[0]
        token = logits.argmax(axis=1).astype(np.int32)
        yield perf_counter() - start
