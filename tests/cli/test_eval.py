"""`whitedwarf eval` on nano: exams of our own questions, traces, gates, and what is refused."""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from whitedwarf.evals.trace_reader import read_trace_file

Call = Callable[[Sequence[str]], tuple[int, str, str]]
GOLDEN = Path(__file__).parents[1] / "golden" / "evals"
CASES = str(GOLDEN / "cases.jsonl")
SHORT = ["-n", "48", "--soft-limit-reply-budget", "40", "--hard-limit-reply-budget", "32"]


@pytest.fixture
def ask(in_process: Call) -> Call:
    """An exam of the golden cases, short and plain."""

    def ask(words: Sequence[str]) -> tuple[int, str, str]:
        return in_process(["eval", "--plain", "--cases", CASES, *SHORT, *words])

    return ask


def document(out: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


def outcomes(out: str) -> list[tuple[str, str, int]]:
    return [(case["status"], case["given"], case["generated_tokens"]) for case in document(out)["cases"]]


def test_answers_are_streamed_graded_and_told(ask: Call) -> None:
    code, out, err = ask(["--seed", "1"])
    assert code == 1
    assert "--- 1/4 gpqa/freezing: At what temperature does pure water freeze at sea level?" in out
    assert re.search(r"^(PASSED|FAILED): .*, right is [ABCD]; \d+ \+ \d+ tokens, ", out, re.MULTILINE)
    assert re.search(r"^passed \d of 4 \(.*%\), failed \d, runtime ", out, re.MULTILINE)
    assert "  # state  prompt     gen   total given    correct  test" in out
    assert "\033" not in out
    assert "context 258 tokens" in err  # the longest prompt, 48 and one
    found = document(out)
    assert found["whitedwarf_eval"] == 1
    assert found["settings"]["seed"] == 1
    assert all(case["think_close"]["kind"] != "none" for case in found["cases"])
    assert all(0 < case["generated_tokens"] <= 48 for case in found["cases"])


def test_the_same_comes_out_of_several_at_a_time(ask: Call) -> None:
    one, several = ask([])[1], ask(["--parallel", "3"])[1]
    assert outcomes(one) == outcomes(several)
    drawn = ["--temp", "1", "--seed", "7"]
    assert outcomes(ask(drawn)[1]) == outcomes(ask([*drawn, "--parallel", "4"])[1])


def test_some_cases_in_some_order(ask: Call) -> None:
    found = document(ask(["--case-sequence", "3, 1"])[1])
    assert [case["id"] for case in found["cases"]] == ["sum", "freezing"]
    assert len(document(ask(["--questions", "2"])[1])["cases"]) == 2


def test_without_thoughts(ask: Call) -> None:
    code, out, _ = ask(["--nothink", "--questions", "1"])
    (case,) = document(out)["cases"]
    assert case["think_mode"] == "none"
    assert case["think_close"]["kind"] == "none"
    assert code in (0, 1)


def test_a_trace_is_regraded_to_the_same(ask: Call, in_process: Call, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    _, out, _ = ask(["--trace", str(path)])
    trace = read_trace_file(path)
    assert trace.header["backend"] == "cpu"
    assert trace.header["max_prompt_tokens"] == "209"
    assert [part.facts["status"] for part in trace.cases] == [status for status, _, _ in outcomes(out)]
    assert trace.summary is not None
    code, out, _ = in_process(["eval", "--regrade-trace", str(path)])
    assert code == 0
    assert "regraded 4" in out
    assert "changed 0" in out


def test_a_trace_that_was_cut_is_gone_on_with(ask: Call, tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    _, out, _ = ask(["--trace", str(whole)])
    data = whole.read_bytes()
    cut.write_bytes(data[: data.index(b"===== CASE 3/") + 300])
    code, again, _ = ask(["--resume-trace", str(cut)])
    assert code == 1
    assert outcomes(again) == outcomes(out)
    assert "--- 3/4" in again
    assert "--- 2/4" not in again
    assert [part.number for part in read_trace_file(cut).cases] == [1, 2, 3, 4]
    assert document(again)["settings"]["seed"] == document(out)["settings"]["seed"]


@pytest.mark.parametrize(
    "words", [["--nothink"], ["--ctx", "250"], ["--questions", "3"], ["--seed", "3", "--temp", "1"]]
)
def test_another_exam_does_not_go_on_with_it(words: list[str], ask: Call, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    ask(["--trace", str(path)])
    before = path.read_bytes()
    code, _, err = ask(["--resume-trace", str(path), *words])
    assert code == 2
    assert "give the same options" in err
    assert path.read_bytes() == before


def test_the_gate_sees_every_difference(ask: Call, tmp_path: Path) -> None:
    trace, file = tmp_path / "trace", tmp_path / "exam.json"
    ask(["--trace", str(trace), "--json", str(file)])
    for expected in (trace, file):
        code, _, err = ask(["--expect", str(expected)])
        assert (code, "4 cases as expected" in err) == (0, True)
        code, _, err = ask(["--expect", str(expected), "--soft-limit-think-close-rank", "0"])
        assert code == 1
        assert "other than expected: " in err
        code, _, err = ask(["--expect", str(expected), "--questions", "3"])
        assert code == 1
        assert "gpqa/colour: expected FAILED" in err
    code, _, err = ask(["--expect", str(file), "--json", str(file)])
    assert (code, "which is being read" in err) == (2, True)
    other = json.loads(file.read_text())
    other["cases"][1]["generated_tokens"] += 1
    file.write_text(json.dumps(other))
    code, _, err = ask(["--expect", str(file)])
    assert code == 1
    assert err.count("other than expected: gpqa/capital: expected ") == 1


def test_cases_that_do_not_fit_are_skipped(ask: Call) -> None:
    code, out, err = ask(["--ctx", "200"])
    states = {case["id"]: case["status"] for case in document(out)["cases"]}
    assert states["freezing"] == "SKIPPED"
    assert states["capital"] in ("PASSED", "FAILED")
    assert "some may be cut" in err
    assert "leaves no room in the context of 200" in out
    assert code == 1


def test_the_self_test_and_its_count(in_process: Call) -> None:
    code, out, _ = in_process(["eval", "--self-test-extractors"])
    assert code == 0
    assert re.fullmatch(r"(\d+) of \1 checks passed\n", out)


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["--questions", "5"], 2, "there are 4 cases"),
        (["--questions", "0"], 2, "Must be >= 1"),
        (["--case-sequence", "1,5"], 2, "expected numbers from 1 to 4"),
        (["--case-sequence", "1,,2"], 2, "expected numbers from 1 to 4"),
        (["--case-sequence", "1,1"], 2, "a case stands there twice"),
        (["--case-sequence", "1", "--questions", "1"], 2, "exclude each other"),
        (["--ctx", "1000001"], 2, "this model has a context of 32768"),
        (["--ctx", "40000"], 2, "this model has a context of 32768"),
        (["--think", "--nothink"], 2, "exclude each other"),
        (["--expect", "nothing"], 2, "--expect: cannot read nothing: No such file"),
        (["--resume-trace", "nothing"], 2, "cannot read nothing"),
        (["--trace", "."], 2, "cannot write ."),
        (["--trace", "a", "--resume-trace", "b"], 2, "exclude each other"),
        (["--api-key-env", "KEY"], 2, "give its --url"),
        (["--json", "/"], 2, "it is a folder"),
        (["--shape", "mmlu"], 1, "line 1: expected a key 'choices' or 'options'"),
    ],
)
def test_what_cannot_be_done_is_told(words: list[str], code: int, told: str, ask: Call) -> None:
    found, _, err = ask(words)
    assert (found, told in err) == (code, True), err


def test_no_file_takes_the_place_of_another(ask: Call, tmp_path: Path, babbler: Path) -> None:
    new = str(tmp_path / "new")
    code, _, err = ask(["--trace", new, "--json", new])
    assert (code, "are the same file" in err) == (2, True)
    code, _, err = ask(["--json", CASES])
    assert (code, "which is being read" in err) == (2, True)
    before = babbler.read_bytes()
    code, _, err = ask(["-m", str(babbler), "--json", str(babbler)])
    assert (code, "which is being read" in err) == (2, True)
    assert babbler.read_bytes() == before


def test_an_exam_that_is_too_long_or_not_there_is_refused(in_process: Call) -> None:
    code, _, err = in_process(["eval", "--plain", "--cases", CASES, "-n", "1000000"])
    assert (code, "the most is 1000000" in err) == (2, True)
    code, _, err = in_process(["eval", "--plain", "--cases", "nothing"])
    assert (code, "cannot read nothing" in err) == (2, True)


def test_what_is_no_trace_is_told(in_process: Call, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text("hello\n")
    code, _, err = in_process(["eval", "--regrade-trace", str(path)])
    assert code == 1
    assert "expected a heading" in err


def test_think_max_needs_more_context_than_nano_has(ask: Call) -> None:
    code, out, err = ask(["--think-max", "--questions", "1"])
    assert "--think-max needs a context of 393216, here are 32768: using --think" in err
    assert document(out)["settings"]["thinking"] == "high"
    assert code in (0, 1)


def test_the_page_names_flags_that_exist_and_all_of_the_exams_own(in_process: Call) -> None:
    flag = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]+")
    page = (Path(__file__).parents[2] / "docs" / "eval.md").read_text()
    helped = in_process(["eval", "--help"])[1]
    own = helped.partition("Exam:")[2]
    assert set(flag.findall(page)) <= set(flag.findall(helped))
    assert set(flag.findall(own)) - set(flag.findall(page)) == {"--think", "--help"}
