"""Prefill and decode speed at growing context lengths of one sequence, straight on the model.

Protocol: one warm-up pass; then per frontier, `repeats` times from the snapshot before it: the prefill of the new span
(timed), a snapshot (not timed), greedy single-token decodes that never take the end of the answer (each timed). Medians
and spread are over tokens. Knows ids, no text.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter

import numpy as np

from whitedwarf.bench.layers import LayerClock, LayerTimes, medians, totals
from whitedwarf.bench.spread import quartiles
from whitedwarf.engine.ledger import total_bytes
from whitedwarf.model.base import Ids, Logits, Span, State
from whitedwarf.model.deepseek import DeepSeek

SEED = 20260521
OBSERVED_TOKENS = 16  # decoded once more per repetition, with a clock in every layer

Progress = Callable[[int], None]
Watcher = Callable[[int, Logits], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure. `ids` reach at least to the last frontier; `end_id` is never drawn."""

    frontiers: tuple[int, ...]  # context lengths, ascending
    decode_tokens: int  # 0: prefill only
    chunk_tokens: int
    ids: Ids
    end_id: int | None = None
    repeats: int = 1
    has_clock: bool = True  # in every layer; on a device a look at each layer would cost more than the layer


@dataclass(frozen=True, slots=True)
class Sample:
    """What one frontier gave; times one per repetition, those of decode one per token."""

    context_tokens: int
    prefill_tokens: int
    prefill_s: tuple[float, ...]
    decode_s: tuple[float, ...]
    kv_bytes: int
    prefill_layers: LayerTimes | None = None  # of the whole prefill
    decode_layers: LayerTimes | None = None  # of one token

    @property
    def prefill_median_s(self) -> float:
        return median(self.prefill_s)

    @property
    def prefill_tokens_per_s(self) -> float:
        return self.prefill_tokens / self.prefill_median_s

    @property
    def decode_median_s(self) -> float | None:
        """None where nothing was decoded."""
        return median(self.decode_s) if self.decode_s else None

    @property
    def decode_quartiles_s(self) -> tuple[float, float] | None:
        """The quarter and three-quarter points of the per-token times."""
        return quartiles(self.decode_s) if self.decode_s else None


def random_ids(vocab_size: int, count: int) -> Ids:
    """The ids measured with where no text is given: every run the same, every token as likely."""
    return np.random.default_rng(SEED).integers(0, vocab_size, count).astype(np.int32)


def measure(
    model: DeepSeek,
    plan: Plan,
    progress: Progress = lambda _: None,
    watch: Watcher = lambda context_tokens, logits: None,
) -> Iterator[Sample]:
    """Walk the frontiers; `progress` gets the context length reached, `watch` each frontier's logits (1, vocab)."""
    _warm_up(model, plan)
    state, start = model.new_state(), 0
    for frontier in plan.frontiers:
        sample, logits = _measure_frontier(model, plan, state, plan.ids[start:frontier])
        progress(frontier)
        watch(frontier, logits)
        yield sample
        start = frontier


def _measure_frontier(model: DeepSeek, plan: Plan, state: State, ids: Ids) -> tuple[Sample, Logits]:
    """Leaves the state at the frontier, whatever was decoded there."""
    before = state.snapshot()
    prefill_s, decode_s, prefills, decode_clock = [], [], [], LayerClock()
    for _ in range(plan.repeats):
        state.restore(before)
        clock = LayerClock()
        seconds, logits = prefill(model, state, ids, plan.chunk_tokens, clock if plan.has_clock else None)
        prefill_s.append(seconds)
        prefills += [totals(clock.passes)] if plan.has_clock else []
        reached = state.snapshot()
        decode_s += _decode(model, state, logits, plan.decode_tokens, plan.end_id)
        state.restore(reached)
        if plan.has_clock:
            _decode(model, state, logits, min(plan.decode_tokens, OBSERVED_TOKENS), plan.end_id, decode_clock)
            state.restore(reached)
    times = (tuple(prefill_s), tuple(decode_s), total_bytes(reached))
    layers = (medians(prefills), medians(decode_clock.passes) if decode_s else None) if plan.has_clock else (None, None)
    return Sample(state.position, len(ids), *times, *layers), logits


def _warm_up(model: DeepSeek, plan: Plan) -> None:
    """A whole chunk, so that no page of the weights is met for the first time within a window."""
    state = model.new_state()
    _, logits = prefill(model, state, plan.ids[: plan.chunk_tokens], plan.chunk_tokens)
    _decode(model, state, logits, min(plan.decode_tokens, 2), plan.end_id)


def prefill(
    model: DeepSeek, state: State, ids: Ids, chunk: int, clock: LayerClock | None = None
) -> tuple[float, Logits]:
    """Seconds for `ids`, chunk by chunk, and the logits after the last one (1, vocab)."""
    logits: Sequence[Logits] = ()
    start = perf_counter()
    for i in range(0, len(ids), chunk):
        is_last = i + chunk >= len(ids)
        span = Span(state, ids[i : i + chunk], "last" if is_last else "none")
        logits = _pass(model, span, clock)
    return perf_counter() - start, logits[0]


def _pass(model: DeepSeek, span: Span, clock: LayerClock | None) -> Sequence[Logits]:
    if clock is None:
        return model.forward([span])
    clock.begin()
    logits = model.forward([span], clock)
    clock.end()
    return logits


def _decode(
    model: DeepSeek,
    state: State,
    logits: Logits,
    num_tokens: int,
    end_id: int | None,
    clock: LayerClock | None = None,
) -> list[float]:
    seconds = []
    token = _likeliest(logits, end_id)
    for _ in range(num_tokens):
        start = perf_counter()
        (logits,) = _pass(model, Span(state, token), clock)
        token = _likeliest(logits, end_id)
        seconds.append(perf_counter() - start)
    return seconds


def _likeliest(logits: Logits, end_id: int | None) -> Ids:
    """Leaves the logits (1, vocab) as they are, without a copy of them: it is timed."""
    row = logits[0]
    best = int(row.argmax())
    if best == end_id:
        kept, row[best] = row[best], -np.inf
        second = int(row.argmax())
        row[best] = kept
        best = second
    return np.array([best], np.int32)
