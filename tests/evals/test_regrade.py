"""Regrading: only what was answered, by the rules of today."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whitedwarf.evals.grade import Status
from whitedwarf.evals.regrade import Regrading, regrade
from whitedwarf.evals.trace_reader import read_trace

HEADER = "===== EVAL TRACE =====\nformat=1\n"


def case(facts: str, output: str, number: int = 1) -> str:
    size = len(output.encode())
    head = f"\n===== CASE {number}/9 own/c{number} =====\n{facts}"
    return f"{head}MODEL_OUTPUT_BEGIN bytes={size}\n{output}\nMODEL_OUTPUT_END\n"


def regraded(*cases: str) -> Regrading:
    return regrade(read_trace((HEADER + "".join(cases)).encode()))


LETTER = "expected=B\nchoices=4\n"


def test_what_changed_is_told_with_the_totals() -> None:
    found = regraded(
        case(f"status=FAILED\npicked=A\n{LETTER}", "Answer: B", 1),
        case(f"status=PASSED\npicked=B\n{LETTER}", "Answer: B", 2),
        case("status=PASSED\npicked=70\nexpected=70\nanswer_kind=integer\n", "Answer: 71", 3),
        case("status=FAILED\npicked=\nexpected=12,14\nanswer_kind=lines\n", "Answer: 014", 4),
        case(f"status=SKIPPED\n{LETTER}", "", 5),
    )
    assert list(found.lines()) == [
        "case 1 own/c1: FAILED A -> PASSED B (expected B)",
        "case 3 own/c3: PASSED 70 -> FAILED 71 (expected 70)",
        "case 4 own/c4: FAILED - -> PASSED 14 (expected 12,14)",
        "regraded 4: passed 3, failed 1, changed 3, left out 1, errors 0",
    ]
    assert found.is_sound


@pytest.mark.parametrize("status", ["SKIPPED", "STOPPED", "SWITCHED", "ERROR"])
def test_what_was_not_answered_is_left_out(status: str) -> None:
    found = regraded(case(f"status={status}\n{LETTER}", "Answer: B"))
    assert (found.cases, found.left_out, found.is_sound) == ((), 1, False)


def test_an_old_case_without_a_status_is_graded() -> None:
    (found,) = regraded(case(LETTER, "Answer: B")).cases
    assert (found.before, found.now.status) == (None, Status.PASSED)
    assert "(none)" in str(found)


@pytest.mark.parametrize(
    ("mode", "status"),
    [("think_mode=high\n", Status.FAILED), ("think_mode=none\n", Status.PASSED), ("", Status.PASSED)],
)
def test_thoughts_that_never_closed_are_no_answer(mode: str, status: Status) -> None:
    (found,) = regraded(case(f"status=FAILED\n{mode}{LETTER}", "Answer: B")).cases
    assert found.now.status is status


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        (f"status=PERHAPS\n{LETTER}", "case 1 own/c1: status=PERHAPS: expected one of PASSED"),
        ("status=PASSED\nchoices=4\n", "expected a line expected="),
        ("status=PASSED\nexpected=B\nchoices=40\n", "choices=40: expected a number from 2 to 10"),
        ("status=PASSED\nexpected=B\nchoices=²\n", "choices=²"),
        ("status=PASSED\nexpected=B\n", "answer_kind=: expected integer or lines"),
        ("status=PASSED\nexpected=B\nanswer_kind=essay\n", "answer_kind=essay"),
    ],
)
def test_what_cannot_be_graded_is_an_error_and_the_others_are_graded(facts: str, told: str) -> None:
    found = regraded(case(facts, "Answer: B"), case(f"status=PASSED\npicked=B\n{LETTER}", "Answer: B", 2))
    assert not found.is_sound
    assert len(found.cases) == 1
    assert told in found.faults[0]


def test_a_case_without_its_output_and_a_trace_without_a_case_are_errors() -> None:
    assert "no MODEL_OUTPUT" in regraded(f"\n===== CASE 1/1 own/a =====\nstatus=PASSED\n{LETTER}").faults[0]
    assert "no case" in regraded().faults[0]


def test_a_cut_trace_is_an_error_behind_what_could_be_read() -> None:
    whole = case(f"status=PASSED\npicked=B\n{LETTER}", "Answer: B")
    found = regraded(whole, whole[:-30])
    assert len(found.cases) == 1
    assert not found.is_sound


@given(st.text(), st.sampled_from(["choices=4\nexpected=B\n", "answer_kind=integer\nexpected=7\n"]))
def test_any_output_can_be_regraded(output: str, facts: str) -> None:
    found = regraded(case(f"status=FAILED\n{facts}", output.encode("utf-8", "replace").decode()))
    assert len(found.cases) == 1
