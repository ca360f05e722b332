"""Right or wrong."""

import pytest

from evals.test_case import case
from whitedwarf.evals.grade import Expected, Grade, Status, ThinkMode, grade

LETTER = Expected.of(case())  # C of four


@pytest.mark.parametrize(
    ("output", "think_mode", "status", "given"),
    [
        ("Hm.</think>Answer: C", "high", Status.PASSED, "C"),
        ("Answer: C</think>Answer: A", "max", Status.FAILED, "A"),
        ("Answer: C", "none", Status.PASSED, "C"),
        ("Answer: C", "high", Status.FAILED, ""),  # thoughts that never closed are no answer
        ("Answer: C", None, Status.PASSED, "C"),
        ("", "none", Status.FAILED, ""),
    ],
)
def test_an_output_is_judged(output: str, think_mode: ThinkMode | None, status: Status, given: str) -> None:
    assert grade(output, LETTER, think_mode) == Grade(status, given)


def test_other_kinds_are_judged_by_their_own_rules() -> None:
    lines = Expected("lines", "", "12,14-15")
    assert grade("Answer: 15, 14", lines, "none") == Grade(Status.PASSED, "15,14")
    assert grade("Answer: 13", lines, "none").status is Status.FAILED
    integer = Expected("integer", "", "70")
    assert grade("Answer: 35 + 35 = 070", integer, "none") == Grade(Status.PASSED, "70")
    assert grade("Answer: 70.5", integer, "none") == Grade(Status.FAILED, "70.5")


def test_only_judged_cases_are_graded() -> None:
    assert [status for status in Status if status.is_graded] == [Status.PASSED, Status.FAILED]
