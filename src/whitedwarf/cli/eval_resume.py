"""Going on with an exam that was cut short: from its trace, if it was the same exam."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from whitedwarf.errors import FileFormatError, UsageError
from whitedwarf.evals.answer import Answer
from whitedwarf.evals.case import Case
from whitedwarf.evals.exam import Ending, Exam
from whitedwarf.evals.grade import Expected, Status, grade
from whitedwarf.evals.regrade import status_of
from whitedwarf.evals.trace_reader import CasePart, Trace, read_trace_file

_KEPT = (Status.PASSED, Status.FAILED, Status.SKIPPED)
_MAY_DIFFER = frozenset({"backend"})


@dataclass(frozen=True, slots=True)
class Resumed:
    """What an earlier run has left."""

    path: Path
    size_bytes: int
    trace: Trace

    @property
    def end_bytes(self) -> int:
        """Up to here the file is whole."""
        return self.trace.end_bytes

    @property
    def seed(self) -> int | None:
        """The earlier run's."""
        value = self.trace.header.get("seed", "")
        return int(value[:18]) if value.isascii() and value.isdigit() else None

    def check(self, header: Mapping[str, object], cases: Sequence[Case]) -> None:
        """UsageError unless it was the same exam of the same model."""
        for key, value in header.items():
            now, before = "" if value is None else " ".join(str(value).split()), self.trace.header.get(key, "")
            if now != before and key not in _MAY_DIFFER:
                raise UsageError(
                    f"--resume-trace {self.path}: it has {key}={before}, this exam {key}={now}; give the same options, "
                    "or begin a new --trace"
                )
        for part in self.trace.cases:
            if not 1 <= part.number <= len(cases) or cases[part.number - 1].name != part.name:
                raise UsageError(f"--resume-trace {self.path}: case {part.number} {part.name} is not in this exam")

    def put_back_into(self, exam: Exam) -> None:
        """What was answered then is not asked again, and is graded by the rules of today."""
        for part in self.trace.cases:
            status = status_of(part.facts)
            if status in _KEPT and "MODEL_OUTPUT" in part.texts:
                _put_back(part, status, exam)


def read_resumed(path: Path) -> Resumed:
    """FileFormatError for a file that is no trace; a block that was cut is asked again."""
    size_bytes = path.stat().st_size if path.exists() else 0
    trace = read_trace_file(path)
    if not trace.header:
        raise FileFormatError(f"{path}: it has no header; expected a trace that `whitedwarf eval --trace` has begun")
    return Resumed(path, size_bytes, trace)


def _put_back(part: CasePart, status: Status, exam: Exam) -> None:
    answer, facts = Answer(), part.facts
    answer.output += part.texts["MODEL_OUTPUT"]
    answer.prompt_tokens, answer.generated_tokens = (
        _whole(facts, name) for name in ("prompt_tokens", "generated_tokens")
    )
    mode = facts.get("think_mode")
    answer.think_mode = "max" if mode == "max" else "high" if mode == "high" else "none"
    given = ""
    if status.is_graded:
        case = exam.seats[part.number - 1].case
        found = grade(answer.text, Expected.of(case), answer.think_mode)
        status, given = found.status, found.given
    elapsed_s = float(facts["elapsed_s"]) if facts.get("elapsed_s", "").replace(".", "", 1).isdigit() else 0.0
    exam.put_back(part.number, Ending(status, given, facts.get("error", ""), elapsed_s), answer)


def _whole(facts: Mapping[str, str], name: str) -> int:
    value = facts.get(name, "")
    return int(value[:18]) if value.isascii() and value.isdigit() else 0
