"""Speed at single points, measured as llama-bench does it, so that both can be set side by side.

A point is a prefill of so many tokens or a decode of so many, at a depth: after so many tokens that are there already.
Ids are random, also those of decode, as llama-bench draws them; of each point one unmeasured pass goes before (a whole
prefill, or one token). The state at a depth is made once, by reading on from the depth before it, and restored outside
the window.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from statistics import mean, pstdev
from time import perf_counter
from typing import Literal

import numpy as np

from whitedwarf.bench.speed import SEED, prefill
from whitedwarf.engine.paced_model import RunModel
from whitedwarf.model.base import Ids, Span
from whitedwarf.model.state import SequenceState

Kind = Literal["prefill", "decode"]


@dataclass(frozen=True, slots=True, order=True)
class Point:
    """So many tokens, read or written, after `depth` others."""

    depth: int
    kind: Kind
    tokens: int

    @property
    def name(self) -> str:
        """llama-bench's: pp512, tg64, with the depth where there is one."""
        return f"{'pp' if self.kind == 'prefill' else 'tg'}{self.tokens}{f'@{self.depth}' if self.depth else ''}"

    @property
    def end(self) -> int:
        """Tokens of context it needs."""
        return self.depth + self.tokens

    @property
    def at_start(self) -> "Point":
        """The same at depth 0."""
        return Point(0, self.kind, self.tokens)


@dataclass(frozen=True, slots=True)
class Rates:
    """Tokens per second at one point, one figure for each repetition."""

    point: Point
    tokens_per_s: tuple[float, ...]
    state_bytes: int | None = field(default=None, compare=False)  # at the depth; None: not known

    def as_llama_bench(self) -> dict[str, object]:
        """The fields of its JSON that tell the same, and one of our own."""
        is_prefill = self.point.kind == "prefill"
        return {
            "n_prompt": self.point.tokens if is_prefill else 0,
            "n_gen": 0 if is_prefill else self.point.tokens,
            "n_depth": self.point.depth,
            "avg_ts": mean(self.tokens_per_s),
            "stddev_ts": pstdev(self.tokens_per_s),
            "samples_ts": list(self.tokens_per_s),
            "state_bytes": self.state_bytes,
        }


def points(prefills: Sequence[int], decodes: Sequence[int], depths: Sequence[int]) -> tuple[Point, ...]:
    """All combinations, depth by depth."""
    kinds: list[tuple[Kind, int]] = [("prefill", n) for n in prefills]
    kinds += [("decode", n) for n in decodes]
    return tuple(Point(depth, kind, tokens) for depth in depths for kind, tokens in kinds)


def measure_points(
    model: RunModel,
    asked: Sequence[Point],
    repeats: int,
    chunk_tokens: int,
    progress: Callable[[str], None] = lambda _: None,
) -> Iterator[Rates]:
    """Each point, `repeats` times."""
    rng = np.random.default_rng(SEED)

    def random_ids(count: int) -> Ids:
        return rng.integers(0, model.config.vocab_size, count).astype(np.int32)

    state = model.new_state()
    snapshot = state.snapshot()
    for depth, group in groupby(sorted(asked, key=lambda point: point.depth), lambda point: point.depth):
        if depth > snapshot.position:
            progress(f"reading up to {depth} tokens")
            prefill(model, state, random_ids(depth - snapshot.position), chunk_tokens)
            snapshot = state.snapshot()
        for point in group:
            progress(point.name)
            _run(model, state, random_ids(point.tokens if point.kind == "prefill" else 1), point.kind, chunk_tokens)
            rates = []
            for _ in range(repeats):
                state.restore(snapshot)
                seconds = _run(model, state, random_ids(point.tokens), point.kind, chunk_tokens)
                rates.append(point.tokens / seconds)
            state.restore(snapshot)
            yield Rates(point, tuple(rates), snapshot.size_bytes)


def _run(model: RunModel, state: SequenceState, ids: Ids, kind: Kind, chunk_tokens: int) -> float:
    if kind == "prefill":
        return prefill(model, state, ids, chunk_tokens)[0]
    start = perf_counter()
    for i in range(len(ids)):
        model.forward([Span(state, ids[i : i + 1])])
    return perf_counter() - start
