"""Right or wrong: what is expected of an answer, and what became of a case."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, TypeAlias

from whitedwarf.evals.case import Case, Kind
from whitedwarf.evals.extract import THINK_CLOSE, answer_part, extract
from whitedwarf.evals.lines import names_right_lines


class Status(StrEnum):
    """What became of a case; the names are those of traces."""

    PASSED = "PASSED"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"  # its prompt leaves no room for an answer
    STOPPED = "STOPPED"  # by whoever watched
    SWITCHED = "SWITCHED"  # given up for another case; it comes again
    ERROR = "ERROR"

    @property
    def is_graded(self) -> bool:
        """Whether an answer was judged."""
        return self in (Status.PASSED, Status.FAILED)


ThinkMode: TypeAlias = Literal["none", "high", "max"]


@dataclass(frozen=True, slots=True)
class Expected:
    """What an answer is judged by: all that grading knows of a case."""

    kind: Kind
    letters: str
    answer: str

    @classmethod
    def of(cls, case: Case) -> "Expected":
        """What this case expects."""
        return cls(case.kind, case.letters, case.answer)


@dataclass(frozen=True, slots=True)
class Grade:
    """`given` is what the output was understood to answer, "" for nothing."""

    status: Status
    given: str


def grade(output: str, expected: Expected, think_mode: ThinkMode | None = None) -> Grade:
    """Judge an output: thoughts, `</think>`, answer; or the answer alone.

    Where the model was thinking (`think_mode` high or max) and the thoughts never closed, there is no answer. None: it
    is not known whether it was thinking.
    """
    is_unclosed = think_mode in ("high", "max") and THINK_CLOSE not in output
    given = "" if is_unclosed else extract(answer_part(output), expected.kind, expected.letters)
    return Grade(Status.PASSED if is_right(given, expected) else Status.FAILED, given)


def is_right(given: str, expected: Expected) -> bool:
    """Whether this answer is the expected one; of lines, some of the right ones and no other."""
    if expected.kind == "lines":
        return names_right_lines(given, expected.answer)
    return given == expected.answer
