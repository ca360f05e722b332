"""How likely a behaviour is after a prompt, and how that is told for several scales: a sweep's numbers, its table."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from whitedwarf.cli.one_line import one_line
from whitedwarf.evals.score.likelihood import forced
from whitedwarf.model.base import Model

SHOWN_CHARACTERS = 100


@dataclass(frozen=True, slots=True)
class Case:
    """A prompt, and the text with which the answer might begin."""

    text: str
    behaviour_text: str
    prompt: list[int]
    behaviour: list[int]


@dataclass(frozen=True, slots=True)
class Outcome:
    """`logprob` of the whole behaviour, natural logarithm; `is_greedy`: each of its tokens was the likeliest."""

    logprob: float
    is_greedy: bool


@dataclass(frozen=True, slots=True)
class Row:
    """One case at one scale; `answer` is what was drawn, where that was asked for."""

    scale: float
    case: Case
    outcome: Outcome
    answer: str | None = None

    def as_json(self) -> dict[str, object]:
        drawn = {} if self.answer is None else {"answer": self.answer}
        return {
            "scale": self.scale,
            "prompt": self.case.text,
            "behaviour": self.case.behaviour_text,
            "logprob": self.outcome.logprob,
            "tokens": len(self.case.behaviour),
            "is_greedy": self.outcome.is_greedy,
        } | drawn


def judged(model: Model, case: Case, chunk_tokens: int) -> Outcome:
    """The behaviour's tokens, each predicted from all before it."""
    outcome = forced(model, case.prompt, case.behaviour, chunk_tokens)
    return Outcome(-float(outcome.nll.sum()), bool(outcome.is_likeliest.all()))


def table(rows: Sequence[Row]) -> Iterator[str]:
    """A line for each scale: means over the cases; then the answers, where there are any."""
    yield f"{'scale':>8} {'log-probability':>16} {'per token':>10} {'probability':>12} {'likeliest':>10}"
    for scale in dict.fromkeys(row.scale for row in rows):
        here = [row for row in rows if row.scale == scale]
        logprobs = np.array([row.outcome.logprob for row in here])
        each = logprobs.sum() / sum(len(row.case.behaviour) for row in here)
        likeliest = f"{sum(row.outcome.is_greedy for row in here)}/{len(here)}"
        yield f"{scale:>8g} {logprobs.mean():>16.4f} {each:>10.4f} {np.exp(logprobs).mean():>12.4%} {likeliest:>10}"
    for row in (row for row in rows if row.answer is not None):
        yield f"{row.scale:>8g}  {_shown(row.case.text)} -> {_shown(row.answer or '')}"


def _shown(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= SHOWN_CHARACTERS else line[: SHOWN_CHARACTERS - 1] + "…"
