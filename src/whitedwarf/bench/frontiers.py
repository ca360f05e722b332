"""The figures of context frontiers as CSV, in the original's columns, and read back from such a file of anyone's."""

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from whitedwarf.bench.speed import Sample
from whitedwarf.errors import FileFormatError, UsageError

CSV_HEADER = ("ctx_tokens", "prefill_tokens", "prefill_tps", "gen_tokens", "gen_tps", "kvcache_bytes")
NEEDED_COLUMNS = ("ctx_tokens", "prefill_tps", "gen_tps")
MAX_FRONTIERS = 1000


@dataclass(frozen=True, slots=True)
class Speeds:
    """One point of a curve: tokens per second at a context length."""

    context_tokens: float
    prefill_tokens_per_s: float
    decode_tokens_per_s: float  # 0: not measured


def frontiers(start: int, end: int, increment: int, factor: float) -> tuple[int, ...]:
    """Context lengths to stop at; the last one is exactly `end`. UsageError for what is no such series."""
    if start > end or not 1 <= factor < math.inf:
        raise UsageError(f"expected --ctx-start {start} <= --ctx-max {end} and a finite --step-mul {factor} >= 1")
    lengths: list[int] = []
    current = start
    while current < end:
        if len(lengths) == MAX_FRONTIERS:
            raise UsageError(
                f"expected at most {MAX_FRONTIERS} context lengths from {start} to {end}: take wider steps"
            )
        lengths.append(current)
        current = math.ceil(current * factor) if factor > 1 else current + increment
    return (*lengths, end)


def speeds(sample: Sample) -> Speeds:
    """A sample as a point of a curve."""
    decode_s = sample.decode_median_s
    return Speeds(sample.context_tokens, sample.prefill_tokens_per_s, 1 / decode_s if decode_s else 0.0)


def csv_text(samples: Iterable[Sample], repeats: int) -> str:
    """A header and a line for each frontier."""
    text = io.StringIO()
    rows = csv.writer(text)
    rows.writerow(CSV_HEADER)
    for sample in samples:
        point, generated = speeds(sample), len(sample.decode_s) // repeats
        rates = f"{point.prefill_tokens_per_s:.2f}", f"{point.decode_tokens_per_s:.2f}"
        rows.writerow((sample.context_tokens, sample.prefill_tokens, rates[0], generated, rates[1], sample.kv_bytes))
    return text.getvalue()


def read_csv(path: Path) -> Sequence[Speeds]:
    """At least two points; FileFormatError naming the line and column that is wrong."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise FileFormatError(f"{path}: expected a CSV file, found bytes that are no text ({error.reason})") from error
    rows = csv.DictReader(io.StringIO(text))
    if missing := [name for name in NEEDED_COLUMNS if name not in (rows.fieldnames or ())]:
        raise FileFormatError(f"{path}: expected the columns {', '.join(NEEDED_COLUMNS)}; {missing[0]} is missing")
    points = [Speeds(*(_number(path, rows.line_num, name, row) for name in NEEDED_COLUMNS)) for row in rows]
    if len(points) < 2:
        raise FileFormatError(f"{path}: expected at least 2 rows to draw a line through, found {len(points)}")
    return points


def _number(path: Path, line: int, name: str, row: dict[str, str]) -> float:
    try:
        value = float(row[name])
    except (TypeError, ValueError):
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise FileFormatError(f"{path}, line {line}: {name} is {row[name]!r}, expected a number of 0 or more")
    return value
