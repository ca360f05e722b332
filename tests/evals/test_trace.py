"""Traces: every byte kept, nobody else may read them, a kill costs one case at most."""

import contextlib
import os
import resource
import stat
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.answering import ASKING, FACTS, TableTarget, letters
from whitedwarf.errors import FileFormatError, UsageError
from whitedwarf.evals.answer import Answer
from whitedwarf.evals.budget import CloseKind, Limits, ThinkClose
from whitedwarf.evals.exam import Ending, Exam, Seat
from whitedwarf.evals.grade import Status
from whitedwarf.evals.prompts import SYSTEM_PROMPT, question_prompt
from whitedwarf.evals.selftest import NASTY_OUTPUTS, failures, num_checks
from whitedwarf.evals.trace import TraceFile, case_block, header_facts
from whitedwarf.evals.trace_reader import read_trace, read_trace_file

CASES = letters("a", "b", "c")
HEADER = header_facts(FACTS, ASKING, Limits(), num_cases=3, max_prompt_tokens=7)


def seat(output: bytes, **ending: str) -> Seat:
    seat = Seat(2, CASES[1], answer=Answer(), ending=Ending(Status.FAILED, "A", **ending))
    seat.answer.say(output, "", is_thinking=False)
    return seat


def written(path: Path, target: TableTarget | None = None) -> bytes:
    trace = TraceFile.create(path, HEADER, 3, ASKING)
    exam = Exam(CASES, target or TableTarget(), ASKING, [trace])
    anyio.run(exam.run)
    trace.finish({"passed": 3})
    trace.close()
    trace.close()
    assert trace.failure is None
    return path.read_bytes()


def test_a_whole_exam_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    written(path)
    trace = read_trace_file(path)
    assert trace.fault is None
    assert trace.header["model"] == "table.gguf"
    assert trace.header["started_unix"].isdigit()
    assert trace.header["sampling"] == "temp=0 top_p=1 min_p=0.05"
    assert [part.name for part in trace.cases] == ["own/a", "own/b", "own/c"]
    assert trace.cases[0].facts["status"] == "PASSED"
    assert trace.cases[0].facts["picked"] == trace.cases[0].facts["expected"] == "B"
    assert trace.cases[0].facts["choices"] == "3"
    assert trace.cases[0].texts == {
        "SYSTEM_PROMPT": SYSTEM_PROMPT.encode(),
        "QUESTION_PROMPT": question_prompt(CASES[0]).encode(),
        "MODEL_OUTPUT": b"Hm. Well. </think>Answer: B ",
    }
    assert trace.summary == {"passed": "3"}


def test_only_its_owner_may_read_it(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        written(tmp_path / "trace")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "trace").stat().st_mode) == 0o600


def test_an_earlier_file_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text("mine")
    with pytest.raises(UsageError, match="exists already; give another name, or go on with it: --resume-trace"):
        TraceFile.create(path, HEADER, 3, ASKING)
    assert path.read_text() == "mine"


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("/dev/null")])
def test_no_folder_pipe_or_link_is_written_to(tmp_path: Path, make) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "trace"
    make(path)
    with pytest.raises(UsageError):
        TraceFile.create(path, HEADER, 3, ASKING)
    with pytest.raises(UsageError):
        TraceFile.go_on(path, 0, 0, 3, ASKING)
    with pytest.raises(UsageError, match="cannot write"):
        TraceFile.create(tmp_path / "none" / "trace", HEADER, 3, ASKING)


@pytest.mark.parametrize("output", NASTY_OUTPUTS)
def test_bytes_are_kept_whatever_they_look_like(output: bytes) -> None:
    trace = read_trace(case_block(seat(output), 3, ASKING) + case_block(seat(b"next"), 3, ASKING))
    assert [part.texts["MODEL_OUTPUT"] for part in trace.cases] == [output, b"next"]
    assert trace.fault is None


MARKUP = st.sampled_from(
    [b"\nMODEL_OUTPUT_END\n", b"===== CASE 1/1 a/b =====\n", b"MODEL_OUTPUT_BEGIN bytes=2\n", b"\n\n", b"=", b"\xff"]
)


