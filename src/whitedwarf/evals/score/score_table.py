"""Scores as a tab-separated table (spec/product.md E.4): a header, then a line for each case."""

import math
from collections.abc import Sequence
from pathlib import Path

from whitedwarf.errors import FileFormatError
from whitedwarf.evals.score.case_files import check_different, check_id
from whitedwarf.evals.score.measuring import Score
from whitedwarf.evals.text_file import read_text

COLUMNS = ("id", "prompt_tokens", "target_tokens", "nll", "avg_nll", "first_match", "greedy_lcp")


def table_text(scores: Sequence[Score]) -> str:
    rows = [COLUMNS] + [
        (
            score.id,
            str(score.prompt_tokens),
            str(score.target_tokens),
            f"{score.nll:.9f}",
            f"{score.average_nll:.9f}",
            str(int(score.first_match)),
            str(score.greedy_lcp),
        )
        for score in scores
    ]
    return "".join("\t".join(row) + "\n" for row in rows)


def read_table(path: Path) -> list[Score]:
    """At least one score; FileFormatError names the line. Columns may come in any order, and with others."""
    lines = [line for line in read_text(path).splitlines() if line.strip() and not line.startswith("#")]
    columns = lines[0].split("\t") if lines else []
    missing = [name for name in COLUMNS if name not in columns]
    if missing:
        raise FileFormatError(f"{path}: no column {missing[0]}; expected a table that `whitedwarf score run` wrote")
    scores = [_score(line.split("\t"), columns, f"{path}, line {number}") for number, line in enumerate(lines[1:], 2)]
    if not scores:
        raise FileFormatError(f"{path}: expected at least one case, found none")
    check_different((score.id for score in scores), str(path))
    return scores


def _score(values: list[str], columns: list[str], where: str) -> Score:
    if len(values) != len(columns):
        raise FileFormatError(f"{where}: expected {len(columns)} values with tabs between, found {len(values)}")
    row = dict(zip(columns, values, strict=True))
    try:
        counts = [int(row[name]) for name in ("prompt_tokens", "target_tokens", "first_match", "greedy_lcp")]
        nll = float(row["nll"])
    except ValueError as error:
        raise FileFormatError(f"{where}: expected numbers ({error})") from error
    prompt, target, first, lcp = counts
    if prompt < 1 or target < 1 or first not in (0, 1) or not 0 <= lcp <= target or not math.isfinite(nll):
        raise FileFormatError(
            f"{where}: expected counts of at least 1, first_match 0 or 1, greedy_lcp up to target_tokens, a finite nll"
        )
    return Score(check_id(row["id"], where), prompt, target, nll, bool(first), lcp)
