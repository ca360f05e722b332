"""The gate: the same questions, asked the same way, have to give the same statuses, answers and token counts again.

What is expected is an earlier exam's JSON document or its trace. Pure but for reading the file.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whitedwarf.errors import FileFormatError, UsageError
from whitedwarf.evals.report import Report, settings, status_of_seat
from whitedwarf.evals.text_file import read_bytes
from whitedwarf.evals.trace import header_facts
from whitedwarf.evals.trace_reader import MOST_BYTES, read_trace

_JSON_STARTS = b"{"
_TRACE_SETTINGS = (
    "sampling",
    "seed",
    "max_tokens",
    "think_mode",
    "soft_limit_reply_budget",
    "hard_limit_reply_budget",
    "soft_limit_think_close_rank",
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is compared of a case."""

    status: str
    given: str
    generated_tokens: int

    def __str__(self) -> str:
        return f"{self.status} {self.given or '-'} after {self.generated_tokens} tokens"


@dataclass(frozen=True, slots=True)
class Expectation:
    """The outcome of each case by its name, and how it was asked."""

    outcomes: Mapping[str, Outcome]
    settings: Mapping[str, object]

    def differences(self, report: Report) -> Iterator[str]:
        """A line for each; none where the exam came out as expected."""
        now = known_settings(report)
        for name, value in self.settings.items():
            is_idle = name.endswith(".seed") and not report.asking.temperature  # nothing is drawn
            if now.get(name) != value and not is_idle:
                yield f"{name}: expected {value}, this exam has {now.get(name)}"
        seen = {}
        for seat in report.seats:
            outcome = Outcome(
                status_of_seat(seat) or "not asked",
                seat.ending.given if seat.ending is not None else "",
                seat.answer.generated_tokens,
            )
            seen[seat.case.name] = outcome
            expected = self.outcomes.get(seat.case.name)
            if expected is None:
                yield f"{seat.case.name}: not expected, now {outcome}"
            elif expected != outcome:
                yield f"{seat.case.name}: expected {expected}, now {outcome}"
        for name in self.outcomes:
            if name not in seen:
                yield f"{name}: expected {self.outcomes[name]}, now not in the exam"


def known_settings(report: Report) -> dict[str, object]:
    """Under the names of both kinds of file."""
    header = header_facts(report.target, report.asking, report.limits, num_cases=0, max_prompt_tokens=None)
    in_traces = {f"trace.{name}": str(header[name]) for name in _TRACE_SETTINGS}
    return in_traces | {f"settings.{name}": value for name, value in settings(report.asking, report.limits).items()}


def read_expectation(path: Path) -> Expectation:
    """UsageError for a file that cannot be read, FileFormatError for one that is neither a document nor a trace."""
    try:
        data = read_bytes(path, MOST_BYTES)
    except UsageError as error:
        raise UsageError(f"--expect: {error}") from error
    try:
        found = _of_document(data) if data.lstrip().startswith(_JSON_STARTS) else _of_trace(data)
        if not found.outcomes:
            raise FileFormatError("there is no case in it; expected an earlier exam's --json file or trace")
    except FileFormatError as error:
        raise FileFormatError(f"--expect {path}: {error}") from error
    return found


def _of_document(data: bytes) -> Expectation:
    try:
        document = json.loads(data)
        if document["whitedwarf_eval"] != 1:
            raise FileFormatError(f"expected a document of format 1, got {document['whitedwarf_eval']!r}")
        outcomes = {f"{case['source']}/{case['id']}": _outcome(case) for case in document["cases"]}
        asked = {f"settings.{name}": value for name, value in document["settings"].items()}
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise FileFormatError(
            f"expected what `whitedwarf eval --json FILE` writes; {type(error).__name__}: {error}"
        ) from error
    return Expectation(outcomes, asked)


def _outcome(case: Mapping[str, Any]) -> Outcome:
    return Outcome(str(case["status"] or "not asked"), str(case["given"]), int(case["generated_tokens"]))


def _of_trace(data: bytes) -> Expectation:
    trace = read_trace(data)
    if trace.fault is not None:
        raise FileFormatError(trace.fault)
    outcomes = {}
    for part in trace.cases:
        tokens = part.facts.get("generated_tokens", "")
        if not (tokens.isascii() and tokens.isdigit()):
            raise FileFormatError(f"case {part.number} {part.name}: generated_tokens={tokens}: expected a number")
        if part.facts.get("status") != "SWITCHED":
            outcomes[part.name] = Outcome(part.facts.get("status", ""), part.facts.get("picked", ""), int(tokens[:18]))
    asked = {f"trace.{name}": trace.header[name] for name in _TRACE_SETTINGS if name in trace.header}
    return Expectation(outcomes, asked)
