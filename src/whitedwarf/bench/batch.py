"""Decode of several sequences in one pass: what a step costs, and what it reads.

All sequences continue the same beginning, restored from one snapshot, with random ids of their own, so that routers
and indexers pick differently. Numbers of sequences take turns within a round, and every round begins at the same depth.
What is read follows from the experts that the routers picked, noted in steps that are not timed.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import mean, median
from time import perf_counter

import numpy as np

from whitedwarf.bench.speed import SEED, prefill
from whitedwarf.bench.spread import quartiles
from whitedwarf.model.base import Ids, Snapshot, Span, State
from whitedwarf.model.deepseek import DeepSeek

PICK_STEPS = 4


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """What to measure. Step counts are of one round."""

    sizes: tuple[int, ...]  # sequences together
    depth: int
    steps: int
    repeats: int
    chunk_tokens: int


@dataclass(frozen=True, slots=True)
class BatchSample:
    """What steps of so many sequences gave."""

    sequences: int
    step_s: tuple[float, ...]
    distinct_experts: tuple[float, ...]  # in each layer, the mean over steps

    @property
    def median_s(self) -> float:
        return median(self.step_s)

    @property
    def quartiles_s(self) -> tuple[float, float]:
        return quartiles(self.step_s)

    @property
    def tokens_per_s(self) -> float:
        """Of all sequences together."""
        return self.sequences / self.median_s


@dataclass(slots=True)
class _Picks:
    """An observer of passes that counts the different experts of each layer."""

    counts: dict[int, list[int]]

    def __call__(self, name: str, layer: int, rows: np.ndarray) -> None:
        if name == "experts_picked":
            self.counts.setdefault(layer, []).append(len(np.unique(rows)))

    @property
    def means(self) -> tuple[float, ...]:
        return tuple(mean(self.counts[layer]) for layer in sorted(self.counts))


def measure_batch(
    model: DeepSeek, plan: BatchPlan, progress: Callable[[str], None] = lambda _: None
) -> list[BatchSample]:
    """One sample for each number of sequences."""
    rng = np.random.default_rng(SEED)

    def ids(count: int) -> Ids:
        return rng.integers(0, model.config.vocab_size, count).astype(np.int32)

    progress(f"reading {plan.depth} tokens")
    first = model.new_state()
    if plan.depth:
        prefill(model, first, ids(plan.depth), plan.chunk_tokens)
    snapshot, states = first.snapshot(), [model.new_state() for _ in range(max(plan.sizes))]
    times: dict[int, list[float]] = {size: [] for size in plan.sizes}
    picks = {size: _Picks({}) for size in plan.sizes}
    for size in plan.sizes:
        _restore(states[:size], snapshot)
        for _ in range(PICK_STEPS):
            model.forward(_spans(states[:size], ids(size)), picks[size])
    for number in range(plan.repeats):
        for size in plan.sizes:
            progress(f"round {number + 1} of {plan.repeats}: {size} together")
            _restore(states[:size], snapshot)
            times[size] += _steps(model, states[:size], plan.steps, ids)
    return [BatchSample(size, tuple(times[size]), picks[size].means) for size in plan.sizes]


def _restore(states: Sequence[State], snapshot: Snapshot) -> None:
    for state in states:
        state.restore(snapshot)


def _steps(model: DeepSeek, states: Sequence[State], steps: int, ids: Callable[[int], Ids]) -> Iterator[float]:
    # The first step moves every state's shared rows into buffers of its own: not measured.
    model.forward(_spans(states, ids(len(states))))
    for _ in range(steps):
        spans = _spans(states, ids(len(states)))
        start = perf_counter()
        model.forward(spans)
        yield perf_counter() - start


def _spans(states: Sequence[State], ids: Ids) -> list[Span]:
    return [Span(state, ids[i : i + 1]) for i, state in enumerate(states)]
