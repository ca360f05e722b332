"""What drafts give and what they cost: tokens a second with several drafters beside plain decoding.

Protocol: one prompt and one answer, drawn at temperature 1 with a seed: every side has to give the same tokens. After a
round that does not count, rounds in which the sides take turns, each with an engine of its own that keeps what it has
learned of costs. Ratios are of one round to plain decoding in the same round; medians over rounds.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from whitedwarf.bench.speed import SEED, random_ids
from whitedwarf.bench.spread import quartiles
from whitedwarf.engine.drafter import NOTHING, Guess
from whitedwarf.engine.drafts import Drafting
from whitedwarf.engine.engine import Engine
from whitedwarf.engine.ngram_drafter import NgramDrafter
from whitedwarf.engine.request import GenerateOptions, SamplingOptions
from whitedwarf.errors import BackendError
from whitedwarf.model.base import DraftBlock, Ids, Model

PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class DraftPlan:
    """What to measure. `acceptance`: how likely a planted draft is right where all before it were; `most` at once."""

    prompt_tokens: int
    decode_tokens: int
    acceptance: float
    most: int
    rounds: int


@dataclass(slots=True)
class Side:
    """One way to decode; None drafts nothing."""

    name: str
    drafting: Drafting | None
    decode_s: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class DraftPace:
    """What one side gave."""

    name: str
    tokens_per_s: float
    ratio: float  # to plain decoding
    ratio_quartiles: tuple[float, float]


class PlantedDrafter:
    """Knows the text, and spoils a share of its guesses."""

    def __init__(self, text: Ids, acceptance: float) -> None:
        is_right = np.random.default_rng(SEED).random(len(text)) < acceptance
        self._ids: list[int] = np.where(is_right, text, text + 1).tolist()
        self._count = 0

    def told(self, ids: Sequence[int] | Ids) -> None:
        self._count += len(ids)

    def draft(self, most: int) -> Guess:
        ids = self._ids[self._count : self._count + most]
        return Guess(ids, "planted") if ids else NOTHING


def measure_drafts(
    model: Model,
    plan: DraftPlan,
    chunk_tokens: int,
    progress: Callable[[str], None] = lambda _: None,
    block: DraftBlock | None = None,
) -> list[DraftPace]:
    """Plain decoding, planted drafts, drafts that are always wrong, and n-grams, on text that does not repeat itself;
    and the model's own block, where it has one.

    BackendError where a side gives other tokens than plain decoding.
    """
    prompt = random_ids(model.config.vocab_size - 1, plan.prompt_tokens)
    progress("the text")
    answer, _ = _run(model, Side(PLAIN, None), prompt, plan, chunk_tokens)
    text = np.concatenate([prompt, np.minimum(answer, model.config.vocab_size - 2)])
    sides = [
        Side(PLAIN, None),
        Side(f"planted, {plan.acceptance:.0%} right", _planted(text, plan.acceptance, plan.most)),
        Side("planted, all wrong", _planted(text, 0.0, plan.most)),
        Side("n-grams", Drafting(NgramDrafter, plan.most)),
    ]
    if block is not None:
        sides.append(Side("block and n-grams", Drafting(NgramDrafter, plan.most, block=block)))
    for number in range(plan.rounds + 1):
        for side in sides:
            progress(f"round {number} of {plan.rounds}: {side.name}")
            ids, seconds = _run(model, side, prompt, plan, chunk_tokens)
            if ids.tolist() != answer.tolist():
                raise BackendError(f"with drafts ({side.name}) came other tokens than without: report this as a bug")
            if number:
                side.decode_s.append(seconds)
    return [_pace(side, sides[0], len(answer)) for side in sides]


def _planted(text: Ids, acceptance: float, most: int) -> Drafting:
    return Drafting(lambda: PlantedDrafter(text, acceptance), most)


def _run(model: Model, side: Side, prompt: Ids, plan: DraftPlan, chunk_tokens: int) -> tuple[Ids, float]:
    options = GenerateOptions(plan.decode_tokens, sampling=SamplingOptions(1.0, min_p=0.0, seed=SEED))
    with Engine(model, max_chunk_tokens=chunk_tokens, max_parallel=1, drafting=side.drafting) as engine:
        completion = engine.submit(prompt, options).result()
    return np.array(completion.ids, np.int32), completion.finished.decode_s


def _pace(side: Side, plain: Side, num_tokens: int) -> DraftPace:
    ratios = [alone / drafted for alone, drafted in zip(plain.decode_s, side.decode_s, strict=True)]
    seconds = median(side.decode_s)
    pace = num_tokens / seconds if seconds else math.inf
    return DraftPace(side.name, pace, median(ratios), quartiles(ratios))
