"""Vectors of the official model, read strictly (spec/model.md 8.4): greedy steps with their candidates, as bytes.

# comment
case ID CTX STEPS PROMPT-FILE
step I HEX NTOP          the token that was taken, as hexadecimal bytes
top HEX LOGPROB          NTOP of them
end
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from whitedwarf.errors import FileFormatError
from whitedwarf.evals.score.reply import Candidate
from whitedwarf.evals.score.vector_lines import Line, Lines

UNKNOWN_LOGPROB = -9999.0
"""What the official API says of a token that is too unlikely to have a number."""
_ROUNDING = 1e-4  # above 0


@dataclass(frozen=True, slots=True)
class VectorStep:
    """The official choice and the official candidates."""

    chosen: bytes
    top: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class VectorCase:
    """A prompt's file, as it is named in the vector file, and the steps after it."""

    id: str
    context: int
    prompt: str
    steps: tuple[VectorStep, ...]


def read_official(path: Path) -> list[VectorCase]:
    """At least one case, each with at least one step; FileFormatError names the line."""
    lines = Lines(path)
    cases = []
    while (line := lines.next("case", 4)) is not None:
        cases.append(_case(line, lines))
    lines.check_cases([case.id for case in cases])
    return cases


def official_text(cases: Sequence[VectorCase], about: str) -> str:
    """What `read_official` reads; `about` becomes its comment."""
    out = [f"# {line}" for line in about.splitlines()]
    for case in cases:
        out.append(f"case {case.id} {case.context} {len(case.steps)} {case.prompt}")
        for number, step in enumerate(case.steps):
            out.append(f"step {number} {step.chosen.hex()} {len(step.top)}")
            out += [f"top {candidate.data.hex()} {candidate.logprob:.9g}" for candidate in step.top]
        out.append("end")
    return "\n".join(out) + "\n"


def _case(line: Line, lines: Lines) -> VectorCase:
    case_id, context, steps, prompt = line.words
    count = line.count(steps, "STEPS", 1)
    case = VectorCase(
        line.id(case_id),
        line.count(context, "CTX", 1),
        prompt,
        tuple(_step(lines, number) for number in range(count)),
    )
    lines.required("end", 0)
    return case


def _step(lines: Lines, number: int) -> VectorStep:
    line = lines.required("step", 3)
    index, chosen, top = line.words
    if line.count(index, "I", 0) != number:
        raise FileFormatError(f"{line.where}: expected step {number}, found step {index}")
    candidates = tuple(_top(lines.required("top", 2)) for _ in range(line.count(top, "NTOP", 0)))
    if len({candidate.data for candidate in candidates}) != len(candidates):
        raise FileFormatError(f"{line.where}: a token is among its candidates twice; expected each once")
    return VectorStep(line.bytes(chosen), candidates)


def _top(line: Line) -> Candidate:
    data, logprob = line.words
    value = line.number(logprob, "LOGPROB")
    if value > _ROUNDING or math.isinf(value):
        raise FileFormatError(f"{line.where}: {logprob} is no log-probability; expected 0 or less")
    return Candidate(line.bytes(data), min(value, 0.0))
