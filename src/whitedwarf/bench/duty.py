"""How much of the processors an engine takes at less than full power: processor seconds per second, as it is used.

Protocol: one engine; after a round that does not count, rounds in which the powers take turns. In each turn one prompt
is read and then an answer generated, and both are timed from their first to their last event. Medians over rounds. Of a
model on a card it says how busy the host was, no more.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from whitedwarf.bench.speed import random_ids
from whitedwarf.engine.engine import Engine
from whitedwarf.engine.power import FULL_POWER_PERCENT
from whitedwarf.engine.request import GREEDY, GenerateOptions, Token
from whitedwarf.errors import UsageError

Phase = Literal["prefill", "decode"]


@dataclass(frozen=True, slots=True)
class Turn:
    """What one phase took."""

    tokens: int
    wall_s: float
    cpu_s: float

    @property
    def cpu_per_s(self) -> float:
        return self.cpu_s / self.wall_s

    @property
    def tokens_per_s(self) -> float:
        return self.tokens / self.wall_s


@dataclass(frozen=True, slots=True)
class Load:
    """One phase at one power: medians."""

    power_percent: int
    phase: Phase
    cpu_per_s: float
    share: float  # of what it takes at full power
    tokens_per_s: float


@dataclass(frozen=True, slots=True)
class DutyPlan:
    """What to measure; `powers` begin with full power, to which the others are compared."""

    powers: tuple[int, ...]
    prompt_tokens: int
    decode_tokens: int
    rounds: int


def measure_duty(engine: Engine, plan: DutyPlan, progress: Callable[[str], None] = lambda _: None) -> list[Load]:
    """Both phases at each power."""
    turns: dict[tuple[int, Phase], list[Turn]] = {}
    for number in range(plan.rounds + 1):
        for power in plan.powers:
            progress(f"round {number} of {plan.rounds}: {power} %")
            engine.power_percent = power
            prefill, decode = _turn(engine, plan)
            if number:
                turns.setdefault((power, "prefill"), []).append(prefill)
                turns.setdefault((power, "decode"), []).append(decode)
    full = {phase: _cpu(turns[FULL_POWER_PERCENT, phase]) for _, phase in turns}
    return [
        Load(power, phase, _cpu(found), _cpu(found) / full[phase], median(turn.tokens_per_s for turn in found))
        for (power, phase), found in turns.items()
    ]


def _cpu(turns: Sequence[Turn]) -> float:
    return median(turn.cpu_per_s for turn in turns)


def _turn(engine: Engine, plan: DutyPlan) -> tuple[Turn, Turn]:
    ids = random_ids(engine.vocab_size, plan.prompt_tokens)
    options = GenerateOptions(max_tokens=plan.decode_tokens, sampling=GREEDY)
    marks: list[tuple[float, float]] = []
    num_tokens = 0
    for event in engine.submit(ids, options):
        num_tokens += isinstance(event, Token)
        if not marks or (isinstance(event, Token) and num_tokens == 1):
            marks.append((time.monotonic(), time.process_time()))
    if num_tokens < 2:
        raise UsageError("the model ended its answer at once: nothing was decoded")
    marks.append((time.monotonic(), time.process_time()))
    begun, read, ended = marks
    return _between(begun, read, len(ids)), _between(read, ended, num_tokens - 1)


def _between(begin: tuple[float, float], end: tuple[float, float], tokens: int) -> Turn:
    return Turn(tokens, end[0] - begin[0], end[1] - begin[1])
