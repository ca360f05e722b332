"""How likely a behaviour is after a prompt, and how that is told for several scales: a sweep's numbers, its table."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from whitedwarf.cli.one_line import one_line
from whitedwarf.model.base import Logits, Model, Span

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
    state, ids = model.new_state(), np.array(case.prompt + case.behaviour, np.int32)
    first = len(case.prompt) - 1  # from here on predictions are wanted
    for start in range(0, first, chunk_tokens):
        model.forward([Span(state, ids[start : min(first, start + chunk_tokens)], "none")])
    logits = [
        model.forward([Span(state, ids[start : min(len(ids) - 1, start + chunk_tokens)], "all")])[0]
        for start in range(first, len(ids) - 1, chunk_tokens)
    ]
    return _outcome(np.concatenate(logits), np.array(case.behaviour))


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


def _outcome(logits: Logits, targets: np.ndarray) -> Outcome:
    values = logits.astype(np.float64)
    values -= values.max(axis=1, keepdims=True)
    picked = values[np.arange(len(targets)), targets] - np.log(np.exp(values).sum(axis=1))
    return Outcome(float(picked.sum()), bool((values.argmax(axis=1) == targets).all()))
