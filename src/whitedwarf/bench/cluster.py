"""What a cluster costs and gives on one machine: the overhead of a hop a token, and prompts through two stages.

All processes have one thread. A hop is one connection on a token's way: with one member there are two, there and back.
"""

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from time import perf_counter

from whitedwarf.bench.speed import prefill, random_ids
from whitedwarf.bench.spread import quartiles
from whitedwarf.model.base import Span
from whitedwarf.model.deepseek import DeepSeek


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """What is measured, in tokens; `repeats` of prompts."""

    prompt_tokens: int
    chunk_tokens: int
    decode_tokens: int
    repeats: int


@dataclass(frozen=True, slots=True)
class Pace:
    """Of one arrangement, in seconds: each prompt, each token after it. `members` are the processes beside ours."""

    members: int
    prefill_s: tuple[float, ...]
    decode_s: tuple[float, ...]

    @property
    def prefill_median_s(self) -> float:
        return median(self.prefill_s)

    @property
    def decode_median_s(self) -> float:
        return median(self.decode_s)

    @property
    def decode_quartiles_s(self) -> tuple[float, float]:
        return quartiles(self.decode_s)

    @property
    def num_hops(self) -> int:
        return self.members + 1 if self.members else 0


def measure_pace(model: DeepSeek, members: int, plan: ClusterPlan, progress: Callable[[str], None]) -> Pace:
    """Prompts from an empty state each, after one to warm up; then tokens one by one."""
    ids = random_ids(model.config.vocab_size, plan.prompt_tokens + plan.decode_tokens)
    prompt, rest = ids[: plan.prompt_tokens], ids[plan.prompt_tokens :]
    where = f"{members} members" if members else "one process"
    prefill_s: list[float] = []
    for number in range(plan.repeats + 1):
        progress(f"{where}: prompt {number} of {plan.repeats}")
        state = model.new_state()
        prefill_s.append(prefill(model, state, prompt, plan.chunk_tokens)[0])
    progress(f"{where}: {plan.decode_tokens} tokens")
    decode_s: list[float] = []
    for i in range(len(rest)):
        start = perf_counter()
        model.forward([Span(state, rest[i : i + 1])])
        decode_s.append(perf_counter() - start)
    return Pace(members, tuple(prefill_s[1:]), tuple(decode_s[len(decode_s) // 8 :]))
