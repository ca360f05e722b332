"""Running a model over prompts and adding up what its weights are multiplied with.

Promises: whatever interrupts a prompt, `Collection` holds complete prompts only; chunks of any size give the same
sums. Knows no files (`sums_file.py`) and no command line.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from whitedwarf.errors import WhitedwarfError
from whitedwarf.model.base import Span
from whitedwarf.model.deepseek import DeepSeek
from whitedwarf.ops.collecting import CollectingOps
from whitedwarf.ops.moments import Moments


class Chunks(Protocol):
    """Hears how many tokens of a prompt have been read."""

    def __call__(self, num_tokens: int) -> None: ...


@dataclass(slots=True)
class Collection:
    """Sums over complete prompts."""

    moments: Moments = field(default_factory=Moments)
    prompts: int = 0
    tokens: int = 0


def run_prompt(
    model: DeepSeek, collector: CollectingOps, ids: Sequence[int], chunk_tokens: int, heard: Chunks | None = None
) -> None:
    """One prompt from an empty state; what it adds stays with the collector, which begins empty."""
    collector.moments.clear()
    state = model.new_state()
    for start in range(0, len(ids), chunk_tokens):
        piece = np.array(ids[start : start + chunk_tokens], np.int32)
        model.forward([Span(state, piece, "none")])
        if heard is not None:
            heard(start + len(piece))
    if broken := next(collector.moments.broken(), None):
        raise WhitedwarfError(
            f"the rows of {broken} are not finite: the model's file is damaged; check it with `whitedwarf gguf verify`"
        )


def commit(collection: Collection, collector: CollectingOps, num_tokens: int) -> None:
    """The prompt counts."""
    collection.moments.take(collector.moments)
    collection.prompts += 1
    collection.tokens += num_tokens


def planned(
    prompts: Sequence[Sequence[int]], done: int, tokens_done: int, max_prompts: int | None, max_tokens: int | None
) -> Iterator[Sequence[int]]:
    """The prompts still to run, the last one cut where there are too many tokens."""
    last = len(prompts) if max_prompts is None else min(max_prompts, len(prompts))
    for ids in prompts[done:last]:
        left = len(ids) if max_tokens is None else min(len(ids), max_tokens - tokens_done)
        if left <= 0:
            return
        yield ids[:left]
        tokens_done += left
