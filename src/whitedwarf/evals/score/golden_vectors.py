"""Golden vectors of our own: the likeliest tokens after the first tokens of a text, by id (spec/product.md E.6).

    # comment
    case ID MODE CTX FRONTIER PROMPT-FILE N      MODE: text, rendered or chat
    top RANK ID LOGIT                            N of them, the likeliest first, RANK from 0

FRONTIER tokens of the prompt are read. A text is tokenised as it is, a rendered one with its control tokens, and a chat
is a user's message without system text and without thinking.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast, get_args

from whitedwarf.errors import FileFormatError
from whitedwarf.evals.score.vector_lines import Line, Lines

Mode = Literal["text", "rendered", "chat"]
MODES: tuple[str, ...] = get_args(Mode)


@dataclass(frozen=True, slots=True)
class Top:
    """A token and its logit."""

    id: int
    logit: float


@dataclass(frozen=True, slots=True)
class GoldenCase:
    """A prompt's file, as it is named in the vector file, how much of it is read, and the likeliest tokens then."""

    id: str
    mode: Mode
    context: int
    frontier: int
    prompt: str
    top: tuple[Top, ...]


def read_golden(path: Path) -> list[GoldenCase]:
    """At least one case; FileFormatError names the line."""
    lines = Lines(path)
    cases = []
    while (line := lines.next("case", 6)) is not None:
        cases.append(_case(line, lines))
        if lines.peek() == "end":  # some writers close a case as the official vectors do
            lines.required("end", 0)
    lines.check_cases([case.id for case in cases])
    return cases


def golden_text(cases: Sequence[GoldenCase], about: str) -> str:
    """What `read_golden` reads; `about` becomes its comment. Logits keep the nine digits of a float32."""
    out = [f"# {line}" for line in about.splitlines()]
    for case in cases:
        out.append(f"case {case.id} {case.mode} {case.context} {case.frontier} {case.prompt} {len(case.top)}")
        out += [f"top {rank} {top.id} {top.logit:.9g}" for rank, top in enumerate(case.top)]
    return "\n".join(out) + "\n"


def _case(line: Line, lines: Lines) -> GoldenCase:
    case_id, mode, context, frontier, prompt, count = line.words
    if mode not in MODES:
        raise FileFormatError(f"{line.where}: expected a mode of {', '.join(MODES)}, got {mode[:40]!r}")
    case = GoldenCase(
        line.id(case_id),
        cast(Mode, mode),
        line.count(context, "CTX", 1),
        line.count(frontier, "FRONTIER", 1),
        prompt,
        tuple(_top(lines, rank) for rank in range(line.count(count, "N", 1))),
    )
    if case.frontier > case.context:
        raise FileFormatError(f"{line.where}: a frontier of {frontier} does not fit in a context of {context}")
    if len({top.id for top in case.top}) != len(case.top):
        raise FileFormatError(f"{line.where}: a token is among the likeliest twice; expected each once")
    if any(later.logit > earlier.logit for earlier, later in itertools.pairwise(case.top)):
        raise FileFormatError(f"{line.where}: expected the likeliest tokens first, in the order of their logits")
    return case


def _top(lines: Lines, rank: int) -> Top:
    line = lines.required("top", 3)
    if line.count(line.words[0], "RANK", 0) != rank:
        raise FileFormatError(f"{line.where}: expected rank {rank}, found {line.words[0]}")
    return Top(line.count(line.words[1], "ID", 0), line.number(line.words[2], "LOGIT"))
