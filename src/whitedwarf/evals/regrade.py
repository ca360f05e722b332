"""Grading a trace anew, without a model: what other rules of extraction would have made of the same answers. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import cast, get_args

from whitedwarf.errors import FileFormatError
from whitedwarf.evals.case import LETTERS, Kind
from whitedwarf.evals.grade import Expected, Grade, Status, ThinkMode, grade
from whitedwarf.evals.trace_reader import CasePart, Trace


@dataclass(frozen=True, slots=True)
class Regraded:
    """One case: what the trace says, and what is found now. `before` is None where the trace says nothing."""

    number: int
    name: str
    before: Status | None
    picked_before: str
    now: Grade
    expected: str

    @property
    def is_changed(self) -> bool:
        """Whether the status or the answer is another one."""
        return (self.before, self.picked_before) != (self.now.status, self.now.given)

    def __str__(self) -> str:
        before = self.before or "(none)"
        return (
            f"case {self.number} {self.name}: {before} {self.picked_before or '-'} -> {self.now.status} "
            f"{self.now.given or '-'} (expected {self.expected})"
        )


@dataclass(frozen=True, slots=True)
class Regrading:
    """All of a trace. `left_out` counts cases that were never answered; `faults` are in the order of the file."""

    cases: tuple[Regraded, ...]
    left_out: int
    faults: tuple[str, ...]

    @property
    def is_sound(self) -> bool:
        """Whether there was something to grade, and nothing that could not be read."""
        return bool(self.cases) and not self.faults

    def lines(self) -> Iterator[str]:
        """For people: what changed, and the totals."""
        changed = [case for case in self.cases if case.is_changed]
        yield from (str(case) for case in changed)
        yield from (f"error: {fault}" for fault in self.faults)
        passed = sum(case.now.status is Status.PASSED for case in self.cases)
        yield (
            f"regraded {len(self.cases)}: passed {passed}, failed {len(self.cases) - passed}, changed {len(changed)}, "
            f"left out {self.left_out}, errors {len(self.faults)}"
        )


def regrade(trace: Trace) -> Regrading:
    """PASSED and FAILED cases, and those that say nothing; others were not answered and are left out."""
    cases, faults, left_out = [], [], 0
    for part in trace.cases:
        try:
            found = _regraded(part)
        except FileFormatError as error:
            faults.append(f"case {part.number} {part.name}: {error}")
            continue
        if found is None:
            left_out += 1
        else:
            cases.append(found)
    if trace.fault is not None:
        faults.append(trace.fault)
    if not trace.cases:
        faults.append("there is no case in this trace")
    return Regrading(tuple(cases), left_out, tuple(faults))


def expected_of(facts: Mapping[str, str]) -> Expected:
    """What a case of a trace was judged by; FileFormatError where that cannot be told."""
    if "expected" not in facts:
        raise FileFormatError("expected a line expected=…, there is none")
    count = facts.get("choices")
    if count is not None:
        if not (count.isascii() and count.isdigit() and len(count) <= 2 and 2 <= int(count) <= len(LETTERS)):
            raise FileFormatError(f"choices={count}: expected a number from 2 to {len(LETTERS)}")
        return Expected("choice", LETTERS[: int(count)], facts["expected"])
    kind = facts.get("answer_kind", "")
    if kind not in get_args(Kind):
        raise FileFormatError(f"answer_kind={kind}: expected integer or lines, or else a line choices=…")
    return Expected(cast("Kind", kind), "", facts["expected"])


def status_of(facts: Mapping[str, str]) -> Status | None:
    """What a case of a trace says; None for nothing, FileFormatError for what is no status."""
    value = facts.get("status", "")
    if value and value not in list(Status):
        raise FileFormatError(f"status={value}: expected one of {', '.join(Status)}")
    return Status(value) if value else None


def _regraded(part: CasePart) -> Regraded | None:
    before = status_of(part.facts)
    if before is not None and not before.is_graded:
        return None
    expected = expected_of(part.facts)
    if "MODEL_OUTPUT" not in part.texts:
        raise FileFormatError("it has no MODEL_OUTPUT")
    now = grade(part.texts["MODEL_OUTPUT"].decode("utf-8", "replace"), expected, _think_mode(part.facts))
    return Regraded(part.number, part.name, before, part.facts.get("picked", ""), now, expected.answer)


def _think_mode(facts: Mapping[str, str]) -> ThinkMode | None:
    value = facts.get("think_mode")
    return cast("ThinkMode", value) if value in get_args(ThinkMode) else None
