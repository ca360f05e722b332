"""The gate: what differs from an earlier exam, whichever file that has left."""

import json
from pathlib import Path

import anyio
import pytest

from evals.answering import ASKING, FACTS, TableTarget, letters
from whitedwarf.errors import FileFormatError, UsageError, WhitedwarfError
from whitedwarf.evals.budget import Limits
from whitedwarf.evals.exam import Exam
from whitedwarf.evals.expect import read_expectation
from whitedwarf.evals.report import Report
from whitedwarf.evals.target import Asking
from whitedwarf.evals.trace import TraceFile, header_facts

CASES = letters("a", "b", "c")
LIMITS = Limits()


def examined(
    target: TableTarget | None = None, asking: Asking = ASKING, limits: Limits = LIMITS, trace: Path | None = None
) -> Report:
    watchers = []
    if trace is not None:
        header = header_facts(FACTS, asking, limits, num_cases=3, max_prompt_tokens=7)
        watchers.append(TraceFile.create(trace, header, 3, asking))
    exam = Exam(CASES, target or TableTarget(), asking, watchers)
    anyio.run(exam.run)
    for watcher in watchers:
        watcher.close()
    return Report.of(exam, limits)


@pytest.fixture(params=["document", "trace"])
def earlier(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "earlier"
    report = examined(trace=path if request.param == "trace" else None)
    if request.param == "document":
        path.write_text(json.dumps(report.document()))
    return path


def differences(earlier: Path, report: Report) -> list[str]:
    return list(read_expectation(earlier).differences(report))


def test_the_same_again_is_no_difference(earlier: Path) -> None:
    assert differences(earlier, examined()) == []


def test_another_answer_count_or_ending_is_one(earlier: Path) -> None:
    target = TableTarget(
        {"a": "Hm. </think> Answer: B", "b": WhitedwarfError("lost"), "c": "Hm. Well. </think> Answer: C"}
    )
    assert differences(earlier, examined(target)) == [
        "own/a: expected PASSED B after 5 tokens, now PASSED B after 4 tokens",
        "own/b: expected PASSED B after 5 tokens, now ERROR - after 0 tokens",
        "own/c: expected PASSED B after 5 tokens, now FAILED C after 5 tokens",
    ]


def test_another_way_of_asking_is_one(earlier: Path) -> None:
    (told,) = differences(earlier, examined(limits=Limits(soft=7)))
    assert "expected 1024, this exam has 7" in told
    assert differences(earlier, examined(asking=Asking(100, 0.0, 1.0, 0.05, 2, "high"))) == []  # nothing is drawn
    drawn = Asking(100, 0.5, 1.0, 0.05, 2, "high")
    assert len(differences(earlier, examined(asking=drawn))) == 2


def test_cases_that_are_missing_or_new_are_some(earlier: Path) -> None:
    exam = Exam(letters("a", "d"), TableTarget(), ASKING)
    anyio.run(exam.run)
    assert differences(earlier, Report.of(exam, LIMITS)) == [
        "own/d: not expected, now PASSED B after 5 tokens",
        "own/b: expected PASSED B after 5 tokens, now not in the exam",
        "own/c: expected PASSED B after 5 tokens, now not in the exam",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "there is no case in it"),
        ("hello\n", "expected a heading"),
        ("{}", "what `whitedwarf eval --json FILE` writes; KeyError"),
        ('{"whitedwarf_eval": 2}', "format 1, got 2"),
        ('{"whitedwarf_eval": 1, "cases": [7], "settings": {}}', "TypeError"),
        ('{"whitedwarf_eval": 1, "cases": [], "settings": 7}', "AttributeError"),
        ("{", "JSONDecodeError"),
        ("===== EVAL TRACE =====\nformat=1\n\n===== CASE 1/1 a/b =====\ngenerated_tokens=x\n", "expected a number"),
        ("===== EVAL TRACE =====\nformat=1\n\n===== CASE 1/1 a/b =====\ncut", "the last line is cut"),
    ],
)
def test_what_is_neither_is_refused(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "earlier"
    path.write_text(text)
    with pytest.raises(FileFormatError, match=told):
        read_expectation(path)
    with pytest.raises(UsageError, match="--expect"):
        read_expectation(tmp_path)
