"""Speed at single points, measured as llama-bench does it, so that both can be set side by side.

A point is a prefill of so many tokens or a decode of so many, at a depth: after so many tokens that are there already.
Ids are random, also those of decode, as llama-bench draws them; of each point one unmeasured pass goes before (a whole
prefill, or one token). The state at a depth is made once, by reading on from the depth before it, and restored outside
the window.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from statistics import mean, pstdev
from time import perf_counter
from typing import Literal

import numpy as np

from whitedwarf.bench.speed import SEED, prefill
from whitedwarf.engine.ledger import total_bytes
from whitedwarf.model.base import Ids, Span, State
from whitedwarf.model.deepseek import DeepSeek

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
    counted: tuple[Mapping[str, float], ...] = field(default=(), compare=False)  # by each repetition

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
            **({"counted": [dict(one) for one in self.counted]} if self.counted else {}),
        }


@dataclass(frozen=True, slots=True)
class How:
    """What may be otherwise: the ids, the pass before each point, and what else is counted while it is measured."""

    seed: int = SEED
    warms_up: bool = True
    count: Callable[[], Mapping[str, float]] = dict  # everything so far


DEFAULT_HOW = How()


def points(prefills: Sequence[int], decodes: Sequence[int], depths: Sequence[int]) -> tuple[Point, ...]:
    """All combinations, depth by depth."""
    kinds: list[tuple[Kind, int]] = [("prefill", n) for n in prefills]
    kinds += [("decode", n) for n in decodes]
    return tuple(Point(depth, kind, tokens) for depth in depths for kind, tokens in kinds)


def measure_points(
    model: DeepSeek,
    asked: Sequence[Point],
    repeats: int,
    chunk_tokens: int,
    progress: Callable[[str], None] = lambda _: None,
    how: How = DEFAULT_HOW,
) -> Iterator[Rates]:
    """Each point, `repeats` times."""
    rng = np.random.default_rng(how.seed)

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
            if how.warms_up:
                count = point.tokens if point.kind == "prefill" else 1
                _run(model, state, random_ids(count), point.kind, chunk_tokens)
            rates, counted = [], []
            for _ in range(repeats):
                state.restore(snapshot)
                before = how.count()
                seconds = _run(model, state, random_ids(point.tokens), point.kind, chunk_tokens)
                rates.append(point.tokens / seconds)
                counted += [{name: now - before[name] for name, now in how.count().items()}] if before else []
            state.restore(snapshot)
            yield Rates(point, tuple(rates), total_bytes(snapshot), tuple(counted))


def _run(model: DeepSeek, state: State, ids: Ids, kind: Kind, chunk_tokens: int) -> float:
    if kind == "prefill":
        return prefill(model, state, ids, chunk_tokens)[0]
    start = perf_counter()
    for i in range(len(ids)):
        model.forward([Span(state, ids[i : i + 1])])
    return perf_counter() - start