@given(st.lists(st.binary() | MARKUP).map(b"".join), st.text(), st.text())
def test_any_output_error_and_answer_come_back(output: bytes, error: str, given_answer: str) -> None:
    block = seat(output)
    block.ending = Ending(Status.ERROR, given_answer, error)
    trace = read_trace(case_block(block, 3, ASKING))
    assert trace.fault is None
    assert trace.cases[0].texts["MODEL_OUTPUT"] == output
    told = " ".join(error.encode("utf-8", "replace").decode().split())
    assert trace.cases[0].facts.get("error", "") == told


@given(st.data())
def test_a_cut_trace_keeps_all_cases_before_the_cut(data: st.DataObject) -> None:
    blocks = [b"===== EVAL TRACE =====\nformat=1\n", *(case_block(seat(out), 3, ASKING) for out in NASTY_OUTPUTS[:5])]
    whole = b"".join(blocks)
    cut = data.draw(st.integers(len(blocks[0]), len(whole)))
    trace = read_trace(whole[:cut])
    ends = [len(b"".join(blocks[: n + 1])) for n in range(len(blocks))]
    complete = [part for part in trace.cases if "MODEL_OUTPUT" in part.texts]
    assert len(complete) == sum(end <= cut for end in ends[1:])
    assert trace.end_bytes == max(end for end in ends if end <= cut)
    if cut in ends:
        assert trace.fault is None


@given(st.binary() | st.lists(st.binary(max_size=9) | MARKUP).map(b"".join))
def test_what_is_no_trace_is_refused_or_told(data: bytes) -> None:
    with contextlib.suppress(FileFormatError):
        read_trace(data)


def test_how_the_thoughts_closed_stands_in_it() -> None:
    block = seat(b"")
    block.answer.closed = ThinkClose(CloseKind.SOFT, 12, 900, 3)
    facts = read_trace(case_block(block, 3, ASKING)).cases[0].facts
    assert [facts[f"think_close{name}"] for name in ("", "_token", "_remaining", "_rank")] == [
        "soft_forced",
        "12",
        "900",
        "3",
    ]


def test_going_on_takes_a_cut_block_away(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    data = written(path)
    path.write_bytes(data[: data.rindex(b"MODEL_OUTPUT_END")])
    before = read_trace_file(path)
    assert len(before.cases) == 2
    assert before.fault is not None
    trace = TraceFile.go_on(path, path.stat().st_size, before.end_bytes, 3, ASKING)
    trace.on_end(seat(b"again"))
    trace.finish({"passed": 2})
    trace.close()
    after = read_trace_file(path)
    assert after.fault is None
    assert [part.texts["MODEL_OUTPUT"] for part in after.cases[2:]] == [b"again"]
    assert after.summary == {"passed": "2"}


def test_one_exam_at_a_time_writes_it(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    size_bytes = len(written(path))
    end_bytes = read_trace_file(path).end_bytes
    trace = TraceFile.go_on(path, size_bytes, end_bytes, 3, ASKING)
    with pytest.raises(UsageError, match="another exam is writing it"):
        TraceFile.go_on(path, size_bytes, end_bytes, 3, ASKING)
    trace.on_end(seat(b"again"))
    trace.close()
    with pytest.raises(UsageError, match="has written it meanwhile"):
        TraceFile.go_on(path, size_bytes, end_bytes, 3, ASKING)
    assert [part.texts["MODEL_OUTPUT"] for part in read_trace_file(path).cases[3:]] == [b"again"]


def test_a_full_disk_is_told_and_leaves_whole_blocks(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    pid = os.fork()
    if pid == 0:
        os._exit(_on_a_full_disk(path))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    trace = read_trace_file(path)
    assert trace.fault is None
    assert len(trace.cases) == 1


def _on_a_full_disk(path: Path) -> int:
    import signal

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, resource.RLIM_INFINITY))
    trace = TraceFile.create(path, HEADER, 3, ASKING)
    trace.on_end(seat(b"fits"))
    trace.on_end(seat(b"x" * 4000))
    trace.on_end(seat(b"is not written any more"))
    return 0 if trace.failure else 1


def test_a_block_that_is_interrupted_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "trace"
    trace = TraceFile.create(path, HEADER, 3, ASKING)

    def terminated(descriptor: int) -> None:
        raise SystemExit(143)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", terminated)
        with pytest.raises(SystemExit):
            trace.on_end(seat(b"half"))
    trace.finish({"passed": 0})
    trace.close()
    found = read_trace_file(path)
    assert (found.fault, found.cases, found.summary) == (None, (), {"passed": "0"})


def test_the_self_test_passes() -> None:
    assert failures() == []
    assert num_checks() > 90
