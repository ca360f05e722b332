"""Reports: the table, the document, the exit code."""

import json

import anyio
import pytest

from evals.answering import ASKING, TableTarget, letters
from whitedwarf.errors import WhitedwarfError
from whitedwarf.evals.budget import Limits
from whitedwarf.evals.exam import Exam
from whitedwarf.evals.report import Report

RIGHT, WRONG = "Hm. </think> Answer: B", "Hm. </think> Answer: C"


def report(**answers: str | WhitedwarfError) -> Report:
    exam = Exam(letters(*answers), TableTarget(answers, skipped=frozenset({"skipped"})), ASKING)
    anyio.run(exam.run)
    return Report.of(exam, Limits())


def test_the_table_has_a_row_for_each() -> None:
    lines = report(a=RIGHT, b=WRONG, skipped=RIGHT, d=WhitedwarfError("lost")).table().splitlines()
    assert lines[0].startswith("passed 1 of 2 (50.0%), failed 1, errors 1, skipped 1, runtime 0.")
    assert lines[1] == "  # state  prompt     gen   total given    correct  test"
    assert lines[2] == "  1 PASS        7       4      11 B        B        own/a  Case a"
    assert lines[3] == "  2 FAIL        7       4      11 C        B        own/b  Case b"
    assert lines[4] == "  3 SKIP        0       0       0 -        B        own/skipped  no room"
    assert lines[5] == "  4 ERR         7       0       7 -        B        own/d  lost"


def test_the_document_is_json_with_everything() -> None:
    found = json.loads(json.dumps(report(a=RIGHT, b=WRONG).document()))
    assert (found["passed"], found["failed"], found["errors"]) == (1, 1, 0)
    assert found["target"]["context_tokens"] == 1000
    assert found["settings"] == {
        "max_tokens": 100,
        "temperature": 0.0,
        "top_p": 1.0,
        "min_p": 0.05,
        "seed": 1,
        "thinking": "high",
        "soft_limit": 1024,
        "hard_limit": 512,
        "close_rank": 3,
    }
    assert [case["status"] for case in found["cases"]] == ["PASSED", "FAILED"]
    assert found["cases"][1]["expected"] == "B"


@pytest.mark.parametrize(
    ("answers", "code"),
    [
        ({"a": RIGHT}, 0),
        ({"a": RIGHT, "b": WRONG}, 1),
        ({"a": RIGHT, "b": WhitedwarfError("lost")}, 1),
        ({"a": RIGHT, "skipped": RIGHT}, 0),
        ({"skipped": RIGHT}, 1),
        ({"a": WRONG}, 1),
    ],
)
def test_the_exit_code_is_0_where_all_that_was_answered_is_right(answers: dict[str, str], code: int) -> None:
    assert report(**answers).exit_code == code


def test_no_terminal_obeys_the_table() -> None:
    assert "\x1b" not in report(a=WhitedwarfError("\x1b[2Jgone")).table()


def test_a_very_long_answer_does_not_break_the_table() -> None:
    exam = Exam(letters("a"), TableTarget(), ASKING)
    anyio.run(exam.run)
    ending = exam.seats[0].ending
    assert ending is not None
    exam.seats[0].ending = type(ending)(ending.status, "9" * 5000)
    assert max(map(len, Report.of(exam, Limits()).table().splitlines())) < 120
